"""Every C and p on every fold, for little more than a few fits.

The kernels are computed once. A fold is a part of their rows (`PartBank`): it is normalized on its
own training rows, by factors on the weights, and every pass over the kernels also gives decision
values at the rows that were held out. Folds whose kernels are the same share one bank, and all
problems that run side by side share its passes (`Hub`). Kernels whose widths follow the data differ
from fold to fold; then every fold has a bank.

Where passes cannot be shared (approximations, masked kernels, combinations, devices, rows that lack
views), every fold is a path of its own.
"""

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .._threads import Threads, thread_count
from ..banks import Bank
from ..banks.compute import Compute
from ..banks.make import tiled
from ..banks.part import PartBank
from ..banks.shared import Hub, held, width
from ..banks.spec import BankSpec, Training
from ..kernels.collection import MaskedCollection
from ..kernels.points import as_points
from .checks import memory_budget
from .paths import like, moved, path, rows_of
from .prepare import FLOAT32_TOL, Prepared, collection
from .run import Run
from .units import in_units, learn_units

log = logging.getLogger("manykernels")

BATCH = 12  # problems side by side that make a pass over the kernels worth while


class Cell(NamedTuple):
    """What came of one C and p on one fold.

    Attributes
    ----------
    scores : (t, n_test) decision values of the held-out rows
    kernels : int
        With weight.
    finished : bool
        Not broken off from outside.
    classes : array, or None for regression
        Of the training rows.
    """

    scores: np.ndarray
    kernels: int
    finished: bool
    classes: np.ndarray | None


class Place(NamedTuple):
    """Of a cell: fold, p and C by their numbers."""

    fold: int
    norm: int
    cost: int


class Task(NamedTuple):
    """What is to be tuned.

    Attributes
    ----------
    template : MKL estimator
        With the parameters that all models share.
    X, y, sample_weight
        As for `fit`; weights for all rows.
    splits : list of pairs of index arrays
    costs, norms : lists of float
    verbose : int
        Whether to say what is going on.
    incomplete : bool
        Whether rows lack views.
    """

    template: Any
    X: Any
    y: np.ndarray
    sample_weight: np.ndarray
    splits: list
    costs: list
    norms: list
    verbose: int = 0
    incomplete: bool = False

    def places(self, costs=None):
        """All cells, or those of some C."""
        chosen = range(len(self.costs)) if costs is None else costs
        return [
            Place(fold, norm, cost)
            for cost in chosen
            for norm in range(len(self.norms))
            for fold in range(len(self.splits))
        ]

    def model(self, place, template):
        """An estimator for a cell, like that of its fold."""
        return like(template, C=self.costs[place.cost], p=self.norms[place.norm])


def cells(
    task: Task, done: dict[Place, Cell], note: Callable[[dict[Place, Cell]], Any] | None = None
) -> bool:
    """Compute the cells that are not done; False if that was broken off.

    Parameters
    ----------
    task : Task
    done : dict
        Cells that are known; new ones are added.
    note : callable, optional
        Called with them whenever some were added.
    """
    way = _side_by_side if _can_share(task.template, task.incomplete) else _fold_by_fold
    try:
        for _ in way(task, done):
            if note is not None:
                note(done)
    except KeyboardInterrupt:
        return False
    return all(cell.finished for cell in done.values())


def _can_share(template, incomplete):
    """Whether folds can be parts of a bank: where rows lack views, they are at the means of other
    rows in every fold.
    """
    return (
        not incomplete
        and template.approximation is None
        and template.device == "cpu"
        and template.combination == "sum"
        and template.normalize != "center"
        and not isinstance(template.kernels, (Bank, MaskedCollection))
    )


def _fold_by_fold(task, done):
    """A path for every fold, and predictions for the rows that were held out."""
    for fold, (train, test) in enumerate(task.splits):
        places = [place for place in task.places() if place.fold == fold]
        if all(place in done for place in places):
            continue
        models = path(
            task.template,
            rows_of(task.X, train),
            task.y[train],
            C=task.costs,
            p=task.norms,
            sample_weight=task.sample_weight[train],
        )
        held_out = rows_of(task.X, test)
        for number, model in enumerate(models):
            norm, cost = divmod(number, len(task.costs))
            scores = model._scores(held_out)
            done[Place(fold, norm, cost)] = _cell(model, model.result_, scores)
        if len(models) < len(places):
            raise KeyboardInterrupt
        yield


class Fold(NamedTuple):
    """A fold on the rows of a bank.

    Attributes
    ----------
    template : MKL estimator
        That has read the training rows.
    prepared : Prepared
        Without a bank.
    spec : BankSpec
        The kernels as the training rows make them.
    table : (N, n_features) points
        All distinct rows, as the kernels see them.
    points : (n,) int
        The rows of the bank that are training rows.
    held_out : (n_test,) int
        The rows of the bank that were held out, in the order of the test indices.
    """

    template: Any
    prepared: Prepared
    spec: BankSpec
    table: Any
    points: np.ndarray
    held_out: np.ndarray

    def bank(self, shared, scales):
        """The part of a bank of all rows, which has these scales."""
        factors = np.divide(self.spec.scales, scales, out=np.zeros(scales.size), where=scales > 0.0)
        return PartBank(shared, self.points, factors)


def _side_by_side(task, done):
    """All cells on shared banks: all folds of a bank and all p side by side, some C after the
    others, each from where a smaller one ended.
    """
    folds = _folds(task)
    results: dict[Place, Any] = {}
    for members in _alike(folds):
        if all(place in done for place in task.places() if place.fold in members):
            continue
        spec = folds[members[0]].spec
        budget = memory_budget(task.template.cache_size)
        compute = Compute(
            np.float64 if task.template.tol < FLOAT32_TOL else np.float32,
            Threads(thread_count(task.template.n_jobs)),
        )
        table, specs = folds[members[0]].table, [folds[fold].spec for fold in members]
        bank = tiled(_on_all(spec, specs), table, compute, budget)
        hub = Hub(held(bank, budget))
        for costs in _rounds(len(task.costs), len(members) * len(task.norms)):
            places = [
                place for place in task.places(costs) if place.fold in members and place not in done
            ]
            outputs = len(folds[0].prepared.targets)
            at_once = max(1, width(bank, outputs, budget))
            if at_once < len(places):
                _say(task, len(places), at_once, budget)
            for some in _batches(places, at_once):
                works = [
                    partial(
                        _solved,
                        Run(task.model(place, folds[place.fold].template)),
                        folds[place.fold],
                        _start(task, place, results),
                        bank.scales,
                    )
                    for place in some
                ]
                for place, (result, scores) in zip(some, hub.run(works), strict=True):
                    results[place] = result
                    done[place] = _cell(folds[place.fold].template, result, scores)
                if not all(done[place].finished for place in some):
                    raise KeyboardInterrupt
                yield


def _say(task, wanted, at_once, budget):
    """That memory is short, for those who listen."""
    text = (
        f"Of {wanted} problems that could run side by side, {at_once} at a time fit into "
        f"{budget / 2**20:.0f} MB (cache_size): the grid runs in parts."
    )
    log.info(text)
    if task.verbose:
        print(text, file=sys.stderr, flush=True)


def _rounds(count, side_by_side):
    """Numbers of C in rounds: as few at a time as make a good batch, far from each other."""
    at_once = min(count, -(-BATCH // side_by_side))
    rounds = -(-count // at_once)
    return [range(first, count, rounds) for first in range(rounds)]


def _batches(places, most):
    """The places in parts of about equal size."""
    count = -(-len(places) // most)
    return [places[number::count] for number in range(count)]


def _start(task, place, results):
    """Where to begin: where the next smaller C ended that is known and near."""
    for cost in range(place.cost - 1, -1, -1):
        before = results.get(place._replace(cost=cost))
        if before is not None:
            return moved(before, task.costs[place.cost] / task.costs[cost])
    return None


def _solved(run, fold, start, scales, shared):
    """The result of a problem, and its decision values at the held-out rows."""
    prepared = fold.prepared._replace(bank=fold.bank(shared, scales))
    with run:
        run.begin(prepared)
        result, bank, _ = run.solve(prepared, start)
    scores = _at_all_points(bank, result) + result.intercept[:, None]
    return result, scores[:, fold.held_out] + np.reshape(fold.prepared.offset, (-1, 1))


def _at_all_points(bank, result):
    if result.weights.ndim == 1:
        return bank.everywhere(result.weights, result.beta)
    outputs = zip(result.weights, result.beta, strict=True)
    return np.concatenate([bank.everywhere(d, b[None]) for d, b in outputs])


def _cell(model, result, scores):
    used, finished = np.atleast_2d(result.weights).any(axis=0).sum(), not result.status.broken_off
    classes = getattr(model, "classes_", None)
    return Cell(scores, int(used), finished, classes)


def _folds(task):
    """The folds, all on the same distinct rows."""
    everything = _Recorder()
    like(task.template)._data(task.X, task.y, None, everything)
    place, rows = everything.distinct.group, everything.distinct.rows
    table, folds = as_points(everything.X[rows]), []
    for train, test in task.splits:
        weight = np.zeros(len(task.sample_weight))
        np.add.at(weight, train, task.sample_weight[train])
        template, seen = like(task.template), _Recorder()
        prepared = template._data(task.X, task.y, weight, seen)
        learn_units(template, seen.X[seen.distinct.rows], seen.distinct.weight)
        spec, points = _spec(template, seen), place[seen.distinct.rows]
        folds.append(Fold(template, prepared, spec, in_units(template, table), points, place[test]))
    return folds


class _Recorder:
    """Takes the place of what makes a bank, and remembers what it was asked for."""

    def __call__(self, estimator, X, distinct):
        self.X, self.distinct = X, distinct


def _spec(template, seen):
    """The kernels as some training rows make them."""
    X, weight = in_units(template, seen.X[seen.distinct.rows]), seen.distinct.weight
    training = Training(
        as_points(X),
        weight,
        getattr(template, "feature_names_in_", None),
        template._by_column(template.categories_),
    )
    return BankSpec.from_data(collection(template, X), template.normalize, training)


def _alike(folds):
    """Numbers of folds in groups that have the same kernels on the same points."""
    groups: list[list[int]] = []
    for number, fold in enumerate(folds):
        for group in groups:
            first = folds[group[0]]
            if first.table is fold.table and first.spec.kernels == fold.spec.kernels:
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def _on_all(spec, others):
    """The kernels of folds with scales of the same size as theirs."""
    return replace(spec, scales=np.max([one.scales for one in others], axis=0))
