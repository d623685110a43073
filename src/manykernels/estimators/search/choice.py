"""Which model of a path to take: the best on held-out folds, or the simplest that is about as
good.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data.frames import data_frame


@dataclass(eq=False)
class Choice:
    """Scores of the values of C of a path on held-out folds. Made by `Path.choose`.

    Attributes
    ----------
    best : fitted estimator
        The model of the path with the largest mean score; the smallest C of equals.
    simplest : fitted estimator
        That with the smallest C whose mean score is within one standard error of it.
    costs : (c,) array
        C, ascending.
    n_groups : (c,) array
        Groups with weight in the models of the path.
    scores : (n_folds, c) array
    scoring : str
        What they are.
    """

    best: Any
    simplest: Any
    costs: np.ndarray
    n_groups: np.ndarray
    scores: np.ndarray
    scoring: str

    @property
    def means(self) -> np.ndarray:
        """Mean scores, (c,)."""
        return self.scores.mean(axis=0)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the mean scores, (c,)."""
        if len(self.scores) < 2:
            return np.zeros(self.costs.size)
        return self.scores.std(axis=0, ddof=1) / np.sqrt(len(self.scores))

    def frame(self, backend: str = "pandas") -> Any:
        """Every C as a table: number of groups, mean score and its standard error, and which is
        the best and the simplest.

        Parameters
        ----------
        backend : {"pandas", "polars"}
        """
        columns = {
            "C": self.costs,
            "groups": self.n_groups,
            "score": self.means,
            "standard error": self.errors,
            "best": self.costs == self.best.C,
            "simplest": self.costs == self.simplest.C,
        }
        return data_frame(columns, backend)

    def __repr__(self) -> str:
        end = ", the last of the path" if self.best.C == self.costs[-1] else ""
        return (
            f"<Choice by {self.scoring} on {len(self.scores)} folds: best {self._words(self.best)}"
            f"{end}; simplest within one standard error {self._words(self.simplest)}>"
        )

    def _words(self, model):
        place = int(np.flatnonzero(self.costs == model.C)[0])
        count = int(self.n_groups[place])
        return (
            f"{self.means[place]:.3f} ± {self.errors[place]:.3f} with {count} "
            f"group{'s' * (count != 1)} (C = {model.C:.3g})"
        )


def choose(path, X, y, scoring, cv, sample_weight) -> Choice:
    """The choice among the models of a path over C; see `Path.choose`."""
    template, costs = path[0], path.costs
    norms = {model.p for model in path}
    if len(norms) > 1 or np.unique(costs).size < costs.size:
        raise ValueError("A path that is to be chosen from has one p, and every C once.")
    tuned = _tuner(template, costs, scoring, cv).fit(X, y, sample_weight=sample_weight)
    order = np.argsort(costs)
    scores = tuned.scores_[:, :, 0]
    means = scores.mean(axis=0)
    if np.isnan(means).all():  # broken off before any was finished
        raise KeyboardInterrupt
    return Choice(
        best=path[int(order[np.nanargmax(means)])],
        simplest=path[int(order[tuned.best_index_[0]])],
        costs=costs[order],
        n_groups=path.n_groups()[order],
        scores=scores,
        scoring=_name(template, scoring),
    )


def _tuner(template, costs, scoring, cv):
    """The estimator that cross-validates these C, with the other parameters of a model."""
    for name in ("regularizer", "combination"):
        given, usual = getattr(template, name), {"regularizer": None, "combination": "sum"}[name]
        if given != usual:
            raise ValueError(f"Cross-validation of a path needs {name}={usual!r}, got {given!r}.")
    kind = template._tuned_type
    known, given = kind._get_param_names(), template.get_params(deep=False)
    shared = {name: value for name, value in given.items() if name in known}
    shared |= {"checkpoint": None, "callbacks": None}
    if is_classifier(template):
        shared["calibration"] = None
    return kind(
        **shared,
        Cs=costs,
        ps=[template.p],
        cv=cv,
        scoring=scoring,
        refit=False,
        rule="one_standard_error",
    )


def _name(template, scoring):
    if scoring is None:
        return "accuracy" if is_classifier(template) else "r2"
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
