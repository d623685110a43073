"""What pictures and reports say of the kernels of a fitted model: shares of the weight, heaviest
first.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._canonical import canonical_rows
from .._shares import heaviest
from .._words import count, percent
from ..banks import Bank
from ..estimators.answers.contributions import regularization_name, told_apart
from ..estimators.data.units import in_units
from .axes import OTHERS, color_of


@dataclass(frozen=True)
class Row:
    """One line of a table of kernels or of groups.

    Attributes
    ----------
    name, group : str
    count, used : int
        How many kernels the line stands for, and how many of them have weight.
    share : float
        Of the weight of the kernels that say something about other points, and of all weight for
        those that do not; the mean over the outputs where each has its own weights.
    contribution : float or None
        Share of the decision, likewise, where it is known.
    shares : (t,) array
        The share in every output that has its own weights.
    color : str
        That of the group, the same in all pictures.
    stands_for : {"", "others", "regularization"}
        What the line has instead of a kernel or a group.
    """

    name: str
    group: str
    count: int
    used: int
    share: float
    contribution: float | None
    shares: np.ndarray
    color: str
    stands_for: str = ""

    @property
    def weight(self):
        """The share of the weight, as words."""
        return self._words(self.share)

    @property
    def decision(self):
        """The share of the decision, as words; empty where it is not known."""
        return "" if self.contribution is None else self._words(self.contribution)

    def _words(self, share):
        return percent(share) + " of all" * (self.stands_for == "regularization")


class Shares:
    """Shares of the kernels of a fitted model, ready to be cut to the heaviest.

    Kernels that say nothing about other points have a line of their own, the last, and their share
    of everything; the others share the rest.

    Parameters
    ----------
    estimator : fitted MKL estimator
    with_contributions : bool
        Whether to compute the share of each kernel in the decision too, which takes one pass over
        the kernels.
    """

    def __init__(self, estimator, with_contributions=False):
        check_is_fitted(estimator)
        self.names, self._groups = estimator.bank_.names, estimator.bank_.groups
        # the weights of a combination that is no sum belong to features, each a group of its own
        self.grouped = estimator.bank_.is_sum and any(self._groups)
        self.weights = np.atleast_2d(estimator.kernel_weights_)
        self.silent = estimator._is_silent
        self.shares = np.stack([told_apart(row, self.silent) for row in self.weights])
        self.share = self.shares.mean(axis=0)
        found = getattr(estimator, "kernel_contributions_", None) if with_contributions else None
        self.contribution = None if found is None else told_apart(found, self.silent)
        self.colors = color_of(self._groups if self.grouped else ())
        self.outputs = output_names(estimator) if estimator.kernel_weights_.ndim == 2 else []

    def color(self, group):
        """The color of a group in all pictures."""
        return self.colors.get(group, self.colors[""])

    @property
    def m(self):
        return self.share.size

    @property
    def used(self):
        """How many kernels have weight in any output."""
        return int(np.count_nonzero(self.weights.any(axis=0)))

    def kernels(self, most):
        """The heaviest kernels, one row for all others if there are more with weight, and one for
        what regularizes.
        """
        heard = np.flatnonzero(~self.silent)
        ties = None if self.contribution is None else self.contribution[heard]
        shown, left = (heard[some] for some in heaviest(self.share[heard], most, ties))
        rows = [self._row(self.names[k], self._groups[k] if self.grouped else "", k) for k in shown]
        if np.count_nonzero(self.share[left]):
            rows.append(self._row(count(left.size, "other"), "", left, "others"))
        return [*rows, *self._regularization()]

    def groups(self, most=20):
        """The groups of kernels, heaviest first, one row for all beyond `most`, and one for what
        regularizes; empty where there are no groups.
        """
        if not self.grouped:
            return []
        members = {}
        for k, group in enumerate(self._groups):
            heard = members.setdefault(group or "no group", [])
            heard += [] if self.silent[k] else [k]
        rows = sorted(
            (self._row(name, name, ks) for name, ks in members.items()),
            key=lambda row: -row.share,
        )
        if len(rows) > most:
            left = np.concatenate([members[row.name] for row in rows[most:]])
            name = count(len(rows) - most, "other group")
            rows = [*rows[:most], self._row(name, "", left, "others")]
        return [*rows, *self._regularization()]

    def _regularization(self):
        """A row for kernels with weight that say nothing about other points, if there are some."""
        used = np.flatnonzero(self.silent & (self.share > 0.0))
        name = regularization_name(self._groups)
        return [self._row(name, "", used, "regularization")] if used.size else []

    def _row(self, name, group, kernels, stands_for=""):
        kernels = np.atleast_1d(kernels).astype(int)
        contribution = (
            None if self.contribution is None else float(self.contribution[kernels].sum())
        )
        used = int(np.count_nonzero(self.weights[:, kernels].any(axis=0)))
        share, shares = float(self.share[kernels].sum()), self.shares[:, kernels].sum(axis=1)
        color = OTHERS if stands_for else self.color(group)
        found = share, contribution, shares, color, stands_for
        return Row(str(name), str(group), kernels.size, used, *found)


def fitted_model(estimator):
    """The MKL estimator inside a search, a pipeline or a feature selector; the estimator itself if
    it is none of these.
    """
    for _ in range(8):  # a search over a pipeline that ends in a search ...
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "estimator_"):
            estimator = estimator.estimator_
    if not hasattr(type(estimator), "weights_frame"):
        raise TypeError(
            "An MKL estimator is needed (MKLClassifier, MKLRegressor, MKLOneClass), a pipeline or "
            "a search that ends in one, "
            f"got {type(estimator).__name__}."
        )
    return estimator


def output_names(estimator):
    """One name per output: classes, pairs of classes, or numbers."""
    if hasattr(estimator, "_output_names"):
        return estimator._output_names()
    return [f"output {c}" for c in range(len(estimator.intercept_))]


def training_rows(model, X, y):
    """The rows of (X, y) that are the points of the model's bank, in its order; None if it was
    trained on other data.
    """
    if model.decision_.approximate:
        return None
    X, y = model._read_new(X, in_units=False)[0], np.asarray(y)
    # as in fit: equal rows are one if they have one target, and novelty detection has none
    codes = (
        np.zeros(len(y), dtype=int)
        if hasattr(model, "nu")
        else np.unique(y, axis=0, return_inverse=True)[1].ravel()
    )
    if isinstance(model.kernels, Bank):
        rows = np.arange(X.shape[0])
    else:
        rows = canonical_rows(X, codes, np.ones(X.shape[0])).rows
    return rows if model.bank_.same_data(in_units(model, X[rows])) else None


def rows_of(estimator, X):
    """X as the MKL estimator inside a search or a pipeline gets it."""
    for _ in range(8):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
    return X


class Surface(NamedTuple):
    """Scores of a tuned model over C and p.

    Attributes
    ----------
    costs, norms : (c,) and (p,) arrays
    means, errors : (c, p) arrays
        Of the scores on held-out folds: mean and standard error.
    chosen : pair of int
    """

    costs: np.ndarray
    norms: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    chosen: tuple[int, int]

    @classmethod
    def of(cls, estimator):
        """Of a fitted estimator that was tuned, or of a pipeline that ends in one."""
        model = estimator[-1] if hasattr(estimator, "steps") else estimator
        if not hasattr(model, "best_index_") or not hasattr(model, "Cs_"):
            raise TypeError(
                "Scores over C and p are known of a fitted MKLClassifierCV or MKLRegressorCV, got "
                f"{type(model).__name__}."
            )
        folds = np.count_nonzero(~np.isnan(model.scores_), axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = np.nansum(model.scores_, axis=0)
            means = np.where(folds > 0, total / folds, np.nan)
            squares = np.nansum((model.scores_ - means) ** 2, axis=0)
            errors = np.where(folds > 1, np.sqrt(squares / (folds - 1) / folds), 0.0)
        return cls(model.Cs_, model.ps_, means, errors, tuple(model.best_index_))
