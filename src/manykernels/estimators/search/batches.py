"""Cells of a grid in batches on a device: all C, p, folds and choices of kernels at once.

Kernels of a fold are computed there once, as matrices or as low-rank factors, and problems on all
of them go through `manykernels.solvers.lockstep` side by side. What comes back has a certificate of
`Problem`; a problem whose certificate is not good enough, or that the method does not take, is left
to the engine, which solves it as it solves every other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._canonical import taken
from ..._pulse import listening
from ..._threads import Threads, one_thread, thread_count
from ...banks import Bank, TiledBank
from ...banks.compute import Compute, Points
from ...banks.lowrank.factors import FactorBank
from ...banks.torch import gpu_has_started, grid_pays
from ...banks.torch.device import Device
from ...banks.torch.factors import DeviceFactorBank
from ...banks.torch.stacks import FactorStack, MatrixStack
from ...banks.torch.tiled import DeviceTiledBank
from ...planning import fold_factors_fit, fold_matrices_fit, plan_batches, problems_at_once
from ...problem import Problem
from ...result import Counters, Result, Status
from ...run_state import RunState
from ...solvers import lockstep
from ...solvers.base import fewest
from ..checks import choose_regularizer, is_limited, memory_budget
from ..copies import like
from ..data.prepare import Prepared, goes_by_pairs, make_kernels, request
from ..data.units import in_units, learn_units
from ..session import run_state
from .folds import Recorder, make_folds
from .tuning import made_cell


class Place(NamedTuple):
    """A fold on a device.

    Attributes
    ----------
    stack : MatrixStack or FactorStack
    bank : Bank
        Of the same kernels on the host, which certificates and models ask.
    template : MKL estimator
        That has read the training rows.
    prepared : Prepared
    groups : list of str
        The groups of the kernels.
    """

    stack: Any
    bank: Any
    template: Any
    prepared: Prepared
    groups: Any


class Chunk(NamedTuple):
    """Cells of one fold and choice of kernels that are solved together."""

    task: Any
    place: Place
    cells: list
    problems: list[Problem]


def solve_in_batches(
    tasks: list, done: dict, note: Callable[[dict], Any] | None, wanted: Callable[[Any], bool]
) -> None:
    """Compute cells that are wanted and not done, as far as they are such as batches take.

    Parameters
    ----------
    tasks : list of GridTask
    done : dict
        Cells that are known; new ones are added.
    note : callable, optional
        Called with them whenever some were added.
    wanted : callable
        Whether a cell is to be computed.
    """
    own = [task for task in tasks if in_batches(task) and _pays(task)]
    if not own:
        return
    name = own[0].template.device
    device = Device("cuda" if name == "auto" else name)
    if not (device.doubles or device.name == "torch"):
        return
    with one_thread(), listening(None):
        for chunks in _together(device, _chunks(device, own, done, wanted)):
            _solve(device, chunks, done)
            if note is not None:
                note(done)


def in_batches(task: Any) -> bool:
    """Whether cells of a task may be solved in batches, as far as its parameters tell."""
    one = task.template
    return (
        one.device != "cpu"
        and one.solver == "auto"
        and one.combination == "sum"
        and one.regularizer is None
        and one.normalize not in ("center", "cosine")
        and not (task.incomplete or is_limited(one))
        and not (isinstance(one.kernels, Bank) or goes_by_pairs(one.kernels))
    )


def _pays(task: Any) -> bool:
    """Whether a device is worth it; one that was asked for by name is."""
    if task.template.device != "auto":
        return True
    if task.template.approximation is not None:
        return gpu_has_started()
    folds = _folds(task)
    return grid_pays(len(folds[0].spec.kernels), max(one.points.size for one in folds))


# --- what there is to solve -----------------------------------------------------------------------


def _chunks(device: Device, tasks: list, done: dict, wanted: Callable) -> Iterator[Chunk]:
    """The cells of every fold and choice of kernels, whose kernels are made as they are taken."""
    for task in tasks:
        places = [one for one in task.places() if wanted(one) and one not in done]
        for fold in sorted({one.fold for one in places}):
            cells = [one for one in places if one.fold == fold]
            found = _fold(device, task, fold)
            if found is None:
                continue
            problems = _problems(task, found, cells)
            if all(map(lockstep.takes, problems)):
                yield Chunk(task, found, cells, problems)


def _problems(task: Any, place: Place, cells: list) -> list[Problem]:
    """The problems of some cells, made of one of them."""
    one = run_state(
        task.model(cells[0], place.template), place.prepared._replace(bank=place.bank), None
    ).problem
    share, made = one.cost / task.costs[cells[0].cost], []
    for cell in cells:
        norm = choose_regularizer(task.norms[cell.norm], None)
        made.append(replace(one, cost=task.costs[cell.cost] * share, regularizer=norm))
    return made


def _fold(device: Device, task: Any, fold: int) -> Place | None:
    """A fold on the device; None if it has no place there, or several outputs."""
    exact = task.template.approximation is None
    return (_exact if exact else _approximate)(device, task, fold)


def _exact(device: Device, task: Any, fold: int) -> Place | None:
    one = _folds(task)[fold]
    n, rows, m = one.points.size, one.table.shape[0], len(one.spec.kernels)
    if len(one.prepared.targets) > 1 or not fold_matrices_fit(m, n, rows, device.free()):
        return None
    # training points first, so that their kernels need no copy of their own
    order = np.concatenate([one.points, one.held_out])
    compute = Compute(np.float64, Threads(thread_count(one.template.n_jobs)), device)
    points = Points(one.table[order], one.table[one.points])
    values = device.torch.zeros((m, n, n), dtype=device.torch.float64, device=device.place)
    others = values.new_zeros((m, len(one.held_out), n))
    for k, matrix in DeviceTiledBank(one.spec, points, compute).one_by_one():
        values[k], others[k] = matrix[:n], matrix[n:]
    host = Compute(np.float64, compute.threads)
    bank = TiledBank(one.spec, Points.square(one.table[one.points]), host)
    stack = MatrixStack(values, others)
    return Place(stack, bank, one.template, one.prepared, one.spec.groups)


def _folds(task: Any) -> Any:
    """The folds of a task with exact kernels."""
    made = task.made
    if "folds" not in made:
        of = task.table, task.y, task.sample_weight, task.splits
        made |= {"folds": make_folds(task.template, *of), "results": {}}
    return made["folds"]


def _approximate(device: Device, task: Any, fold: int) -> Place | None:
    train, test = task.splits[fold]
    weight = np.zeros(len(task.sample_weight))
    np.add.at(weight, train, task.sample_weight[train])
    template, seen = like(task.template), Recorder()
    prepared = template._data(task.table, task.y, weight, seen)
    if len(prepared.targets) > 1:
        return None
    counts = seen.distinct.weight
    X = taken(seen.X, seen.distinct.rows)
    learn_units(template, X, counts)
    bank = make_kernels(template, in_units(template, X), counts)
    if not (isinstance(bank, FactorBank) or bank.factored):
        return None
    new = bank.cross(in_units(template, seen.X[test]))
    fits = fold_factors_fit(bank.width, bank.n, len(test), device.free())
    if not (fits and isinstance(new, FactorBank)):
        return None
    points = bank.points
    directions = np.eye(bank.width) if points is bank else bank.P
    is_there = isinstance(points, DeviceFactorBank) and points.has_all_dimensions
    basis = points.store.factors if is_there else points.factors
    basis, directions, others = (device.put(one) for one in (basis, directions, new.factors))
    stack = FactorStack(device, basis, directions, others, new.offsets)
    prepared = prepared._replace(bank=bank)
    task.made.setdefault("prepared", {})[fold] = template, prepared
    return Place(stack, bank, template, prepared, bank.groups)


def _together(device: Device, chunks: Iterator[Chunk]) -> Iterator[list[Chunk]]:
    """Chunks that fit into the memory of the device at once."""
    some: list[Chunk] = []
    for chunk in chunks:
        stack, left = chunk.place.stack, chunk
        if some and some[0].place.stack.is_exact != stack.is_exact:
            yield some
            some = []
        while left.cells:
            room = problems_at_once(_largest([*some, left]), device.free())
            room -= sum(len(one.cells) for one in some)
            if room < len(left.cells) and some:
                yield some
                some = []
                continue
            part = left._replace(cells=left.cells[:room], problems=left.problems[:room])
            left = left._replace(cells=left.cells[room:], problems=left.problems[room:])
            some.append(part)
    if some:
        yield some


def _largest(chunks: list[Chunk]) -> tuple[int, int, bool]:
    """Points and kernels at most, and whether there are matrices."""
    stacks = [chunk.place.stack for chunk in chunks]
    return max(one.n for one in stacks), max(one.m for one in stacks), stacks[0].is_exact


# --- what comes of it -----------------------------------------------------------------------------


def _solve(device: Device, chunks: list[Chunk], done: dict) -> None:
    began = time.perf_counter()
    tol = chunks[0].task.template.tol
    groups = [lockstep.Group(chunk.place.stack, chunk.problems) for chunk in chunks]
    answers = lockstep.solve(device, groups, tol)
    seconds = (time.perf_counter() - began) / sum(len(chunk.cells) for chunk in chunks)
    for chunk, found in zip(chunks, answers, strict=True):
        if not chunk.task.plans:
            chunk.task.plans.append(_plan(device, chunk))
        good = {}
        for cell, problem, answer in zip(chunk.cells, chunk.problems, found, strict=True):
            result = certified(problem, answer, tol, seconds)
            if result is not None:
                good[cell] = result
        if good:
            _keep(device, chunk, good, done)


def certified(problem: Problem, answer: Any, tol: float, seconds: float) -> Result | None:
    """The result of a problem, on the simplex with as few kernels as the tolerance allows; None if
    its certificate is not good enough.
    """
    beta = problem.feasible(answer.beta[None])
    M, weights = answer.products, answer.weights
    if not np.isfinite(beta).all() or not np.isfinite(weights).all() or not weights.any():
        return None
    if not np.array_equal(beta[0], answer.beta):  # the sum was off by rounding
        share = np.abs(beta[0] - answer.beta).sum() / np.abs(beta).sum()
        if share > lockstep.TOLERANCES.sum_error:
            return None
        M = M * (beta[0] @ answer.beta) / (answer.beta @ answer.beta)
    forms = np.maximum(M @ beta[0], 0.0)
    weights = problem.regularizer.adopt(weights)

    def certificate(some: np.ndarray) -> Any:
        return problem.certificate(some, beta, scores=(some @ M)[None], forms=forms)

    found = certificate(weights)
    if not abs(found.gap) <= tol:
        return None
    if problem.regularizer.is_simplex:
        few = fewest(weights, lambda some: certificate(some).gap <= tol)
        weights, found = (weights, found) if few is weights else (few, certificate(few))
    counters = Counters(kernel_passes=2 * answer.steps, seconds=seconds)
    return Result(
        weights=weights,
        beta=beta,
        intercept=found.intercept,
        status=Status.OPTIMAL,
        certificate=found,
        n_iter=answer.steps,
        counters=counters,
        seconds=seconds,
    )


def _keep(device: Device, chunk: Chunk, results: dict[Any, Result], done: dict) -> None:
    """Keep results, and their decision values at the rows that were held out."""
    place, made = chunk.place, chunk.task.made
    weights, beta = (
        device.put(np.stack(rows))
        for rows in zip(*((one.weights, one.beta[0]) for one in results.values()), strict=True)
    )
    (scores,) = device.fetched(place.stack.values(weights, beta))
    offset = np.reshape(place.prepared.offset, (-1, 1))
    for (cell, result), row in zip(results.items(), scores, strict=True):
        at = row[None] + result.intercept[:, None] + offset
        done[cell] = made_cell(place.template, result, at, place.groups)
        made.setdefault("results", {})[cell] = result


def _plan(device: Device, chunk: Chunk) -> Any:
    problem, task = chunk.problems[0], chunk.task
    run = RunState(problem, memory_budget=memory_budget(task.template.cache_size))
    batch = task.batch(len(chunk.cells))
    return plan_batches(run, request(chunk.place.template), device.name, batch, chunk.place.stack)
