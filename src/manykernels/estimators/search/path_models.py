"""The models of a path, and what they say of C and of the number of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._shares import heard_shares
from ..answers.contributions import grouped
from ..checks import Points
from ..data.frames import data_frame
from .choice import Choice, choose
from .group_path import Jump


class Path:
    """Fitted models along a path. Made by `path`.

    They come in the order in which a path over C and p is told to visit them, and with
    ``max_groups`` by their C. They share one bank, so memory grows with the number of support
    vectors only.

    Attributes
    ----------
    models : list of estimators
    jumps : list of Jump
        With ``max_groups``: groups that no C tells apart, because they enter together. Numbers of
        groups between are not on the path.
    """

    def __init__(self, models: list, jumps: Sequence[Jump] = ()):
        self.models, self.jumps = models, list(jumps)

    def __len__(self) -> int:
        return len(self.models)

    def __iter__(self) -> Iterator:
        return iter(self.models)

    def __getitem__(self, place: int):
        return self.models[place]

    @property
    def costs(self) -> np.ndarray:
        """The C of every model, (len(path),)."""
        return np.array([model.C for model in self.models])

    @property
    def groups(self) -> list[str]:
        """Names of the groups of kernels; a kernel without a group is one by itself."""
        return self._grouped()[0]

    def weights(self) -> np.ndarray:
        """Kernel weights of every model, (len(path), m)."""
        return np.stack([model.kernel_weights_ for model in self.models])

    def group_weights(self) -> np.ndarray:
        """Share of each of the `groups` in the weight of every model, (len(path), g), as in its
        `group_weights_`.
        """
        members = self._grouped()[1].astype(float)
        heard = [heard_shares(model.kernel_weights_, model._is_silent)[0] for model in self.models]
        return np.stack([members @ share for share in heard])

    def n_groups(self) -> np.ndarray:
        """How many groups have weight in every model, (len(path),)."""
        return (self.group_weights() > 0.0).sum(axis=1)

    def with_groups(self, most: int):
        """The model of the largest C that has at most so many groups.

        Parameters
        ----------
        most : int
        """
        fits = np.flatnonzero(self.n_groups() <= most)
        if not fits.size:
            raise ValueError(
                f"No model of this path has at most {most} groups: they have at least "
                f"{self.n_groups().min()}."
            )
        return self.models[int(fits[np.argmax(self.costs[fits])])]

    def frame(self, backend: str = "pandas") -> Any:
        """The path as a table: C, number of groups, which entered and left since the model before,
        relative duality gap.

        Parameters
        ----------
        backend : {"pandas", "polars"}
        """
        used = self.group_weights() > 0.0
        before = np.vstack([np.zeros_like(used[:1]), used[:-1]])
        columns = {
            "C": self.costs,
            "groups": used.sum(axis=1),
            "entered": [self._named(row) for row in used & ~before],
            "left": [self._named(row) for row in before & ~used],
            "gap": [model.result_.duality_gap for model in self.models],
        }
        return data_frame(columns, backend)

    def scores(self, X: Points, y: ArrayLike, sample_weight: ArrayLike | None = None) -> np.ndarray:
        """Score of every model on other data, as their own `score` gives it, (len(path),).

        Parameters
        ----------
        X, y, sample_weight
            As for `score`.
        """
        return np.array([model.score(X, y, sample_weight) for model in self.models])

    def best(self, X: Points, y: ArrayLike, sample_weight: ArrayLike | None = None):
        """The model that scores best on other data; the first of equals.

        Parameters
        ----------
        X, y, sample_weight
            As for `score`.
        """
        return self.models[int(np.argmax(self.scores(X, y, sample_weight)))]

    def choose(
        self,
        X: Points,
        y: ArrayLike,
        *,
        scoring: Any = None,
        cv: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Choice:
        """Cross-validate every C of the path: the best, and the simplest that is about as good.

        Parameters
        ----------
        X, y, sample_weight
            The rows that the path was trained on.
        scoring : str or callable, optional
            As scikit-learn has it, such as ``"roc_auc"``; accuracy, or the coefficient of
            determination, by default.
        cv : int, splitter or iterable, optional
            As scikit-learn has it: five folds by default, stratified for classes.

        Returns
        -------
        Choice
        """
        return choose(self, X, y, scoring, cv, sample_weight)

    def _grouped(self):
        bank = self.models[0].bank_
        return grouped(bank.names, bank.groups)

    def _named(self, chosen):
        return ", ".join(name for name, one in zip(self.groups, chosen, strict=True) if one)

    def __repr__(self):
        text = f"{len(self)} models of {type(self.models[0]).__name__}"
        return f"Path({'; '.join([text, *map(str, self.jumps)])})"
