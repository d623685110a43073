"""How many kernels or groups are needed: the best one, the best two, and so on."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline

from ...result import Result, Subsets
from ..answers.contributions import grouped
from ..checks import Points, check_parameters, check_weights
from ..copies import like, unfitted
from ..data.frames import as_table, data_frame, rows_of
from ..data.inputs import ReadTable
from ..engine import Engine, Job
from ..session import FitSession
from .scoring import takes_weights
from .splits import checked_splits, listed

FIRST = 5  # numbers of kernels or groups, by default


@dataclass(eq=False)
class SparsityPath:
    """The best subsets of growing size. Made by `sparsity_path`.

    Attributes
    ----------
    k : (c,) array of int
        Numbers of kernels or groups, ascending.
    models : list of fitted estimators, or pipelines that end in them
    what : {"kernels", "groups"}
        What is counted.
    scores : (n_folds, c) array or None
        On held-out rows, of models that were fitted on the others: NaN where a fit was broken off.
    scoring : str
        What they are.
    """

    k: np.ndarray
    models: list[Any]
    what: str
    scores: np.ndarray | None = None
    scoring: str = ""

    def __len__(self) -> int:
        return len(self.models)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.models)

    def __getitem__(self, place: int) -> Any:
        return self.models[place]

    @property
    def results(self) -> list[Result]:
        """What the searches found."""
        return [_last_step(model).result_ for model in self.models]

    @property
    def objectives(self) -> np.ndarray:
        """The best values found, (c,)."""
        return np.array([result.objective for result in self.results])

    @property
    def bounds(self) -> np.ndarray:
        """What no subset of that size is better than, (c,)."""
        return np.array([result.certificate.dual for result in self.results])

    @property
    def means(self) -> np.ndarray | None:
        """Mean scores on held-out rows, (c,)."""
        return None if self.scores is None else self.scores.mean(axis=0)

    @property
    def errors(self) -> np.ndarray | None:
        """Standard errors of the mean scores, (c,)."""
        if self.scores is None:
            return None
        if len(self.scores) < 2:
            return np.zeros(len(self.models))
        return self.scores.std(axis=0, ddof=1) / np.sqrt(len(self.scores))

    @property
    def simplest(self) -> Any:
        """The model of the smallest k whose mean score is within one standard error of the best."""
        if self.means is None or self.errors is None:
            raise ValueError("There are no scores on held-out rows to choose by: give cv.")
        best = int(np.nanargmax(self.means))
        enough = self.means >= self.means[best] - self.errors[best]
        return self.models[int(np.flatnonzero(enough)[0])]

    def chosen(self, place: int) -> list[str]:
        """Names of the kernels or groups with weight in a model."""
        model = _last_step(self.models[place])
        used: np.ndarray = np.atleast_2d(model.kernel_weights_).sum(axis=0) > 0.0
        if self.what == "kernels":
            return [name for name, one in zip(model.kernel_names_, used, strict=True) if one]
        names, members = grouped(model.bank_.names, model.bank_.groups)
        return [name for name, own in zip(names, members, strict=True) if used[own].any()]

    def frame(self, backend: str = "pandas") -> Any:
        """Every k as a table: what was chosen, objective, bound, relative gap, subsets ruled out
        and, if there are any, mean score and its standard error.

        Parameters
        ----------
        backend : {"pandas", "polars"}
        """
        searched = [cast("Subsets", result.subsets) for result in self.results]
        columns: dict[str, Any] = {
            "k": self.k,
            "chosen": [", ".join(self.chosen(place)) for place in range(len(self))],
            "objective": self.objectives,
            "bound": self.bounds,
            "gap": [result.duality_gap for result in self.results],
            "ruled out": [subsets.ruled_out for subsets in searched],
            "subsets": [subsets.total for subsets in searched],
        }
        if self.scores is not None:
            columns |= {"score": self.means, "standard error": self.errors}
        return data_frame(columns, backend)

    def __repr__(self) -> str:
        return f"<SparsityPath of {self.k.tolist()} {self.what}>"


def sparsity_path(
    estimator: Any,
    X: Points,
    y: ArrayLike,
    k: int | Sequence[int] | None = None,
    *,
    by: str = "auto",
    cv: Any = 5,
    scoring: Any = None,
    sample_weight: ArrayLike | None = None,
) -> SparsityPath:
    """Train an estimator with the best k kernels or groups for every k, with proof, and score it on
    held-out rows: how many sources are needed?

    Kernels are made once for all k, and each search begins with the subset of the one before.

    Parameters
    ----------
    estimator : MKLClassifier or MKLRegressor, or a scikit-learn pipeline that ends in one
        Gives all other parameters. It is not changed. The steps before it are fitted on the
        training rows of each fold.
    X, y, sample_weight
        As for `fit`.
    k : int or sequence of int, optional
        From one to this number, or these; from one to five by default.
    by : {"auto", "kernels", "groups"}
        What is counted: by default groups, if kernels have any.
    cv : int, splitter, iterable or None
        As scikit-learn has it, stratified for classes; None for no scores.
    scoring : str or callable, optional
        As scikit-learn has it; accuracy, or the coefficient of determination, by default.

    Returns
    -------
    SparsityPath
        Up to the model that was ended by Ctrl-C or a callback, if one was.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier, sparsity_path
    >>> X, y = load_iris(return_X_y=True)
    >>> found = sparsity_path(MKLClassifier(), X, y, k=2, cv=3)
    >>> found.k.tolist(), bool((found.bounds <= found.objectives).all())
    ([1, 2], True)
    """
    model = _last_step(estimator)
    if not isinstance(model, BaseEstimator) or "max_kernels" not in model.get_params(False):
        raise TypeError(
            "A path over numbers of kernels needs an MKLClassifier or MKLRegressor, or a pipeline "
            f"that ends in one, got {model!r}."
        )
    template = unfitted(model).set_params(max_kernels=None, max_groups=None, checkpoint=None)
    search = SizeSearch(estimator, template, _sizes(k), by)
    table = X if search.steps else ReadTable.read(template, X, y)
    weight, y = check_weights(sample_weight, np.asarray(y)), np.asarray(y)
    models, what = search.trained(table, y, weight)
    path = SparsityPath(np.array(search.sizes[: len(models)]), models, what)
    if cv is None or path.results[-1].status.broken_off:
        return path
    quiet = unfitted(template).set_params(callbacks=None)
    search = SizeSearch(estimator, quiet, path.k.tolist(), what)
    path.scores, path.scoring = _scores(search, table, y, weight, cv, scoring)
    return path


def _last_step(model):
    """The estimator at the end of a pipeline, or that is none."""
    return model[-1] if isinstance(model, Pipeline) else model


def _sizes(k):
    """Numbers of kernels or groups, ascending."""
    given = FIRST if k is None else k
    sizes = list(given) if np.iterable(given) else range(1, given + 1) if _is_size(given) else []
    if not sizes or not all(map(_is_size, sizes)):
        raise ValueError(f"k must be a whole number of at least 1, or several, got {k!r}.")
    return sorted({int(one) for one in sizes})


def _is_size(k):
    return isinstance(k, numbers.Integral) and not isinstance(k, bool) and k >= 1


@dataclass(frozen=True)
class SizeSearch:
    """Models of all sizes of subsets.

    Attributes
    ----------
    estimator : estimator or Pipeline
        As it was given.
    template : estimator
        What all models have in common.
    sizes : list of int
    by : str
        What is counted.
    """

    estimator: Any
    template: Any
    sizes: list[int]
    by: str

    @property
    def steps(self) -> Any:
        """The steps before the estimator, a pipeline; None if there are none."""
        is_first = isinstance(self.estimator, Pipeline) and len(self.estimator.steps) > 1
        return self.estimator[:-1] if is_first else None

    def trained(self, X: Any, y: np.ndarray, weight: np.ndarray) -> tuple[list[Any], str]:
        """A model of each size for some rows, and what is counted."""
        if not self.steps:
            return _trained(self.template, X, y, weight, self.sizes, self.by)
        steps = clone(self.steps)
        table = steps.fit_transform(X, y)
        models, what = _trained(self.template, table, y, weight, self.sizes, self.by)
        name = self.estimator.steps[-1][0]
        return [Pipeline([*steps.steps, (name, model)]) for model in models], what


def _trained(template, X, y, weight, sizes, by):
    """A model for each size of subsets, and what is counted."""
    check_parameters(template)
    X = ReadTable.read(template, X, y)
    prepared = template._data(X, y, weight)
    prepared = FitSession(template).at_hand(prepared)
    if by == "auto":
        by = "groups" if any(prepared.bank.groups) else "kernels"
    if by not in ("kernels", "groups"):
        raise ValueError(f"by must be 'auto', 'kernels' or 'groups', got {by!r}.")
    models, engine = [], Engine(prepared.bank)

    def waves():
        for size in sizes:
            model = like(template, **{f"max_{by}": size})
            before = models[-1].result_ if models else None
            yield [Job(model, partial(_fitted, model, prepared, before))]

    for solved in engine.solve_all(waves()):
        for model, bank in solved:
            models.append(model)
            engine.bank = bank  # one that was refined stays so
        if models[-1].result_.status.broken_off:
            break
    return models, by


def _fitted(model, prepared, before, bank):
    """The bank as a fit has left it."""
    with FitSession(model) as session:
        own = prepared._replace(bank=bank)
        session.begin(own)
        session.solve(own, before)
        model._finish(session)
    return session.outcome.bank


def _scores(search, table, y, weight, cv, scoring):
    """Scores on held-out rows, (n_folds, c), and what they are."""
    template, used = search.template, np.flatnonzero(weight > 0)
    splitter = check_cv(listed(cv), y[used], classifier=is_classifier(template))
    splits = checked_splits(splitter.split(used[:, None], y[used]), weight[used])
    scorer = check_scoring(template, scoring)
    given = as_table(table.given if isinstance(table, ReadTable) else table)
    given = given.tocsr() if sparse.issparse(given) else given
    scores = np.full((len(splits), len(search.sizes)), np.nan)
    for fold, (train, test) in enumerate(splits):
        train, test = used[train], used[test]
        rows = table.rows(train) if isinstance(table, ReadTable) else rows_of(given, train)
        models, _ = search.trained(rows, y[train], weight[train])
        if _last_step(models[-1]).result_.status.broken_off:
            raise KeyboardInterrupt
        weights = {"sample_weight": weight[test]} if takes_weights(scorer) else {}
        held_out = rows_of(given, test)
        scores[fold] = [scorer(model, held_out, y[test], **weights) for model in models]
    return scores, _name(template, scoring)


def _name(template, scoring):
    if scoring is None:
        return "accuracy" if is_classifier(template) else "r2"
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
