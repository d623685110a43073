"""The protocol of a solver, and the one loop that drives them all."""

import inspect
import time
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ..losses import HardMargin
from ..result import Certificate, Record, Result, Status


class Iterate(NamedTuple):
    """What the driver sees of a solver's state.

    Attributes
    ----------
    weights, beta : (m,) and (t, n)
    certificate : Certificate
    stationarity : float
        Norm of the projected gradient, the stopping rule where there is no duality gap.
    ended : Status, optional
        The solver's own reason to stop, if it has one.
    """

    weights: np.ndarray
    beta: np.ndarray
    certificate: Certificate
    stationarity: float = np.inf
    ended: Status | None = None


class Solver(ABC):
    """An algorithm as `init` and `step`; a state is anything with an attribute ``iterate``."""

    max_iter = 1000
    stationarity_tol = 0.04

    sums_only = True  # whether it works for sums of kernels alone
    hard_margins = False  # whether it works for a loss that can be infinite

    def needs(self, problem):  # noqa: B027  (some solvers take any sum of kernels)
        """Raise an error that names a solver which works, if this one does not fit the regularizer
        or the size.
        """

    def check(self, problem):
        """Raise an error that names a solver which works, if this one does not fit the problem."""
        if self.sums_only and not problem.bank.is_sum:
            raise ValueError(
                f"{type(self).__name__} works for sums of kernels only: use solver='spg'."
            )
        if isinstance(problem.loss, HardMargin) and not self.hard_margins:
            raise ValueError(
                f"{type(self).__name__} does not work for a hard margin: use solver='mwu', which "
                "needs p = 1, or a large C."
            )
        self.needs(problem)

    def fits(self, problem):
        """Whether `check` has nothing to object."""
        try:
            self.check(problem)
        except ValueError:
            return False
        return True

    def direct(self):
        """The same without a look at a part of the problem first, for when no step is to be taken."""
        return self

    def __repr__(self):
        given = {
            name: p.default
            for name, p in inspect.signature(type(self)).parameters.items()
            if hasattr(self, name)
        }
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in given.items()
            if getattr(self, name) != default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    @abstractmethod
    def init(self, problem):
        """The first state."""

    @abstractmethod
    def step(self, problem, state, tol):
        """The next state, on the way to a relative gap of tol."""


class Stopped(Exception):
    """A watch wants the run to end, noticed inside a step."""


def drive(solver, problem, *, tol=1e-3, max_iter=None, watch=None, keep=None):
    """Run a solver until its certificate says that it is done.

    Parameters
    ----------
    solver : Solver
    problem : Problem
    tol : float
        Relative duality gap to reach.
    max_iter : int, optional
        Steps at most; the solver's own limit by default.
    watch : callable, optional
        Called with each `Record`; True ends the run.
    keep : callable, optional
        Called before, with the best `Iterate` so far and the `Record`.

    Returns
    -------
    Result
        The iterate with the smallest gap, also after Ctrl-C.
    """
    solver.check(problem)
    began = time.perf_counter()
    limit = solver.max_iter if max_iter is None else max_iter
    solver = solver if limit > 0 else solver.direct()
    problem.watch = watch  # for solvers that begin with a part of the problem
    history, best, status = [], None, None
    with threadpool_limits(1, user_api="blas"):  # the bank's own threads share out the tiles
        try:
            state = solver.init(problem)
            while status is None:
                best = _better(best, state.iterate)
                history.append(_record(len(history), state.iterate, problem, began))
                if keep is not None:
                    keep(best, history[-1])
                stop = watch is not None and watch(history[-1])
                status = _status(
                    state.iterate, tol, solver.stationarity_tol, len(history) - 1, limit
                )
                if status is Status.STATIONARY:
                    # an earlier one may have a slightly smaller value, but is not stationary
                    best = state.iterate
                if (
                    status is Status.OPTIMAL
                    and _doubtful(state.iterate.certificate, tol)
                    and problem.refine()
                ):
                    problem.start, best, status = state.iterate[:2], None, None
                    state = solver.init(problem)
                elif status is None and stop:
                    status = Status.STOPPED
                elif status is None:
                    state = solver.step(problem, state, tol)
        except (KeyboardInterrupt, Stopped) as reason:
            status = Status.STOPPED if isinstance(reason, Stopped) else Status.INTERRUPTED
            if best is None:  # not even the first SVM was finished: certify what there is of it
                best = Iterate(*problem.latest, problem.certificate(*problem.latest))
    problem.counters.seconds = time.perf_counter() - began
    certificate = best.certificate
    steps = max(len(history) - 1, 0)
    return Result(
        best.weights,
        best.beta,
        certificate.intercept,
        status,
        certificate,
        steps,
        problem.counters,
        history,
    )


def _doubtful(certificate, tol):
    """Whether kernels of this precision are too coarse to certify a gap of tol."""
    return certificate.rounding > 0.25 * tol * abs(certificate.primal)


def _better(best, iterate):
    """The iterate with the smaller gap; where there is none, the one with the smaller primal value.

    The absolute gap: relative to a primal value that is far too large, every gap looks like one.
    """
    if best is None or iterate.ended is Status.FIXED_WEIGHTS:
        return iterate
    key, best_key = (
        (abs(c.absolute_gap), c.primal, -c.dual) for c in (iterate.certificate, best.certificate)
    )
    return iterate if key < best_key else best


def _record(iteration, iterate, problem, began):
    used = int(np.count_nonzero(iterate.weights > 1e-9 * iterate.weights.max(initial=0.0)))
    certificate, seconds = iterate.certificate, time.perf_counter() - began
    return Record(
        iteration, certificate.primal, certificate.gap, problem.counters.svm_solves, used, seconds
    )


def _status(iterate, tol, stationarity_tol, iteration, limit):
    if np.isnan(iterate.certificate.gap):
        raise FloatingPointError(
            "The kernels gave values that are not numbers (NaN): check the data, their scale and "
            "the kernels."
        )
    # a gap clearly below zero is rounding, and proves nothing
    if abs(iterate.certificate.gap) <= tol:
        return Status.OPTIMAL
    # as in the paper for the default tolerance, and less where the whole objective is small
    small = stationarity_tol * tol / 1e-3 * min(1.0, abs(iterate.certificate.primal))
    if np.isinf(iterate.certificate.gap) and iterate.stationarity <= small:
        return Status.STATIONARY
    if iterate.ended is not None:
        return iterate.ended
    return Status.MAX_ITER if iteration >= limit else None
