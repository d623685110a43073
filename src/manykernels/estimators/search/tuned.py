"""How the cross-validated estimators choose C and p, whichever task they are for."""

from __future__ import annotations

import numbers
import sys
import time
import warnings
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
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

from ..._callers import user_stacklevel
from ...kernels.grids import AUTO_ALONE
from ...kernels.points import has_holes
from ..checks import Points, check_bool, check_choice, check_parameters, check_real, check_weights
from ..copies import all_or_nothing
from ..coverage import HeldOutFold, presence
from ..data.frames import as_table, data_frame
from ..data.inputs import ReadTable
from ..data.prepare import missing_views
from ..data.units import MADE
from .batches import solve_in_batches
from .costs import default_costs
from .folds import can_share
from .grid_checkpoint import GridJournal, kept
from .race import CELL_GAP, CELL_STEPS, hopeless, rounds
from .scoring import refuse_probabilities, takes_weights
from .splits import checked_splits, listed, refuse_weightless_tests
from .tuning import GridIndex, GridTask, cells, fold_model

NORMS = (1.0, 1.33, 2.0, float("inf"))
RULES = ("auto", "best", "one_standard_error")
ROUNDING = 1e-12  # relative difference of scores that are equal
OLD = ("_held_out", "_contributions")  # what a fit leaves besides attributes that end so
# attributes besides those of the plain estimators
FOUND = (
    "C_",
    "Cs_",
    "ps_",
    "scores_",
    "n_kernels_",
    "n_groups_",
    "best_score_",
    "best_index_",
    "oof_decision_",
    "kernels_",
)


class Grid(NamedTuple):
    """All problems of a search, a task for each choice of kernels, and how they are scored."""

    tasks: list[GridTask]
    scorer: Any
    score_params: dict[str, Any]


class Judged(NamedTuple):
    """A grid with its scores and numbers of kernels and groups, (folds, C, p), and what to choose
    by, (C, p).
    """

    task: GridTask
    scores: np.ndarray
    kernels: np.ndarray
    groups: np.ndarray
    means: np.ndarray
    whole: bool  # some C and p on all folds


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

    @all_or_nothing
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
        began = time.perf_counter()
        for name in [name for name in vars(self) if name.endswith("_") or name in OLD]:
            delattr(self, name)  # of an earlier fit
        grid = self._stated(X, y, sample_weight, params)
        found, finished = self._solved(grid)
        judged = [self._judged(task, found, grid.scorer, grid.score_params) for task in grid.tasks]
        self._check_scores(judged)
        if not finished:
            warnings.warn(
                "The grid was broken off; what was finished decides.",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        task = self._choose_cell(judged)
        plans = [plan for one in grid.tasks for plan in one.plans]
        if plans:  # else the whole grid comes from a checkpoint
            self.plan_ = plans[0]
        self._keep_held_out(task, found)
        self._calibrate(task.y, task.sample_weight)
        if self.refit:
            self.held_out_folds_ = self._folds(task, found)
            self._refit(task.table, task.y, sample_weight)
        return self._timed(began)

    def _stated(self, X, y, sample_weight, params, costs=None):
        """The grid: all problems that are to be solved, and how they are scored.

        Parameters
        ----------
        costs : callable, optional
            What makes values of C from their number, in the place of the data.
        """
        check_choice("rule", self.rule, RULES)
        check_bool("refit", self.refit)
        check_bool("exhaustive", self.exhaustive)
        plain = self._plain()
        check_parameters(plain.set_params(C=1.0))
        table = ReadTable.read(plain, X, y)
        X, y = indexable(as_table(X), table.y)
        weight = check_weights(sample_weight, y)
        missing = missing_views(plain, table.X, weight > 0)
        self._learn_targets(y, weight)
        scorer = check_scoring(plain, self.scoring)
        refuse_probabilities(scorer, plain)
        routed = self._routed(params, scorer, None if sample_weight is None else weight)
        splitter = check_cv(listed(self.cv), y, classifier=is_classifier(self))
        labels = np.asarray(y) if is_classifier(self) and len(np.unique(y)) > 1 else None
        splits = checked_splits(splitter.split(X, y, **routed.splitter.split), weight, labels)
        if routed.scorer.score.get("sample_weight") is not None:
            refuse_weightless_tests(splits, weight)
        incomplete = missing is not None and has_holes(table.X)
        tasks = []
        for number, kernels in enumerate(self._choices()):
            quiet = self._plain(
                kernels=kernels, checkpoint=None, callbacks=None, verbose=0, tol=self._cell_gap
            )
            if not self.exhaustive and self._takes_newton(quiet, incomplete):
                quiet.set_params(max_iter=CELL_STEPS)
            values = self._grid(quiet, table, y, weight, costs)
            places = splits, *values, [], number
            options = self.verbose, incomplete
            task = GridTask(quiet, X, table, y, weight, *places, *options)
            tasks.append(task._replace(made={}))
        told = {"total": sum(len(task.places()) for task in tasks), "words": _in_words(tasks)}
        return Grid([task._replace(**told) for task in tasks], scorer, routed.scorer.score)

    def _solved(self, grid):
        """The finished cells of a grid, and whether all are finished."""
        found: dict[GridIndex, Any] = {}
        journal, table = None, grid.tasks[0].table
        if self.checkpoint is not None:
            journal = GridJournal(self.checkpoint, grid.tasks, table.X, table.y)
        out: set[tuple[int, ...]] = set()  # norm, cost and kernels of cells that cannot win

        def note(done):
            if journal is not None:
                journal.keep(done)
            if self.verbose:
                left = [
                    place
                    for task in grid.tasks
                    for place in task.places()
                    if place[1:] in out and place not in done
                ]
                words = f"; {len(left)} others cannot win any more, left out" if left else ""
                total = grid.tasks[0].total - len(left)
                print(f"grid: {len(done)} of {total} problems{words}", file=sys.stderr)

        with kept(journal, found):
            finished = self._raced(grid, found, note, out)
        found = {
            place: self._in_all_classes(cell) for place, cell in found.items() if cell.finished
        }
        if not found:
            raise KeyboardInterrupt
        return found, finished

    @property
    def _cell_gap(self):
        """The relative gap of cells."""
        return self.tol if self.exhaustive else max(self.tol, CELL_GAP)

    @staticmethod
    def _takes_newton(template, incomplete):
        """Whether cells are solved by Newton's method, as no number of steps says otherwise."""
        free = template.solver == "auto" and template.max_iter is None
        return free and can_share(template, incomplete)

    def _raced(self, grid, found, note, out):
        """Compute cells, without those that cannot win any more, which are added to `out`; whether
        that was finished.
        """
        # by another score than the default nothing is known of single rows
        is_race = not self.exhaustive and self.scoring is None
        for folds in rounds(len(grid.tasks[0].splits), is_race):

            def wanted(place, folds=folds, out=frozenset(out)):
                return place.fold in folds and place[1:] not in out

            try:
                if self.max_iter is None:
                    solve_in_batches(grid.tasks, found, note, wanted)
            except KeyboardInterrupt:
                return False
            if not all(cells(task, found, note, wanted) for task in grid.tasks):
                return False
            if is_race:
                out |= self._beaten(grid, found, range(folds.stop))
        return True

    def _beaten(self, grid, found, folds):
        """Norm, cost and kernels of cells that cannot win any more, after some folds."""
        task = grid.tasks[0]
        tests = [task.splits[fold][1] for fold in folds]
        cells_ = [place[1:] for one in grid.tasks for place in one.places() if place.fold == 0]
        merits = np.full((len(cells_), sum(map(len, tests))), np.nan)
        for row, cell in zip(merits, cells_, strict=True):
            own = [found.get(GridIndex(fold, *cell)) for fold in folds]
            if None not in own:
                parts = zip(own, tests, strict=True)
                row[:] = np.concatenate([self._merits(one, task.y[test]) for one, test in parts])
        weight = task.sample_weight[np.concatenate(tests)]
        known = np.isfinite(merits[~np.isnan(merits).all(axis=1)]).all(axis=0) & (weight > 0.0)
        if not known.any():
            return set()
        beaten = hopeless(merits[:, known], weight[known])
        return {cell for cell, is_out in zip(cells_, beaten, strict=True) if is_out}

    def _merits(self, cell, y):
        """Of held-out rows: whether they are predicted, or minus the square of the error."""
        model = self._held_out_model(self._in_all_classes(cell).scores)
        predicted = model.predict(np.zeros((len(y), 1)))
        if is_classifier(self):
            return (predicted == y).astype(float)
        error = np.square(predicted - y)
        return -error if error.ndim == 1 else -error.sum(axis=1)

    def _plain(self, **changed):
        given, names = self.get_params(deep=False), self._plain_type._get_param_names()
        return self._plain_type(**{name: given[name] for name in names if name in given} | changed)

    def _grid(self, plain, X, y, weight, made=None):
        norms = [float(norm) for norm in np.atleast_1d(np.asarray(self.ps, dtype=float))]
        if not norms or not all(norm >= 1.0 for norm in norms):
            raise ValueError(f"ps must be numbers of at least 1, got {self.ps!r}.")
        if isinstance(plain.kernels, str) and plain.kernels in AUTO_ALONE:
            norms = [min(norms)]  # of one weight all are the same
        if isinstance(self.Cs, numbers.Integral) and not isinstance(self.Cs, bool):
            if self.Cs < 1:
                raise ValueError(f"Cs must be at least 1, got {self.Cs!r}.")
            if made is None:
                made = partial(default_costs, plain, X, y, weight, norms)
            costs = made(int(self.Cs))
        else:
            costs = sorted(float(cost) for cost in np.atleast_1d(self.Cs))
            if not costs:
                raise ValueError("Cs is empty: give at least one value of C, or how many to make.")
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
        weighs = sample_weight is not None and takes_weights(scorer)
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

    def _choices(self):
        """The kernels to choose from: where they are made for the table, with those on single
        columns and without, and each on all columns alone, as an SVM of one kernel is tuned.
        """
        is_free = isinstance(self.kernels, str) and self.kernels == "auto"
        return MADE if is_free and self.combination == "sum" else [self.kernels]

    def _judged(self, task, found, scorer, score_params):
        """Scores and numbers of kernels and groups of every cell that is there, NaN elsewhere. What
        has no score on some fold is not chosen.
        """
        shape = len(task.splits), len(task.costs), len(task.norms)
        scores, kernels, groups = (np.full(shape, np.nan) for _ in range(3))
        for place in [place for place in task.places() if place in found]:
            cell, test = found[place], task.splits[place.fold][1]
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
            kernels[at], groups[at] = cell.kernels, cell.groups
        known, finite = ~np.isnan(kernels), np.isfinite(scores)
        whole, counts = finite.all(axis=0), known.sum(axis=0)
        # none, where the grid was broken off before any C and p was through
        fair = whole if whole.any() else (counts > 0) & (finite == known).all(axis=0)
        totals = np.where(finite, scores, 0.0).sum(axis=0)
        means = np.where(fair, totals / np.maximum(counts, 1), -np.inf)
        if self.rule == "auto" and self.scoring is None:
            for cost, norm in np.argwhere(np.isfinite(means)):
                means[cost, norm] += self._finer(*self._at_held_out(task, found, cost, norm), task)
        return Judged(task, scores, kernels, groups, means, bool(whole.any()))

    def _check_scores(self, judged):
        """Warn of scores that are not numbers; raise if no C and p is without."""
        known = [~np.isnan(one.kernels) for one in judged]
        failed = [at & ~np.isfinite(one.scores) for at, one in zip(known, judged, strict=True)]
        count, total = (int(sum(map(np.count_nonzero, of))) for of in (failed, known))
        if not count:
            return
        name = getattr(self.scoring, "__name__", repr(self.scoring))
        found = f"{count} of {total} scores are NaN or infinite (scoring={name})"
        if not any(np.isfinite(one.means).any() for one in judged):
            folds = np.flatnonzero(np.any([one.any(axis=(1, 2)) for one in failed], axis=0))
            raise ValueError(
                f"There is nothing to choose C and p by: {found}, every C and p having one on the "
                f"folds {folds.tolist()}. Give another scoring, or a cv of fewer or stratified "
                "folds, whose test rows have what the score needs, such as every class."
            )
        warnings.warn(
            f"{found}: a C and p with such a score on any fold is not chosen.",
            stacklevel=user_stacklevel(),
        )

    def _choose_cell(self, judged):
        """C, p and kernels by the rule; of equals the sparsest and smallest. The task that they
        belong to.
        """
        # the first of equals; a grid that was broken off at its beginning says nothing
        known = [one for one in judged if one.whole] or judged
        best = max(known, key=lambda one: one.means.max())
        task, scores, means = best.task, best.scores, best.means
        self.Cs_, self.ps_ = np.array(task.costs), np.array(task.norms)
        self.scores_, self.n_kernels_, self.n_groups_ = scores, best.kernels, best.groups
        if isinstance(task.template.kernels, str):
            self.kernels_ = task.template.kernels
        least = means.max()
        if self.rule == "one_standard_error" and len(scores) > 1:
            place = np.unravel_index(np.argmax(means), means.shape)
            spread = np.nanstd(scores[(slice(None), *place)], ddof=1)
            least -= spread / np.sqrt(len(scores))
        order = np.lexsort((np.repeat(self.Cs_, self.ps_.size), np.tile(self.ps_, self.Cs_.size)))
        flat = means.ravel()
        chosen = next(place for place in order if flat[place] >= least - ROUNDING * abs(least))
        self.best_index_ = [int(chosen // self.ps_.size), int(chosen % self.ps_.size)]
        cost, norm = self.best_index_
        self.best_score_ = float(np.nanmean(self.scores_[:, cost, norm]))
        self.C_, self.p_ = float(self.Cs_[cost]), float(self.ps_[norm])
        return task

    def _keep_held_out(self, task, found):
        """Decision values of what was chosen at rows that were held out."""
        self._held_out, _ = self._at_held_out(task, found, *self.best_index_)
        self.oof_decision_ = self._shaped(self._held_out)

    def _at_held_out(self, task, found, cost, norm):
        """Decision values of a C and p at rows that were held out, (t, n), the mean where a row was
        so more than once, NaN where it never was; and whether it was.
        """
        total, times = 0.0, np.zeros(len(task.y))
        for fold, (_, test) in enumerate(task.splits):
            cell = found.get(GridIndex(fold, norm, cost, task.kernels))
            if cell is not None:
                part = np.zeros((len(cell.scores), len(task.y)))
                np.add.at(part, (slice(None), test), cell.scores)
                np.add.at(times, test, 1.0)
                total = total + part
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / times, times > 0.0

    def _folds(self, task, found):
        """The models of what was chosen, with what they say of rows that they never saw."""
        (cost, norm), folds, counted = self.best_index_, [], task.sample_weight > 0.0
        weight = task.sample_weight / task.sample_weight[counted].mean()
        for number, (_, test) in enumerate(task.splits):
            place, some = GridIndex(number, norm, cost, task.kernels), counted[test]
            if place in found and some.any():
                model, rows = fold_model(task, place), test[some]
                of = self._misfits(task, model, found[place].scores[:, some], rows)
                there = presence(model, task.table.X[rows])
                folds.append(HeldOutFold(model, *of, weight[rows], there))
        return folds

    def _known_folds(self):
        """The models of the folds; raise where there are none."""
        check_is_fitted(self)
        if not getattr(self, "held_out_folds_", None):
            raise ValueError(
                "The models of the folds are not known, which sets and intervals are made of: the "
                "model was compressed, or comes from a file of an earlier version. Ask the model "
                "that was fitted."
            )
        return self.held_out_folds_

    def _refit(self, X, y, sample_weight):
        """Train on everything, and become that model."""
        kernels = getattr(self, "kernels_", self.kernels)
        # the checkpoint is the grid's
        model = self._plain(kernels=kernels, C=self.C_, p=self.p_, checkpoint=None)
        check_parameters(model)
        model._fit(X, y, sample_weight)
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
        scores of the folds, mean numbers of kernels and groups with weight.
        """
        check_is_fitted(self, "scores_")
        flat = self.scores_.reshape(len(self.scores_), -1)
        with np.errstate(invalid="ignore"):  # of infinite scores
            means, deviations = flat.mean(axis=0), flat.std(axis=0)
        ordered = np.where(np.isfinite(means), means, -np.inf)
        ranks = 1 + (ordered[None] > ordered[:, None]).sum(axis=1)
        columns = {
            "C": np.repeat(self.Cs_, self.ps_.size),
            "p": np.tile(self.ps_, self.Cs_.size),
            "mean_test_score": means,
            "std_test_score": deviations,
            "rank_test_score": ranks,
            "mean_kernels": self.n_kernels_.mean(axis=0).ravel(),
            "mean_groups": self.n_groups_.mean(axis=0).ravel(),
        }
        columns |= {f"split{fold}_test_score": row for fold, row in enumerate(flat)}
        return data_frame(columns, "pandas")


def _in_words(tasks):
    """The problems of a grid in words; kernels alone have no p to choose."""
    norms = max(len(task.norms) for task in tasks)
    words = f"{len(tasks[0].splits)} folds, {len(tasks[0].costs)} values of C, {norms} of p"
    if len(tasks) == 1:
        return words
    alone = sum(len(task.norms) < norms for task in tasks)
    single = f", {alone} of them single, which have no p" if alone else ""
    return f"{words}; {len(tasks)} choices of kernels{single}"
