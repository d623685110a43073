"""The one loop that drives every solver, also those of a part of the problem."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np

from .._pulse import listening
from .._threads import one_thread
from ..result import Certificate, Record, Result, Status
from ..run_state import Point, RunState
from ..thresholds import thresholds
from .base import Iterate, Stopped

DROWNED = 0.3  # of the gap that is left on the way is rounding of the kernels: too much


def solve(problem, solver, *, tol=1e-3, max_iter=None, **options) -> Result:
    """Solve a problem: `drive` on a new run.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    tol : float
        Relative duality gap to reach.
    max_iter : int, optional
        As in `drive`.
    options
        Of the run: ``start``, ``memory_budget``, ``watch``, ``keep``, ``poll``; see `RunState`.
    """
    return drive(solver, RunState(problem, **options), tol=tol, max_iter=max_iter)


def drive(solver, run, *, tol=1e-3, max_iter=None) -> Result:
    """Run a solver until its certificate says that it is done.

    Kernels that are too coarse to certify the tolerance, or for any further progress, are made
    finer on the way. Where a method is stuck and rounding is not why, its `Solver.stand_in` goes on
    from the best point.

    Parameters
    ----------
    solver : Solver
    run : RunState
    tol : float
        Relative duality gap to reach.
    max_iter : int, optional
        Iterations at most, or what the solver counts in their place (`Solver.unit`). By default the
        solver's own limit, and an end before it when the gap falls too slowly (`Solver.slow`).

    Returns
    -------
    Result
        The iterate with the smallest gap, also after Ctrl-C.
    """
    run.problem.regularizer.check_memory(run.memory_budget)
    solver.check(run)
    began = time.perf_counter()
    solver = solver.without_steps() if max_iter == 0 else solver.specialize(run)
    run.limit, run.tol = max_iter, tol
    limit = solver.limit(run) if max_iter is None else max_iter
    history: list[Record] = []
    taken, carried = 0, None
    with one_thread(), _heard(run):  # the bank's own threads share out the tiles
        try:
            state, status = solver.init(run), None
            while status is None:
                taken = solver.count(state, len(history))
                stop = _told(run, state.iterate, history, began)
                status = _status(state.iterate, tol, solver.stationarity_tol, taken, limit)
                if status is None and max_iter is None and solver.slow(run, history[0].gap, tol):
                    status = Status.SLOW
                finer = _wants_finer(status, state.iterate, tol)
                if finer and status is not Status.STALLED:  # not if less of it is rounding
                    finer = _wants_finer(status, run.sharpened(state.iterate), tol)
                if finer and run.refine():
                    state, status = solver.refreshed(run, state), None
                elif _stuck(status, state.iterate) and solver.stand_in is not None:
                    solver, run.start = solver.stand_in().specialize(run), run.best.point
                    limit = solver.limit(run) if max_iter is None else max_iter
                    state, status = solver.init(run), None
                elif status is None and stop:
                    status = Status.STOPPED
                elif status is None:
                    state = solver.step(run, state, tol)
            if status is Status.STATIONARY:
                # an earlier one may have a slightly smaller value, but is not stationary
                run.best = state.iterate
            carried = solver.carried(state)
        except (KeyboardInterrupt, Stopped) as reason:
            status = Status.STOPPED if isinstance(reason, Stopped) else Status.INTERRUPTED
            if run.best is None:  # not even the first SVM was finished: certify what there is of it
                weights, beta = run.latest
                judge = (
                    run.problem.uncertified
                    if run.problem.regularizer.needs_bank
                    else run.certificate
                )
                run.best = Iterate(weights, beta, judge(weights, beta))
    run.counters.seconds = time.perf_counter() - began
    result = _result(run, status, history, taken)
    result.carried = carried
    if not (status.converged or status.broken_off):
        result.advice = solver.advice(run, result, tol)
    return result


def _heard(run):
    """A context in which polls end the run from inside of an iteration; those of a part of a run
    are the whole run's.
    """
    if run.is_part:
        return nullcontext()
    if run.poll is None:
        return listening(None)

    def listener():
        if run.poll():
            raise Stopped

    return listening(listener)


def _told(run, iterate, history, began):
    """Take note of an iterate and tell whoever listens; whether someone wants to stop."""
    run.best = _better(run.best, iterate)
    history.append(_record(len(history), iterate, run, began))
    if run.keep is not None:
        run.keep(run.best, history[-1])
    return run.watch is not None and run.watch(history[-1])


def _result(run, status, history, taken):
    best = run.best
    return Result(
        weights=best.weights,
        beta=best.beta,
        intercept=best.certificate.intercept,
        status=status,
        certificate=best.certificate,
        n_iter=taken,
        counters=run.counters,
        history=history,
        seconds=run.counters.seconds,
        subsets=run.subsets,
    )


def _wants_finer(status, iterate, tol):
    """Whether kernels of this precision are too coarse to certify a gap of tol, or to go on."""
    certificate = iterate.certificate
    allowed = tol * abs(certificate.primal)
    if status is None:  # what is left is mostly rounding: further steps would chase it
        return certificate.rounding > DROWNED * certificate.absolute_gap > DROWNED * allowed
    doubtful = (
        status is Status.OPTIMAL and certificate.rounding > thresholds().rounding_share * allowed
    )
    return doubtful or status is Status.STALLED


def _stuck(status, iterate):
    """Whether a method found no way on, though rounding leaves one."""
    certificate = iterate.certificate
    return status is Status.STALLED and certificate.absolute_gap > certificate.rounding


def _better(best, iterate):
    """The iterate with the smaller gap; where there is none, the one with the smaller primal value.

    The absolute gap: relative to a primal value that is far too large, every gap looks like one.
    """
    if best is None or iterate.ended is Status.FIXED_WEIGHTS or not best.settled:
        return iterate
    certificates = (iterate.certificate, best.certificate)
    key, best_key = ((abs(c.absolute_gap), c.primal, -c.dual) for c in certificates)
    return iterate if key < best_key else best


def _record(iteration, iterate, run, began):
    used = np.count_nonzero(iterate.weights > 1e-9 * iterate.weights.max(initial=0.0))
    return Record(
        iteration=iteration,
        objective=iterate.certificate.primal,
        gap=iterate.certificate.gap,
        svm_solves=run.counters.svm_solves,
        kernels_used=int(used),
        seconds=time.perf_counter() - began,
    )


def _status(iterate, tol, stationarity_tol, taken, limit):
    """How the run ends here, or None; `taken` iterations of at most `limit`."""
    certificate = iterate.certificate
    if np.isnan(certificate.gap):
        raise FloatingPointError(
            "The kernels gave values that are not numbers (NaN): check the data, their scale and "
            "the kernels."
        )
    # a gap clearly below zero is rounding, and proves nothing
    if abs(certificate.gap) <= tol and (iterate.settled or taken >= limit):
        return Status.OPTIMAL
    # as in the paper for the default tolerance, and less where the whole objective is small
    small = stationarity_tol * tol / 1e-3 * min(1.0, abs(certificate.primal))
    if np.isinf(certificate.gap) and iterate.stationarity <= small:
        return Status.STATIONARY
    if iterate.ended is not None:
        return iterate.ended
    return Status.MAX_ITER if taken >= limit else None


class Part(NamedTuple):
    """A part of a run's problem, to be solved by a run of its own.

    Attributes
    ----------
    problem : Problem
    start : Point
        Where to begin.
    stage : str
        What the part is, for those who listen.
    whole : callable
        Weights and coefficients of the whole problem, as a `Point`, from those of the part.
    """

    problem: object
    start: Point
    stage: str
    whole: Callable


def drive_part(solver, run, part, *, tol, max_iter=None) -> Result:
    """`drive` on a part of a run's problem: the whole run's listeners hear every step of it.

    An end from outside ends the whole run, which keeps what the part has come to.
    """

    def watch(record):
        stage = ", ".join(filter(None, [part.stage, record.stage]))
        return run.watch(record._replace(stage=stage))

    def keep(best, record):
        run.keep(run.best or _uncertified(part.whole(best.point), best), record)

    inner = RunState(
        part.problem,
        memory_budget=run.memory_budget,
        watch=None if run.watch is None else watch,
        keep=None if run.keep is None else keep,
    )
    inner.start, inner.latest, inner.is_part = part.start, part.start, True
    result = drive(solver, inner, tol=tol, max_iter=max_iter)
    run.counters.include(inner.counters)
    run.latest = part.whole(Point(result.weights, result.beta))
    if result.status.broken_off:
        raise Stopped if result.status is Status.STOPPED else KeyboardInterrupt
    return result


def _uncertified(point, iterate):
    """A point of the whole problem of which nothing is proven yet."""
    certificate = iterate.certificate
    unknown = Certificate(
        certificate.primal, -np.inf, np.inf, certificate.intercept, certificate.rounding
    )
    return Iterate(point.weights, point.beta, unknown)
