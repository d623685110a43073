"""Estimators that choose C and p by cross-validation, and know probabilities."""

from __future__ import annotations

import inspect
import numbers
import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.validation import check_is_fitted

from .._callers import outside
from ..losses import Loss
from ..lowrank import Approximation
from ..solvers import Solver
from . import calibration as calibrations
from .checks import check_bool, check_choice, check_parameters, check_real, check_weights
from .classifier import MKLClassifier
from .costs import default_costs
from .frames import as_table, data_frame
from .grid_checkpoint import GridJournal, kept
from .regressor import MKLRegressor
from .tuning import Place, Task, cells
from .types import Callbacks, CheckpointLike, Kernels, Normalization, Points, RandomState

NORMS = (1.0, 1.33, 2.0, float("inf"))
RULES = ("best", "one_standard_error")
# attributes besides those of the plain estimators
FOUND = (
    "C_",
    "Cs_",
    "ps_",
    "scores_",
    "n_kernels_",
    "best_score_",
    "best_index_",
    "oof_decision_",
)


class _Tuned:
    """What both estimators share; `_plain_type` is the estimator that is tuned."""

    _plain_type: type

    # of what the plain estimators are given, two are learned and two are not open
    C: Any = property(lambda self: self._chosen("C_"), doc="The C that was chosen.")
    p: Any = property(lambda self: self._chosen("p_"), doc="The p that was chosen.")
    regularizer: Any = None
    combination: Any = "sum"

    def __sklearn_is_fitted__(self):
        return hasattr(self, "decision_")

    def _chosen(self, name):
        if name not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name} before it is fitted.")
        return vars(self)[name]

    def fit(
        self, X: Points, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Choose C and p by cross-validation, and train on everything.

        Parameters
        ----------
        X, y, sample_weight
            As for the estimator without cross-validation; scores that can be weighted are.
        **params
            ``groups`` for the splitter; with scikit-learn's metadata routing what the splitter and
            the scorer ask for.
        """
        return self._tune(X, y, sample_weight, params)

    def _tune(self, X, y, sample_weight, params):
        check_choice("rule", self.rule, RULES)
        check_bool("refit", self.refit)
        plain = self._plain()
        check_parameters(plain.set_params(C=1.0))
        read, y = plain._check_data(X, y)
        X, y = indexable(as_table(X), y)
        weight = check_weights(sample_weight, y)
        self._learn_targets(y, weight)
        scorer = check_scoring(plain, self.scoring)
        routed = self._routed(params, scorer, None if sample_weight is None else weight)
        splitter = check_cv(self.cv, y, classifier=is_classifier(self))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        costs, norms = self._grid(plain, X, y, weight)
        quiet = self._plain(checkpoint=None, callbacks=None, verbose=0)
        task = Task(quiet, X, y, weight, splits, costs, norms)
        found: dict[Place, Any] = {}
        journal = None
        if self.checkpoint is not None:
            journal = GridJournal(self.checkpoint, task, read, y)
        with kept(journal, found):
            finished = cells(task, found, None if journal is None else journal.keep)
        found = {place: self._in_all_classes(cell) for place, cell in found.items()}
        self._judge(task, found, scorer, routed.scorer.score)
        if not finished:
            warnings.warn(
                "The grid was broken off; what was finished decides.",
                ConvergenceWarning,
                stacklevel=outside(),
            )
        self._choose_cell()
        self._keep_held_out(task, found)
        self._calibrate(y, weight)
        if self.refit:
            self._refit(X, y, sample_weight)
        return self

    def _plain(self, **changed):
        given, names = self.get_params(deep=False), self._plain_type._get_param_names()
        return self._plain_type(**{name: given[name] for name in names if name in given} | changed)

    def _grid(self, plain, X, y, weight):
        norms = [float(norm) for norm in np.atleast_1d(np.asarray(self.ps, dtype=float))]
        if not norms or not all(norm >= 1.0 for norm in norms):
            raise ValueError(f"ps must be numbers of at least 1, got {self.ps!r}.")
        if isinstance(self.Cs, numbers.Integral) and not isinstance(self.Cs, bool):
            if self.Cs < 1:
                raise ValueError(f"Cs must be at least 1, got {self.Cs!r}.")
            costs = default_costs(plain, X, y, weight, norms, int(self.Cs))
        else:
            costs = sorted(float(cost) for cost in np.atleast_1d(self.Cs))
        for cost in costs:
            check_real("Cs", cost)
        return list(costs), norms

    def _routed(self, params, scorer, sample_weight):
        if _routing_enabled():
            routed = process_routing(self, "fit", **params)
            for name, method in (("splitter", "split"), ("scorer", "score")):
                routed.setdefault(name, Bunch(**{method: {}}))
            return routed
        unknown = set(params) - {"groups"}
        if unknown:
            raise TypeError(f"fit got parameters that it does not know: {sorted(unknown)}.")
        split = {} if params.get("groups") is None else {"groups": params["groups"]}
        weighs = sample_weight is not None and _takes_weights(scorer)
        score = {"sample_weight": sample_weight} if weighs else {}
        return Bunch(splitter=Bunch(split=split), scorer=Bunch(score=score))

    def get_metadata_routing(self):
        """What of the metadata given to `fit` goes where, for scikit-learn's routing."""
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        mapping = MethodMapping().add(caller="fit", callee="split")
        splitter = check_cv(self.cv, classifier=is_classifier(self))
        router.add(splitter=splitter, method_mapping=mapping)
        scorer = check_scoring(self._plain(), self.scoring)
        if not isinstance(self.scoring, str) or self.scoring in get_scorer_names():
            router.add(
                scorer=scorer, method_mapping=MethodMapping().add(caller="fit", callee="score")
            )
        return router

    def _judge(self, task, found, scorer, score_params):
        """Scores and numbers of kernels of every cell that is there, NaN elsewhere."""
        shape = len(task.splits), len(task.costs), len(task.norms)
        scores, kernels = np.full(shape, np.nan), np.full(shape, np.nan)
        for place, cell in found.items():
            test = task.splits[place.fold][1]
            given = {
                name: np.asarray(value)[test] if np.shape(value)[:1] == (len(task.y),) else value
                for name, value in score_params.items()
            }
            at = place.fold, place.cost, place.norm
            scores[at] = scorer(
                self._held_out_model(cell.scores),
                np.zeros((len(test), 1)),
                task.y[test],
                **given,
            )
            kernels[at] = cell.kernels
        self.Cs_, self.ps_ = np.array(task.costs), np.array(task.norms)
        self.scores_, self.n_kernels_ = scores, kernels

    def _choose_cell(self):
        """C and p by the rule; of equals the sparsest and smallest."""
        whole = ~np.isnan(self.scores_).any(axis=0)
        means = np.where(whole, self.scores_.mean(axis=0), -np.inf)
        if not whole.any():  # broken off before any C and p was through
            means = np.nan_to_num(np.nanmean(self.scores_, axis=0), nan=-np.inf)
        best = means.max()
        least = best
        if self.rule == "one_standard_error" and len(self.scores_) > 1:
            place = np.unravel_index(np.argmax(means), means.shape)
            spread = np.nanstd(self.scores_[(slice(None), *place)], ddof=1)
            least = best - spread / np.sqrt(len(self.scores_))
        order = np.lexsort((np.repeat(self.Cs_, self.ps_.size), np.tile(self.ps_, self.Cs_.size)))
        flat = means.ravel()
        chosen = next(place for place in order if flat[place] >= least)
        self.best_index_ = [int(chosen // self.ps_.size), int(chosen % self.ps_.size)]
        self.best_score_ = float(flat[chosen])
        cost, norm = self.best_index_
        self.C_, self.p_ = float(self.Cs_[cost]), float(self.ps_[norm])

    def _keep_held_out(self, task, found):
        """Decision values of the chosen C and p at rows that were held out; the mean where a row
        was so more than once, NaN where it never was.
        """
        cost, norm = self.best_index_
        total, times = 0.0, np.zeros(len(task.y))
        for fold, (_, test) in enumerate(task.splits):
            cell = found.get(Place(fold, norm, cost))
            if cell is not None:
                part = np.zeros((len(cell.scores), len(task.y)))
                np.add.at(part, (slice(None), test), cell.scores)
                np.add.at(times, test, 1.0)
                total = total + part
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = total / times
        self._held_out = scores
        self.oof_decision_ = self._shaped(scores)

    def _refit(self, X, y, sample_weight):
        """Train on everything, and become that model."""
        model = self._plain(C=self.C_, p=self.p_, checkpoint=None)  # that is the grid's
        model.fit(X, y, sample_weight)
        kept = {name for name in vars(self) if name.endswith("_")}
        vars(self).update(
            {
                name: value
                for name, value in vars(model).items()
                if (name.endswith("_") and name not in kept) or name == "_contributions"
            }
        )

    @property
    def cv_results_(self):
        """Every C and p as a data frame of pandas: mean and standard deviation of the scores, rank,
        scores of the folds, mean number of kernels.
        """
        check_is_fitted(self, "scores_")
        flat = self.scores_.reshape(len(self.scores_), -1)
        means = flat.mean(axis=0)
        ranks = 1 + (means[None] > means[:, None]).sum(axis=1)
        columns = {
            "C": np.repeat(self.Cs_, self.ps_.size),
            "p": np.tile(self.ps_, self.Cs_.size),
            "mean_test_score": means,
            "std_test_score": flat.std(axis=0),
            "rank_test_score": ranks,
            "mean_kernels": self.n_kernels_.mean(axis=0).ravel(),
        }
        columns |= {f"split{fold}_test_score": row for fold, row in enumerate(flat)}
        return data_frame(columns, "pandas")


def _takes_weights(scorer):
    """Whether a scorer can weigh rows; an estimator's own `score` does."""
    judge = getattr(scorer, "_score_func", scorer)
    return type(scorer).__name__ == "_PassthroughScorer" or (
        "sample_weight" in inspect.signature(judge).parameters
    )


class _HeldOut(BaseEstimator):
    """A model as scorers want it, that knows its answers for the held-out rows."""

    def __init__(self, model=None, scores=None):
        self.model, self.scores = model, scores
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_


class _HeldOutClassifier(ClassifierMixin, _HeldOut):
    def predict(self, X):
        return self.model.classes_from_scores(self.scores)

    def decision_function(self, X):
        return self.model._by_class(self.scores)


class _HeldOutRegressor(RegressorMixin, _HeldOut):
    def predict(self, X):
        return self.model._shaped(self.scores)


class MKLClassifierCV(_Tuned, MKLClassifier):
    """Support vector classification with learned kernel weights, C and p chosen by
    cross-validation, and probabilities.

    As `MKLClassifier` for every C and p on every fold, but the kernels are computed once for the
    whole grid. Normalization, widths that follow the data and merging of equal rows see the
    training rows of a fold only, so that scores are those of scikit-learn's ``GridSearchCV`` to the
    solvers' tolerance.

    Parameters
    ----------
    kernels, loss, solver, approximation, tol, max_iter, class_weight, share_weights, multiclass, \
normalize, cache_size, device, n_jobs, random_state
        As for `MKLClassifier`.
    Cs : int or sequence of floats
        Values of C, or how many to make from the data: from where every point is at its bound
        upward (`manykernels.estimators.costs`).
    ps : sequence of floats
        Norms of the weights, 1 (sparse) to infinity (plain sum).
    cv : int, splitter or iterable, optional
        As scikit-learn has it: five stratified folds by default.
    scoring : str or callable, optional
        As scikit-learn has it, of decision values and predictions; accuracy by default.
    refit : bool
        Whether to train on everything with the C and p that were chosen.
    rule : {"best", "one_standard_error"}
        The best mean score, or the sparsest p, and then the smallest C, within one standard error
        of it.
    calibration : {"auto", "sigmoid", "isotonic"} or None
        How decision values become probabilities, by those of rows that were held out: by Platt's
        sigmoid, or by a monotone function, which ``"auto"`` takes from a thousand rows on. None for
        no probabilities. Several classes are calibrated one by one and normalized; there is nothing
        for ``multiclass="ovo"``.
    checkpoint : path or Checkpoint, optional
        A file that keeps the part of the grid that is through, as for `MKLClassifier`. `fit` goes
        on from it with any ``scoring``, ``rule`` and ``calibration``.
    callbacks, verbose
        Of the training on everything, as for `MKLClassifier`.

    Attributes
    ----------
    C_, p_ : float
        What was chosen; also ``C`` and ``p``.
    best_score_ : float
        Its mean score on held-out folds.
    best_index_ : list of two int
        Its place in ``Cs_`` and ``ps_``.
    Cs_, ps_ : arrays
    scores_ : (n_folds, n_C, n_p) array
    n_kernels_ : (n_folds, n_C, n_p) array
        Kernels with weight.
    cv_results_ : DataFrame
    oof_decision_ : (n_samples,) array, or (n_samples, n_classes)
        Decision values of the chosen C and p at rows that were held out.
    calibration_kind_ : str, calibration_table_ : list of arrays
        See `manykernels.estimators.calibration`.

    With ``refit=True`` also what `MKLClassifier` has.
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
        Cs: int | Sequence[float] = 8,
        ps: Sequence[float] = NORMS,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        rule: Literal["best", "one_standard_error"] = "best",
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
        return _HeldOutClassifier(self, scores)

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

    def _calibrate(self, y, weight):
        """Learn probabilities from the decision values of held-out rows."""
        self.calibration_kind_ = self.calibration_table_ = None
        known = np.isfinite(self._held_out).all(axis=0) & (weight > 0)
        if self.calibration is None or self.multiclass == "ovo" or not known.any():
            return
        kind = self.calibration
        if kind == "auto":
            kind = "isotonic" if known.sum() >= calibrations.MANY else "sigmoid"
        positive, _ = self._sides()
        self.calibration_kind_ = kind
        self.calibration_table_ = [
            calibrations.fitted(
                kind, row[known], np.isin(y[known], self.classes_[side]), weight[known]
            )
            for row, side in zip(self._held_out, positive, strict=True)
        ]

    def predict_proba(self, X: Points) -> np.ndarray:
        """Probability of every class, (n_samples, n_classes).

        Parameters
        ----------
        X : as for `decision_function`
        """
        check_is_fitted(self)
        if getattr(self, "calibration_table_", None) is None:
            raise AttributeError(
                "There are no probabilities: they need calibration='auto' and multiclass='ovr'."
            )
        return self._probabilities(self._scores(X))

    def predict_log_proba(self, X: Points) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : as for `decision_function`
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _probabilities(self, scores):
        each = np.stack(
            [
                calibrations.probabilities(self.calibration_kind_, table, row)
                for table, row in zip(self.calibration_table_, scores, strict=True)
            ],
            axis=1,
        )
        if self.classes_.size == 2:
            return np.hstack([1.0 - each, each])
        total = each.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, each / np.where(total > 0.0, total, 1.0), 1.0 / each.shape[1])


class MKLRegressorCV(_Tuned, MKLRegressor):
    """Regression with learned kernel weights, C and p chosen by cross-validation.

    As `MKLRegressor` for every C and p on every fold, but the kernels are computed once for the
    whole grid; see `MKLClassifierCV`.

    Parameters
    ----------
    kernels, epsilon, loss, solver, approximation, tol, max_iter, normalize, cache_size, device, \
n_jobs, random_state
        As for `MKLRegressor`.
    Cs, ps, cv, scoring, refit, rule, checkpoint, callbacks, verbose
        As for `MKLClassifierCV`; five folds and the coefficient of determination by default. Values
        of C that are made from the data are in units of the targets.

    Attributes
    ----------
    C_, p_, best_score_, best_index_, Cs_, ps_, scores_, n_kernels_, cv_results_
        As for `MKLClassifierCV`.
    oof_decision_ : (n_samples,) array, or (n_samples, n_targets)
        Predictions of the chosen C and p at rows that were held out.

    With ``refit=True`` also what `MKLRegressor` has.
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
        Cs: int | Sequence[float] = 8,
        ps: Sequence[float] = NORMS,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
        rule: Literal["best", "one_standard_error"] = "best",
        epsilon: float | Literal["auto"] = "auto",
        loss: str | Loss = "epsilon_insensitive",
        solver: str | Solver = "auto",
        approximation: Approximation | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        normalize: Normalization = "diagonal",
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
        self.epsilon = epsilon
        self.loss = loss
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.normalize = normalize
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
        return _HeldOutRegressor(self, scores)

    def _in_all_classes(self, cell):
        """There are no classes."""
        return cell

    def _calibrate(self, y, weight):
        """There are no probabilities."""
