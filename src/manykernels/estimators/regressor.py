"""Regression by multiple kernel learning."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from ..combinations import Combination
from ..losses import EpsilonInsensitive, Loss
from ..lowrank import Approximation
from ..regularizers import Regularizer
from ..solvers import Solver
from .answers.contributions import ExplainsItself
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
    choose_loss,
)
from .copies import all_or_nothing
from .data.prepare import Targets, distinct_rows, prepare
from .scikit_learn import with_callbacks

FREE = 0.1  # of the spread of the targets is a free error


class MKLRegressor(RegressorMixin, ExplainsItself, MKLEstimator):
    """Support vector or ridge regression with a learned combination of kernels.

    Several targets share the kernel weights.

    Parameters
    ----------
    kernels, combination, p, regularizer, max_kernels, max_groups
        As for `MKLClassifier`.
    C : float or "auto"
        Cost of an error. ``"auto"`` follows the spread of the targets, so that the model is the
        same in any units of them: their standard deviation, and 1 for the squared loss.
    epsilon : float or "auto"
        Errors below it cost nothing, for the loss ``"epsilon_insensitive"``. ``"auto"`` is a tenth
        of the standard deviation of the targets, of several the smallest.
    loss : {"epsilon_insensitive", "squared"} or Loss
        As in scikit-learn's SVR, or ``C (y - f)^2``: kernel ridge regression with an intercept and
        penalty ``1 / (2 C)``.
    solver, approximation, tol, max_iter, normalize, scale, missing, cache_size, device, n_jobs,
    random_state, checkpoint, callbacks, verbose
        As for `MKLClassifier`.

    Attributes
    ----------
    target_spreads_ : (n_targets,) array
        Their standard deviations; the smallest of the others for one that is constant.
    kernel_weights_, kernel_names_, kernel_contributions_, group_weights_, group_contributions_,
    categories_, date_columns_, feature_medians_
        As for `MKLClassifier`.
    dual_coef_, support_, intercept_, result_, other_results_, bank_, decision_, n_iter_, p_,
    p_scores_
        As for `MKLClassifier`; one output per target.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.kernels import RBF
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = MKLRegressor([RBF(0.1), RBF(1.0), RBF(10.0)]).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.95
    True
    """

    _learned = (*MKLEstimator._learned, "_y_ndim_", "target_spreads_")
    _automatic = ("C", "epsilon")

    @property
    def _tuned_type(self):
        from .cross_validated import MKLRegressorCV

        return MKLRegressorCV

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        combination: str | Combination = "sum",
        p: float | Literal["auto"] = 1.0,
        regularizer: Regularizer | None = None,
        max_kernels: int | None = None,
        max_groups: int | None = None,
        C: float | Literal["auto"] = "auto",
        epsilon: float | Literal["auto"] = "auto",
        loss: str | Loss = "epsilon_insensitive",
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
        self.max_kernels = max_kernels
        self.max_groups = max_groups
        self.C = C
        self.epsilon = epsilon
        self.loss = loss
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
    def fit(self, X: Points, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel weights and the regression function.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            For `Precomputed` kernels, the column of sample indices.
        y : (n_samples,) or (n_samples, n_targets) array
        sample_weight : (n_samples,) array, optional
            Factor on C for each row; zero leaves the row out.
        """
        check_parameters(self)
        return self._fit(X, y, sample_weight)

    def _data(self, X, y, sample_weight, kernels=None):
        """Check and encode the data; the result does not depend on C or p."""
        X, y = self._check_data(X, y)
        sample_weight = check_weights(sample_weight, X)
        self._y_ndim_ = y.ndim
        Y = np.asarray(y, dtype=float).reshape(len(y), -1)
        _, codes = np.unique(Y, axis=0, return_inverse=True)
        distinct = distinct_rows(self, X, codes.ravel(), sample_weight)
        # digits of a large mean would be lost in every step; the intercept takes it up again
        values = Y[distinct.rows].T
        offset = np.average(values, axis=1, weights=distinct.weight)
        centered = np.ascontiguousarray(values - offset[:, None])
        spreads = np.sqrt(np.average(centered**2, axis=1, weights=distinct.weight))
        varies = spreads > 1e-12 * np.abs(offset)  # otherwise it is rounding
        self.target_spreads_ = np.where(varies, spreads, spreads[varies].min(initial=np.inf))
        self.target_spreads_[np.isinf(self.target_spreads_)] = 1.0
        return prepare(self, X, distinct, Targets(centered, distinct.weight, offset), kernels)

    def _check_data(self, X, y):
        return self._read(X, y, multi_output=True, y_numeric=True)

    def _costs(self, cost):
        if not self._is_auto("C"):
            return super()._costs(cost)
        in_units = isinstance(self._loss(), EpsilonInsensitive)
        return self.target_spreads_[:, None] * cost if in_units else cost

    def _loss(self):
        epsilon = self.epsilon
        if self._is_auto("epsilon"):
            epsilon = FREE * float(np.min(getattr(self, "target_spreads_", 1.0)))
        parameters = {"epsilon_insensitive": {"epsilon": epsilon}}
        return choose_loss(self.loss, ("epsilon_insensitive", "squared"), **parameters)

    def predict(self, X: Points) -> np.ndarray:
        """The predicted values, (n_samples,), or (n_samples, n_targets) if y had two dimensions.

        Parameters
        ----------
        X : as for `fit`
            For `Precomputed` kernels, the column of sample indices, or the matrices K(test, train)
            of all kernels.
        """
        return self._shaped(self._scores(X))

    def _output_names(self):
        return [f"target {c}" for c in range(len(self.intercept_))]

    def _shaped(self, scores):
        return scores[0] if self._y_ndim_ == 1 else scores.T

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
