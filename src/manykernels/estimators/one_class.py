"""Novelty detection by multiple kernel learning."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import OutlierMixin

from ..losses import OneClass
from ..lowrank import Approximation
from ..regularizers import PNormBall
from ..solvers import Solver
from .base import MKLEstimator
from .checks import (
    Callbacks,
    CheckpointLike,
    Kernels,
    Missing,
    Normalization,
    Points,
    RandomState,
    Scale,
    check_parameters,
    check_weights,
)
from .copies import all_or_nothing
from .data.prepare import Targets, distinct_rows, prepare
from .scikit_learn import with_callbacks

LOOKED_AT = 1000  # rows that tell how long rows are in the feature space
ORIGIN = 1e-8  # part of the squares of rows that the square of their mean is, if it is rounding


class MKLOneClass(OutlierMixin, MKLEstimator):
    """One-class support vector machine with a learned combination of kernels.

    The default is the plain sum of the kernels, p = inf, and without labels that is nearly all that
    can be said. Weights are learned so as to maximize the distance of the data from the origin of
    feature space, and a wide kernel, in which all points look alike, lies furthest from it: a small
    p gives such kernels all the weight whatever the data. The other formulation, the smallest ball
    around data of unit variance, has the opposite fault: its radius is never below the standard
    deviation, and the narrowest kernels, in which all points are equally far from each other, come
    down to it. Neither says which kernel tells novelties from the rest, because no novelty was
    seen. Learn weights (p = 2, say) among kernels of comparable width only, such as one for each
    source of data; and where some novelties are known, use `MKLClassifier` with them.

    Parameters
    ----------
    kernels : as for `MKLClassifier`
    combination : {"sum"}
    p : float
        Norm of the weights.
    regularizer : PNormBall, optional
        In place of p. Others do not bound the weights, and the larger the weights, the further the
        data from the origin.
    nu : float
        Upper bound on the share of training points outside, lower bound on the share of support
        vectors, in (0, 1].
    solver, approximation, tol, max_iter, normalize, scale, missing, cache_size, device, n_jobs,
    random_state, checkpoint, callbacks, verbose
        As for `MKLClassifier`.

    Attributes
    ----------
    offset_ : float
        ``decision_function = score_samples - offset_``.
    kernel_weights_, kernel_names_, kernel_contributions_, group_weights_, group_contributions_,
    categories_, date_columns_, feature_medians_
        As for `MKLClassifier`.
    dual_coef_, support_, intercept_, result_, other_results_, bank_, decision_, n_iter_
        As for `MKLClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLOneClass
    >>> from manykernels.kernels import RBF
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = MKLOneClass([RBF(0.1), RBF(1.0)], nu=0.1).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        combination: Literal["sum"] = "sum",
        p: float = float("inf"),
        regularizer: PNormBall | None = None,
        nu: float = 0.5,
        solver: str | Solver = "auto",
        approximation: Approximation | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        normalize: Normalization = "diagonal",
        scale: Scale = "auto",
        missing: Missing = "error",
        cache_size: float | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: RandomState = None,
        checkpoint: CheckpointLike = None,
        callbacks: Callbacks = None,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.combination = combination
        self.p = p
        self.regularizer = regularizer
        self.nu = nu
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize
        self.scale = scale
        self.missing = missing
        self.cache_size = cache_size
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Points, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel weights and the boundary; y is ignored.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
        sample_weight : (n_samples,) array, optional
        """
        check_parameters(self)
        if self.p == "auto":
            raise ValueError(
                "p='auto' compares scores on held-out data, which novelty detection has not: give "
                "p as a number."
            )
        if self.combination != "sum" or not isinstance(self.regularizer, PNormBall | None):
            raise ValueError(
                "Novelty detection needs a sum of kernels and bounded weights: leave "
                "combination='sum', give p or a PNormBall."
            )
        return self._fit(X, y, sample_weight)

    def _data(self, X, y, sample_weight, kernels=None):
        X = self._read(X)
        sample_weight = check_weights(sample_weight, X)
        distinct = distinct_rows(self, X, np.zeros(X.shape[0], dtype=int), sample_weight)
        targets = Targets(np.zeros((1, distinct.rows.size)), distinct.weight)
        return prepare(self, X, distinct, targets, kernels)

    def _warn(self, bank):
        result = self.result_
        if not result.status.converged and _holds_origin(bank, result):
            result.advice = (
                "The origin of the feature space lies among the rows, to rounding, as for linear "
                "kernels on centered columns: the optimum is zero, and no half-space without the "
                "origin holds the rows. Use kernels such as RBF, or do not center the columns."
            )
        super()._warn(bank)

    def _loss(self):
        return OneClass(self.nu)

    @property
    def offset_(self) -> float:
        """What the decision function is less than the score."""
        return -float(self.intercept_[0])

    def decision_function(self, X: Points) -> np.ndarray:
        """Signed distance to the boundary, (n_samples,): negative outside.

        Parameters
        ----------
        X : as for `fit`
        """
        return self._scores(X)[0]

    def score_samples(self, X: Points) -> np.ndarray:
        """The same before the offset, (n_samples,): the larger, the more like the training data.

        Parameters
        ----------
        X : as for `fit`
        """
        return self.decision_function(X) + self.offset_

    def predict(self, X: Points) -> np.ndarray:
        """1 for points inside, -1 for novelties, (n_samples,).

        Parameters
        ----------
        X : as for `fit`
        """
        return np.where(self.decision_function(X) >= 0.0, 1, -1)


def _holds_origin(bank, result):
    """Whether rows that are no origin have a mean that is, as far as the heaviest of them tell."""
    beta = result.beta[0]
    heaviest = np.sort(np.argsort(-np.abs(beta))[:LOOKED_AT])
    squares = np.square(beta[heaviest]) @ bank.combine(result.weights, heaviest).diagonal()
    return result.objective <= ORIGIN * squares
