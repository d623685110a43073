"""Every C and p on every fold, for little more than a few fits.

Problems run side by side on the rows of one bank, see `folds`. Kernels whose widths follow the data
differ from fold to fold; then every fold has a bank. Where passes cannot be shared (approximations,
masked kernels, combinations, devices, rows that lack views), every fold is a path of its own.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._threads import Threads, thread_count
from ...banks import TiledBank
from ...banks.compute import Compute, Points
from ...planning import Batch, Way, plan_rounds, problems_of
from ..copies import like
from ..data.frames import rows_of
from ..data.inputs import ReadTable
from ..engine import BrokenOff, Job
from ..session import FitSession
from .costs import warm_start
from .folds import alike, can_share, fold_engine, make_folds
from .paths import path


class GridCell(NamedTuple):
    """What came of one C and p on one fold.

    Attributes
    ----------
    scores : (t, n_test) decision values of the held-out rows
    kernels, groups : int
        With weight; a kernel without a group is one by itself.
    finished : bool
        Not broken off from outside.
    classes : array, or None for regression
        Of the training rows.
    """

    scores: np.ndarray
    kernels: int
    groups: int
    finished: bool
    classes: np.ndarray | None


class GridIndex(NamedTuple):
    """Of a cell: fold, p and C, and the kernels where there are several to choose from, by their
    numbers.
    """

    fold: int
    norm: int
    cost: int
    kernels: int = 0


class GridTask(NamedTuple):
    """What is to be tuned.

    Attributes
    ----------
    template : MKL estimator
        With the parameters that all models share.
    X, y, sample_weight
        As for `fit`; weights for all rows.
    table : ReadTable
        X once it was read.
    splits : list of pairs of index arrays
    costs, norms : lists of float
    plans : list of Plan
        Those of problems so far.
    kernels : int
        The number of the kernels.
    verbose : int
        Whether to say what is going on.
    incomplete : bool
        Whether rows lack views.
    total : int
        How many problems there are, for all kernels.
    words : str
        What they are.
    made : dict
        What was made of the splits for all calls: folds, and engines of several of them.
    """

    template: Any
    X: Any
    table: ReadTable
    y: np.ndarray
    sample_weight: np.ndarray
    splits: list
    costs: list
    norms: list
    plans: list
    kernels: int = 0
    verbose: int = 0
    incomplete: bool = False
    total: int = 0
    words: str = ""
    made: dict | None = None

    def places(self, costs=None):
        """All cells, or those of some C."""
        chosen = range(len(self.costs)) if costs is None else costs
        return [
            GridIndex(fold, norm, cost, self.kernels)
            for cost in chosen
            for norm in range(len(self.norms))
            for fold in range(len(self.splits))
        ]

    def batch(self, at_once):
        """The problems of the grid, for their plans."""
        ways = (Way.MODELS_IN_TURN,) if at_once == 1 else ()
        return Batch(self.total, at_once, self.words, ways, ("cv", "Cs", "ps"))

    def model(self, place, template):
        """An estimator for a cell, like that of its fold."""
        return like(template, C=self.costs[place.cost], p=self.norms[place.norm])


def cells(
    task: GridTask,
    done: dict[GridIndex, GridCell],
    note: Callable[[dict[GridIndex, GridCell]], Any] | None = None,
    wanted: Callable[[GridIndex], bool] = lambda place: True,
) -> bool:
    """Compute the cells that are wanted and not done; False if that was broken off.

    Parameters
    ----------
    task : Task
    done : dict
        Cells that are known; new ones are added.
    note : callable, optional
        Called with them whenever some were added.
    wanted : callable
        Whether a cell, given by its `GridIndex`, is to be computed.
    """
    way = _on_shared_kernels if can_share(task.template, task.incomplete) else _fold_by_fold
    try:
        for _ in way(task, done, wanted):
            if note is not None:
                note(done)
    except KeyboardInterrupt:
        return False
    return all(cell.finished for cell in done.values())


def fold_model(task: GridTask, place: GridIndex) -> Any:
    """The fitted estimator of a cell: made of what was kept of it, or trained again if the cell
    comes from a checkpoint.
    """
    made = task.made or {}
    if place in made.get("models", {}):
        return made["models"][place]
    if place not in made.get("results", {}):
        train = task.splits[place.fold][0]
        rows, weight = task.table.rows(train), task.sample_weight[train]
        return task.model(place, task.template)._fit(rows, task.y[train], weight)
    result = made["results"][place]
    if place.fold in made.get("prepared", {}):
        template, prepared = made["prepared"][place.fold]
        model = task.model(place, template)
        model._keep(result, prepared.bank.persistent, prepared)
        return _lightened(model)
    fold = made["folds"][place.fold]
    model = task.model(place, fold.template)
    compute = Compute(threads=Threads(thread_count(model.n_jobs)))
    bank = TiledBank(fold.spec, Points.square(fold.table[fold.points]), compute)
    model._keep(result, bank, fold.prepared)
    kept = model.decision_.points  # of the others it needs nothing
    return model.restore(model.model_state(kept)._replace(bank=bank.take_points(kept)))


def _fold_by_fold(task, done, wanted):
    """A path for every fold, and predictions for the rows that were held out."""
    for fold, (train, test) in enumerate(task.splits):
        places = [place for place in task.places() if place.fold == fold and wanted(place)]
        places = [place for place in places if place not in done]
        if not places:
            continue
        costs, norms = (sorted({place[k] for place in places}) for k in (2, 1))
        models = path(
            task.template,
            task.table.rows(train),
            task.y[train],
            C=[task.costs[cost] for cost in costs],
            p=[task.norms[norm] for norm in norms],
            sample_weight=task.sample_weight[train],
        )
        held_out = rows_of(task.X, test)
        for number, model in enumerate(models):
            norm, cost = divmod(number, len(costs))
            scores = model._scores(held_out)
            place = GridIndex(fold, norms[norm], costs[cost], task.kernels)
            done[place] = made_cell(model, model.result_, scores, model.bank_.groups)
            if task.made is not None:
                task.made.setdefault("models", {})[place] = _lightened(model)
        plan = models[0].plan_
        ways = plan.ways | {Way.FOLDS_IN_TURN}
        task.plans.append(replace(plan, ways=ways, problems=problems_of(task.batch(plan.at_once))))
        if len(models) < len(costs) * len(norms):
            raise KeyboardInterrupt
        yield


def _lightened(model):
    """A model without the coefficients of half a million rows, if its factors do without."""
    if model.decision_.approximate:
        beta = model.result_.beta[:, :0]
        model.result_ = replace(model.result_, beta=beta)
        model.support_, model.dual_coef_ = np.empty(0, dtype=np.intp), beta
    return model


def _on_shared_kernels(task, done, wanted):
    """All cells on shared banks: all folds of a bank and all p side by side, some C after the
    others, each from where a smaller one ended.
    """
    made = {} if task.made is None else task.made
    if "folds" not in made:
        made["folds"] = make_folds(
            task.template, task.table, task.y, task.sample_weight, task.splits
        )
        made["results"] = {}
    folds, results = made["folds"], made["results"]
    for members in alike(folds):
        places = [place for place in task.places() if place.fold in members and wanted(place)]
        if all(place in done for place in places):
            continue
        key = tuple(members)
        engine, scales = made.get(key) or fold_engine([folds[k] for k in members], task.verbose)
        if len(members) > 1:  # of one fold there is no other call
            made[key] = engine, scales
        left = [place for place in places if place not in done]
        batch, parts = task.batch(engine.at_once), (task, folds, left, scales, results)
        for solved in engine.solve_all(_waves(*parts, batch)):
            for place, (session, result, scores) in solved:
                task.plans.append(session.plan)
                results[place], fold = result, folds[place.fold]
                done[place] = made_cell(fold.template, result, scores, fold.spec.groups)
            if not all(done[place].finished for place, _ in solved):
                raise BrokenOff
            yield


def _waves(task, folds, left, scales, results, batch):
    """The problems that are left, some values of C at a time."""
    side_by_side = len({(place.fold, place.norm) for place in left})
    for costs in plan_rounds(len(task.costs), side_by_side):
        places = [place for place in left if place.cost in costs]
        yield [
            Job(
                place,
                partial(
                    _solved,
                    FitSession(task.model(place, folds[place.fold].template), batch=batch),
                    folds[place.fold],
                    _start(task, place, results),
                    scales,
                ),
            )
            for place in places
        ]


def _start(task, place, results):
    """Where to begin: where the next smaller C ended that is known and near."""
    for cost in range(place.cost - 1, -1, -1):
        before = results.get(place._replace(cost=cost))
        if before is not None:
            return warm_start(before, task.costs[place.cost] / task.costs[cost])
    return None


def _solved(run, fold, start, scales, shared):
    """The session and the result of a problem, and its decision values at the held-out rows."""
    result, bank = fold.solved(run, start, scales, shared)
    scores = _at_all_points(bank, result) + result.intercept[:, None]
    return run, result, scores[:, fold.held_out] + np.reshape(fold.prepared.offset, (-1, 1))


def _at_all_points(bank, result):
    if result.weights.ndim == 1:
        return bank.everywhere(result.weights, result.beta)
    outputs = zip(result.weights, result.beta, strict=True)
    return np.concatenate([bank.everywhere(d, b[None]) for d, b in outputs])


def made_cell(model, result, scores, groups):
    """What came of a cell, of the result of its problem."""
    used = np.flatnonzero(np.atleast_2d(result.weights).any(axis=0))
    of_used = [groups[k] for k in used]
    count = len(set(filter(None, of_used))) + of_used.count("")
    classes = getattr(model, "classes_", None)
    return GridCell(scores, used.size, count, not result.status.broken_off, classes)
