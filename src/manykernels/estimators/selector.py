"""Feature selection by products of kernels."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted, validate_data

from ..combinations import Product
from ..regularizers import L1
from .checks import Points, RandomState, Scale, check_choice, check_not_negative, check_real
from .classifier import MKLClassifier
from .data.frames import is_annotated
from .regressor import MKLRegressor

# Weight of a column in those of the heaviest permuted one, beyond which it is more than chance;
# smaller: the heaviest columns of noise are kept, too.
MARGIN = 2.0
# Permuted columns at least, in whole copies of the table; more: the heaviest of them, which
# decides, is less a matter of luck where there are few columns.
PERMUTED = 32


class MKLFeatureSelector(SelectorMixin, BaseEstimator):
    """Keeps the features that a machine with the kernel ``exp(-sum_f d_f (x_f - z_f)^2)`` and an l1
    penalty on d gives weight.

    Features should be on one scale, since the penalty is on the weights: give ``scale="standard"``
    unless they are. Columns of noise get some weight, too, more of it the larger the penalty, since
    they set apart points that are on the wrong side. How much shows in permuted copies of the
    columns, which a second machine has beside them.

    Parameters
    ----------
    C : float
        Cost of an error.
    strength : float
        Of the penalty ``strength sum(d)``: the larger, the smaller the weights.
    threshold : float or "auto"
        Weights below this share of the largest count as none; with ``"auto"`` those that are not
        twice that of the heaviest permuted copy.
    max_features : int, optional
        Keep at most so many, the heaviest.
    task : {"auto", "classification", "regression"}
        ``"auto"`` looks at y.
    epsilon : float
        For regression: errors below it cost nothing, so it should be small beside the spread of y.
    starts : int
        Starting points of the search, which is not convex.
    scale : {"auto", "standard"} or None
        ``"standard"`` divides every column by its standard deviation; otherwise columns are taken
        as they are.
    tol, max_iter, random_state
        As for `MKLClassifier`.

    Attributes
    ----------
    weights_ : (n_features,) array
    estimator_ : MKLClassifier or MKLRegressor
        The machine that the weights belong to.
    relevant_ : (n_features,) array of bool
        Features whose weight is more than chance, or, with a given threshold, more than nothing:
        the others together change neither the objective nor the kernel by more than `tol`.
    n_features_in_ : int
    feature_names_in_ : array of str, for data frames

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLFeatureSelector
    >>> X = np.random.default_rng(0).normal(size=(150, 5))
    >>> inside = X[:, 1] ** 2 + X[:, 3] ** 2 < 1.4
    >>> selector = MKLFeatureSelector(random_state=0).fit(X, inside)
    >>> selector.get_support(indices=True).tolist()
    [1, 3]
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        strength: float = 1.0,
        threshold: float | Literal["auto"] = "auto",
        max_features: int | None = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        epsilon: float = 0.1,
        starts: int = 1,
        scale: Scale = "auto",
        tol: float = 1e-3,
        max_iter: int | None = None,
        random_state: RandomState = None,
    ):
        self.C = C
        self.strength = strength
        self.threshold = threshold
        self.max_features = max_features
        self.task = task
        self.epsilon = epsilon
        self.starts = starts
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Points, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights of the features.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
        y : (n_samples,) array of labels or numbers
        sample_weight : (n_samples,) array, optional
        """
        check_choice("task", self.task, ("auto", "classification", "regression"))
        check_real("strength", self.strength)
        if isinstance(self.threshold, str):
            check_choice("threshold", self.threshold, ("auto",))
        else:
            check_not_negative("threshold", self.threshold)
        if self.max_features is not None and not (
            isinstance(self.max_features, Integral) and self.max_features >= 1
        ):
            raise ValueError(
                "max_features must be a whole number of at least 1 or None, got "
                f"{self.max_features!r}."
            )
        if is_annotated(X):  # scikit-learn could not make a table of the chosen columns of it
            raise TypeError("Features are chosen of tables: give adata.to_df() or adata.X.")
        table = validate_data(self, X, y, accept_sparse="csr", multi_output=True)[0]
        self.estimator_ = self._machine(y).fit(X, y, sample_weight)
        self.weights_ = self.estimator_.kernel_weights_
        self.n_iter_ = self.estimator_.n_iter_
        self.relevant_ = self._that_count(self.estimator_, table)
        if self.threshold == "auto" and self.relevant_.any():
            self.relevant_ &= self._beyond_chance(table, y, sample_weight)
        return self

    def _machine(self, y):
        options: dict[str, Any] = {
            "combination": Product(starts=self.starts),
            "regularizer": L1(self.strength),
            "C": self.C,
            "scale": self.scale,
        }
        options |= {"tol": self.tol, "max_iter": self.max_iter, "random_state": self.random_state}
        if self._regression(y):
            return MKLRegressor(epsilon=self.epsilon, **options)
        return MKLClassifier(**options)

    def _that_count(self, machine, table):
        """Weights but the lightest ones, which change next to nothing, all of them together:
        neither the objective, by their slopes, which are those of the penalty where W is
        stationary, nor the kernel of two usual rows.
        """
        weights, is_sparse = machine.kernel_weights_, issparse(table)
        variances = mean_variance_axis(table, 0)[1] if is_sparse else np.var(table, axis=0)
        variances = variances / getattr(machine, "feature_spreads_", 1.0) ** 2
        order = np.argsort(weights, kind="stable")
        penalties = self.strength * np.cumsum(weights[order])
        exponents = np.cumsum((2.0 * weights * variances)[order])
        count = np.empty(weights.size, dtype=bool)
        count[order] = (penalties > self.tol * machine.result_.objective) | (exponents > self.tol)
        return count & (weights > 0.0)

    def _beyond_chance(self, table, y, sample_weight):
        """Weights beyond those of permuted columns, in a machine that has both."""
        table = table.toarray() if issparse(table) else table
        copies = np.tile(table, -(-PERMUTED // table.shape[1]))
        order = check_random_state(self.random_state).random_sample(copies.shape).argsort(axis=0)
        permuted = np.take_along_axis(copies, order, axis=0)
        beside = np.hstack([table, permuted])
        both = self._machine(y).fit(beside, y, sample_weight)
        weights, chance = np.split(both.kernel_weights_, [table.shape[1]])
        return self._that_count(both, beside)[: weights.size] & (weights > MARGIN * chance.max())

    def _regression(self, y):
        if self.task != "auto":
            return self.task == "regression"
        return type_of_target(y, input_name="y").startswith("continuous")

    def _get_support_mask(self):
        check_is_fitted(self)
        mask = self.relevant_.copy()
        if not isinstance(self.threshold, str):
            mask &= self.weights_ > self.threshold * self.weights_.max(initial=0.0)
        if self.max_features is not None:
            heaviest = np.argsort(-self.weights_, kind="stable")[: int(self.max_features)]
            mask &= np.isin(np.arange(mask.size), heaviest)
        return mask

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags
