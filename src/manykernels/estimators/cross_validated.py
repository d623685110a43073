"""Estimators that choose C and p by cross-validation, and know probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal

import numpy as np

from ..losses import Loss
from ..lowrank import Approximation
from ..solvers import Solver
from . import calibration as calibrations
from . import coverage, outcomes
from .checks import (
    Callbacks,
    CheckpointLike,
    Kernels,
    Missing,
    Normalization,
    Points,
    RandomState,
    Scale,
    available_if,
    check_bool,
    check_choice,
    class_factors,
)
from .classifier import MKLClassifier
from .data.frames import rows_of
from .regressor import MKLRegressor
from .search.scoring import HeldOutClassifier, HeldOutRegressor
from .search.tuned import FOUND, NORMS, Tuned


def calibrates(estimator):
    """Whether decision values become probabilities; raise AttributeError if not."""
    asked = estimator.calibration is not None and estimator.multiclass == "ovr"
    # a fit that was broken off may have no held-out row
    if not asked or getattr(estimator, "calibration_table_", ()) is None:
        raise AttributeError(
            "There are no probabilities: they need calibration='auto' and multiclass='ovr' (or the "
            "name of a calibration in place of 'auto')."
        )
    return True


class MKLClassifierCV(Tuned, MKLClassifier):
    """Support vector classification with learned kernel weights, C and p chosen by
    cross-validation, and probabilities.

    As `MKLClassifier` for every C and p on every fold, but the kernels are computed once for the
    whole grid, or once for every fold where they follow the data, as those of ``kernels="auto"``
    do. Normalization, widths that follow the data and merging of equal rows see the training rows
    of a fold only, so that scores are those of scikit-learn's ``GridSearchCV`` to the solvers'
    tolerance.

    Parameters
    ----------
    kernels
        As for `MKLClassifier`; ``"auto"`` also tries ``"whole"`` and each of its kernels alone,
        as an SVM of one kernel is tuned, and takes what does best.
    loss, solver, approximation, tol, max_iter, class_weight, share_weights, multiclass, \
normalize, scale, missing, cache_size, device, n_jobs, random_state
        As for `MKLClassifier`.
    Cs : int or sequence of floats
        Values of C, or how many to make from the data: from where every point is at its bound
        upward (`manykernels.estimators.search.costs`).
    ps : sequence of floats
        Norms of the weights, 1 (sparse) to infinity (plain sum).
    cv : int, splitter or iterable, optional
        As scikit-learn has it: five stratified folds by default.
    scoring : str or callable, optional
        As scikit-learn has it, of decision values and predictions; accuracy by default.
    refit : bool
        Whether to train on everything with the C and p that were chosen.
    rule : {"auto", "best", "one_standard_error"}
        ``"best"`` takes the best mean score, ``"one_standard_error"`` the sparsest p, and then the
        smallest C, within one standard error of it. ``"auto"`` is the best, but for accuracy, which
        moves in steps of a row, less the Brier score of the probabilities that a sigmoid makes of
        decision values of held-out rows: of C and p that are about as often right, that which is
        surer when it is.
    exhaustive : bool
        Whether every C and p goes through all folds at the tolerance `tol`. By default they are
        trained to a relative gap of 1e-2, which is far below the standard error of a score, or for
        twelve steps of Newton's method; those that are two standard errors below the best after two
        folds or more are left out of the rest (`scores_` is NaN there), unless `scoring` is given.
        The model that is chosen is trained on everything to `tol` in any case.
    calibration : {"auto", "sigmoid", "isotonic"} or None
        How decision values become probabilities, by those of rows that were held out: by Platt's
        sigmoid, or by a monotone function, which ``"auto"`` takes from a thousand rows on. None for
        no probabilities. They are calibrated with ``loss="logistic"`` too, whose own are those of
        rows that were seen. Each of several classes has a function of its decision values against
        the rest, and they are normalized; there is nothing for ``multiclass="ovo"``. Classes
        that weigh more (``class_weight``) are more likely by as much. `predict` gives the likeliest
        class, which is not always that of the sign of `decision_function`.
    checkpoint : path or Checkpoint, optional
        A file that keeps the part of the grid that is through, as for `MKLClassifier`. `fit` goes
        on from it with any ``scoring``, ``rule`` and ``calibration``, but not with another ``tol``,
        ``max_iter`` or ``solver``.
    callbacks
        Of the training on everything, as for `MKLClassifier`.
    verbose : int
        The same; and a line on every part of the grid that is through, and on memory that is short.

    Attributes
    ----------
    C_, p_ : float
        What was chosen; also ``C`` and ``p``.
    kernels_ : str
        Where ``kernels`` is a name, what was chosen: with ``"auto"`` one of ``"auto"``,
        ``"whole"``, ``"linear"``, or a Gaussian such as ``"rbf 1/2"``, whose gamma is one half over
        the number of columns. ``Cs_``, ``ps_`` and ``scores_`` are those of its grid.
    best_score_ : float
        Its mean score on held-out folds.
    best_index_ : list of two int
        Its place in ``Cs_`` and ``ps_``.
    Cs_, ps_ : arrays
    scores_ : (n_folds, n_C, n_p) array
    n_kernels_, n_groups_ : (n_folds, n_C, n_p) arrays
        Kernels and groups of kernels with weight.
    cv_results_ : DataFrame
    oof_decision_ : (n_samples,) array, or (n_samples, n_classes)
        Decision values of the chosen C and p at rows that were held out.
    held_out_folds_ : list of HeldOutFold
        The models of the folds with the chosen C and p, and what they say of the rows that they
        never saw, for `predict_set`.
    calibration_kind_, calibration_table_ : str and list of arrays
        See `manykernels.estimators.calibration`.

    Notes
    -----
    With ``refit=True`` it also has the attributes of `MKLClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifierCV("whole", Cs=[0.1, 1.0, 10.0], ps=[1, 2]).fit(X, y)
    >>> model.scores_.shape, model.C_ in (0.1, 1.0, 10.0)
    ((5, 3, 2), True)
    >>> model.predict_proba(X[:1]).round().tolist()
    [[1.0, 0.0, 0.0]]
    """

    _plain_type = MKLClassifier
    _learned = (
        *MKLClassifier._learned,
        *FOUND,
        "calibration_kind_",
        "calibration_table_",
    )

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        Cs: int | Sequence[float] = 10,
        ps: Sequence[float] = NORMS,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        rule: Literal["auto", "best", "one_standard_error"] = "auto",
        exhaustive: bool = False,
        calibration: Literal["auto", "sigmoid", "isotonic"] | None = "auto",
        loss: str | Loss = "hinge",
        solver: str | Solver = "auto",
        approximation: Approximation | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        share_weights: bool = True,
        multiclass: Literal["ovr", "ovo"] = "ovr",
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
        self.Cs = Cs
        self.ps = ps
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.rule = rule
        self.exhaustive = exhaustive
        self.calibration = calibration
        self.loss = loss
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.share_weights = share_weights
        self.multiclass = multiclass
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

    def _learn_targets(self, y, weight):
        self.classes_ = np.unique(y[weight > 0])
        check_choice("calibration", self.calibration, ("auto", *calibrations.KINDS, None))

    def _shaped(self, scores):
        return self._by_class(scores)

    def _held_out_model(self, scores):
        return HeldOutClassifier(self, scores)

    def _in_all_classes(self, cell):
        """A cell whose fold lacked some classes, with decision values that never choose them."""
        if np.array_equal(cell.classes, self.classes_):
            return cell
        known = np.searchsorted(self.classes_, cell.classes)
        scores = cell.scores
        if self.multiclass == "ovo":
            pairs = list(combinations(range(self.classes_.size), 2))
            own = dict(zip(combinations(known.tolist(), 2), scores, strict=True))
            present = np.isin(range(self.classes_.size), known)
            absent = [np.full(scores.shape[1], float(present[b]) - present[a]) for a, b in pairs]
            whole = [own.get(pair, row) for pair, row in zip(pairs, absent, strict=True)]
            return cell._replace(scores=np.stack(whole), classes=self.classes_)
        if known.size == 2:
            scores = np.concatenate([-scores, scores])
        whole = np.full((self.classes_.size, scores.shape[1]), scores.min(initial=0.0) - 1.0)
        whole[known] = scores
        return cell._replace(scores=whole, classes=self.classes_)

    def _finer(self, scores, known, task):
        """Minus the Brier score of held-out rows, of what a sigmoid makes of decision values; zero
        where there are no probabilities.
        """
        known = known & (task.sample_weight > 0)
        if self.multiclass == "ovo" or not known.any():
            return 0.0
        weight, errors = task.sample_weight[known], []
        for values, side in zip(scores[:, known], self._positive(task.y[known]), strict=True):
            table = calibrations.fitted("sigmoid", values, side, weight)
            off = outcomes.one_sided("sigmoid", table, values) - side
            errors.append(np.average(np.square(off), weights=weight))
        return -float(np.mean(errors))

    def _positive(self, y):
        """Whether rows are on the positive side of each output."""
        return [np.isin(y, self.classes_[side]) for side in self._sides()[0]]

    def _calibrate(self, y, weight):
        """Learn probabilities from the decision values of held-out rows."""
        self.calibration_kind_ = self.calibration_table_ = None
        known = np.isfinite(self._held_out).all(axis=0) & (weight > 0)
        if self.calibration is None or self.multiclass == "ovo" or not known.any():
            return
        kind = self.calibration
        if kind == "auto":
            kind = "isotonic" if known.sum() >= calibrations.MANY else "sigmoid"
        codes = np.searchsorted(self.classes_, y[known])
        factors = class_factors(self.class_weight, self.classes_, codes, weight[known])
        outputs = zip(self._held_out[:, known], self._positive(y[known]), strict=True)
        tables = [
            calibrations.fitted(kind, values, side, weight[known] * factors[codes])
            for values, side in outputs
        ]
        self.calibration_kind_, self.calibration_table_ = kind, tables

    def _misfits(self, task, model, scores, rows):
        """How badly held-out rows fit a fold's model, (1, n), and the numbers of their classes."""
        if not np.array_equal(model.classes_, self.classes_):
            scores = model._scores(rows_of(task.X, rows))  # of the classes that it knows
        codes = np.searchsorted(self.classes_, task.y[rows])
        every = coverage.misfits(model, scores, self.classes_)
        return every[np.arange(rows.size), codes][None], codes

    def predict_set(
        self, X: Points, confidence_level: float = 0.9, *, class_conditional: bool = False
    ) -> np.ndarray:
        """Sets of classes that hold the true one as often as the level says, (n_samples,
        n_classes) bool, in the order of ``classes_``.

        A class is ruled out for a row if its margin there, in the model of every fold, is below
        that of almost all rows that the fold held out (cross-conformal prediction). A set may hold
        several classes, or none where nothing fits. Rows that lack views are compared with rows
        that lack the same views where there are enough.

        If new rows are like those of the training, in any order, their class is in the set with a
        probability of at least ``1 - 2 (1 - confidence_level)``, less a little for few rows in a
        fold; what is seen is about `confidence_level`. Nothing is promised for rows of another time
        or of other groups than those of the training; a `cv` that splits by time or by group makes
        the sets honest about that, without a proof.

        Parameters
        ----------
        X : as for `decision_function`
        confidence_level : float
            Between 0 and 1.
        class_conditional : bool
            Whether the level is to hold for every class by itself: a class is then compared with
            held-out rows of that class alone. Rare classes are in more sets.
        """
        folds, alpha = self._known_folds(), coverage.check_level(confidence_level)
        check_bool("class_conditional", class_conditional)
        scores, there = coverage.fold_scores(self, folds, X)
        found = [
            coverage.misfits(fold.model, values, self.classes_)
            for fold, values in zip(folds, scores, strict=True)
        ]
        return coverage.class_sets(folds, found, there, alpha, class_conditional)

    @available_if(calibrates)
    def predict_proba(self, X: Points) -> np.ndarray:
        """Probability of every class, (n_samples, n_classes), with a ``calibration`` and
        ``multiclass="ovr"``.

        Parameters
        ----------
        X : as for `decision_function`
        """
        return self._probabilities(self._scores(X))

    @available_if(calibrates)
    def predict_log_proba(self, X: Points) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : as for `decision_function`
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _probabilities(self, scores):
        return outcomes.calibrated(scores, self.calibration_kind_, self.calibration_table_)


class MKLRegressorCV(Tuned, MKLRegressor):
    """Regression with learned kernel weights, C and p chosen by cross-validation.

    As `MKLRegressor` for every C and p on every fold, for less; see `MKLClassifierCV`.

    Parameters
    ----------
    kernels
        As for `MKLRegressor`; ``"auto"`` also tries ``"whole"`` and each of its kernels alone.
    epsilon, loss, solver, approximation, tol, max_iter, normalize, scale, missing, cache_size, \
device, n_jobs, random_state
        As for `MKLRegressor`.
    Cs, ps, cv, scoring, refit, rule, exhaustive, checkpoint, callbacks, verbose
        As for `MKLClassifierCV`; five folds and the coefficient of determination by default. Values
        of C that are made from the data are in units of the targets.

    Attributes
    ----------
    C_, p_, kernels_, best_score_, best_index_, Cs_, ps_, scores_, n_kernels_, n_groups_, \
cv_results_
        As for `MKLClassifierCV`.
    oof_decision_ : (n_samples,) array, or (n_samples, n_targets)
        Predictions of the chosen C and p at rows that were held out.
    held_out_folds_ : list of HeldOutFold
        The models of the folds with the chosen C and p, and what they say of the rows that they
        never saw, for `predict_interval`.

    Notes
    -----
    With ``refit=True`` it also has the attributes of `MKLRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressorCV
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> model = MKLRegressorCV(Cs=[0.1, 10.0], ps=[1]).fit(X, X[:, 0] + 0.1 * X[:, 1])
    >>> model.C_
    10.0
    """

    _plain_type = MKLRegressor
    _learned = (
        *MKLRegressor._learned,
        *FOUND,
    )

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        Cs: int | Sequence[float] = 10,
        ps: Sequence[float] = NORMS,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        rule: Literal["auto", "best", "one_standard_error"] = "auto",
        exhaustive: bool = False,
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
        self.Cs = Cs
        self.ps = ps
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.rule = rule
        self.exhaustive = exhaustive
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

    def _learn_targets(self, y, weight):
        self._y_ndim_ = y.ndim

    def _held_out_model(self, scores):
        return HeldOutRegressor(self, scores)

    def _in_all_classes(self, cell):
        """There are no classes."""
        return cell

    def _finer(self, scores, known, task):
        """The coefficient of determination has no steps."""
        return 0.0

    def _calibrate(self, y, weight):
        """There are no probabilities."""

    def _misfits(self, task, model, scores, rows):
        """Absolute residuals of held-out rows, (t, n)."""
        y = np.asarray(task.y[rows], dtype=float).reshape(rows.size, -1)
        return np.abs(y.T - scores), np.zeros(rows.size, dtype=int)

    def predict_interval(self, X: Points, confidence_level: float = 0.9) -> np.ndarray:
        """Intervals that hold the true value as often as the level says, (n_samples, 2), or
        (n_samples, n_targets, 2) if y had two dimensions.

        A value is ruled out for a row if it is farther from the predictions of the folds' models
        than almost all rows that these held out are from theirs (cross-conformal prediction). See
        `MKLClassifierCV.predict_set` for what is promised, and when it is not. Every target has its
        own intervals.

        Parameters
        ----------
        X : as for `predict`
        confidence_level : float
            Between 0 and 1. With fewer than one over ``1 - confidence_level`` held-out rows,
            intervals are infinite.
        """
        folds, alpha = self._known_folds(), coverage.check_level(confidence_level)
        scores, there = coverage.fold_scores(self, folds, X)
        found = coverage.intervals(folds, scores, there, alpha)
        return found[:, 0] if self._y_ndim_ == 1 else found
