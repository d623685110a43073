"""How the cross-validated estimators choose C and p, whichever task they are for."""

from __future__ import annotations

import inspect
import numbers
import sys
import warnings
from typing import Any, Self

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
from ..kernels.points import is_sparse
from .checks import check_bool, check_choice, check_parameters, check_real, check_weights
from .costs import default_costs
from .frames import as_table, data_frame
from .grid_checkpoint import GridJournal, kept
from .prepare import missing_views
from .tuning import Place, Task, cells
from .types import Points

NORMS = (1.0, 1.33, 2.0, float("inf"))
RULES = ("smooth", "best", "one_standard_error")
ROUNDING = 1e-12  # relative difference of scores that are equal
OLD = ("_held_out", "_contributions")  # what a fit leaves besides attributes that end so
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


class Tuned:
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
        for name in [name for name in vars(self) if name.endswith("_") or name in OLD]:
            delattr(self, name)  # of an earlier fit
        check_choice("rule", self.rule, RULES)
        check_bool("refit", self.refit)
        plain = self._plain()
        check_parameters(plain.set_params(C=1.0))
        read, y = plain._check_data(X, y)
        X, y = indexable(as_table(X), y)
        weight = check_weights(sample_weight, y)
        missing = missing_views(plain, read, weight > 0)
        self._learn_targets(y, weight)
        scorer = check_scoring(plain, self.scoring)
        routed = self._routed(params, scorer, None if sample_weight is None else weight)
        splitter = check_cv(self.cv, y, classifier=is_classifier(self))
        splits = list(splitter.split(X, y, **routed.splitter.split))
        costs, norms = self._grid(plain, X, y, weight)
        quiet = self._plain(checkpoint=None, callbacks=None, verbose=0)
        incomplete = missing is not None and not is_sparse(read) and bool(np.isnan(read).any())
        task = Task(quiet, X, y, weight, splits, costs, norms, self.verbose, incomplete)
        found: dict[Place, Any] = {}
        journal = None
        if self.checkpoint is not None:
            journal = GridJournal(self.checkpoint, task, read, y)

        def note(done):
            if journal is not None:
                journal.keep(done)
            if self.verbose:
                print(f"grid: {len(done)} of {len(task.places())} problems", file=sys.stderr)

        with kept(journal, found):
            finished = cells(task, found, note)
        found = {
            place: self._in_all_classes(cell) for place, cell in found.items() if cell.finished
        }
        if not found:
            raise KeyboardInterrupt
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
        if self.rule == "smooth":
            means = _smoothed(means)
        best = means.max()
        least = best
        if self.rule == "one_standard_error" and len(self.scores_) > 1:
            place = np.unravel_index(np.argmax(means), means.shape)
            spread = np.nanstd(self.scores_[(slice(None), *place)], ddof=1)
            least = best - spread / np.sqrt(len(self.scores_))
        order = np.lexsort((np.repeat(self.Cs_, self.ps_.size), np.tile(self.ps_, self.Cs_.size)))
        flat = means.ravel()
        chosen = next(place for place in order if flat[place] >= least - ROUNDING * abs(least))
        self.best_index_ = [int(chosen // self.ps_.size), int(chosen % self.ps_.size)]
        cost, norm = self.best_index_
        self.best_score_ = float(np.nanmean(self.scores_[:, cost, norm]))
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


def _smoothed(means):
    """Scores (C, p) with a quarter of those of the C before and after: what C does is smooth, and
    what differs between neighbors is mostly noise. Where one is not known it counts as equal.
    """
    padded = np.pad(means, ((1, 1), (0, 0)), mode="edge")
    before, after = (np.where(np.isfinite(part), part, means) for part in (padded[:-2], padded[2:]))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(means), 0.5 * means + 0.25 * (before + after), means)


def _takes_weights(scorer):
    """Whether a scorer can weigh rows; an estimator's own `score` does."""
    judge = getattr(scorer, "_score_func", scorer)
    return type(scorer).__name__ == "_PassthroughScorer" or (
        "sample_weight" in inspect.signature(judge).parameters
    )


class HeldOut(BaseEstimator):
    """A model as scorers want it, that knows its answers for the held-out rows."""

    def __init__(self, model=None, scores=None):
        self.model, self.scores = model, scores
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_


class HeldOutClassifier(ClassifierMixin, HeldOut):
    def predict(self, X):
        return self.model.classes_from_scores(self.scores)

    def decision_function(self, X):
        return self.model._by_class(self.scores)


class HeldOutRegressor(RegressorMixin, HeldOut):
    def predict(self, X):
        return self.model._shaped(self.scores)
