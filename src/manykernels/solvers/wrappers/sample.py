"""Kernel weights from some of the points first.

Weights depend on averages over the points, so a few thousand points tell them well, and what they
do not tell is small enough for one or two more rounds with all points. The coefficients of all
points begin where the decision function of the sample puts them: nearly all of those that will be
at a bound are there from the beginning.
"""

from typing import NamedTuple

import numpy as np

from ...problem import Problem
from ...result import Status
from ..base import Solver, Stopped, drive
from ..lowrank.corners import rounded_corners

SIZE, LARGE = 4000, 10_000  # points of the sample, and of a problem that is worth one
TOLERANCE = 3e-3  # relative gap of the sample: its weights are no better than that for all points
ROUNDS = 8
WIDTH = 0.3  # of the rounded corners of the loss, by which decision values become coefficients


class State(NamedTuple):
    """The state of the solver at work, and how many steps were taken."""

    solver: Solver
    state: object
    steps: int

    @property
    def iterate(self):
        return self.state.iterate


class FromSample(Solver):
    """Solve for a sample of the points, then go on with all of them.

    Parameters
    ----------
    solver : Solver
        For all points.
    first : callable
        The solver for the problem of the sample, given that problem.
    last : Solver, optional
        One that takes over after `ROUNDS` steps, for tolerances that need more of them.
    size : int
        Points in the sample.
    """

    def __init__(self, solver, first, last=None, size=SIZE):
        self.solver, self.first, self.last, self.size = solver, first, last, size
        self.max_iter, self.stationarity_tol, self.sums_only = (
            solver.max_iter,
            solver.stationarity_tol,
            solver.sums_only,
        )

    def needs(self, problem):
        self.solver.check(problem)
        given = any(box.total for box in problem.boxes)
        if (
            given
            or hasattr(problem.regularizer, "bound")
            or not problem.bank.is_sum
            or problem.bank.among(np.arange(1)) is None
        ):
            raise ValueError(
                "A sample of the points does not stand for all of them here: use solver='spg'."
            )

    def init(self, problem):
        weighted = np.flatnonzero(problem.cost.any(axis=0))
        if weighted.size > self.size and not problem.start[1].any():
            problem.start = problem.latest = self._start(problem, weighted)
        return State(self.solver, self.solver.init(problem), 0)

    def step(self, problem, state, tol):
        if state.steps == ROUNDS and self.last is not None:
            problem.start = state.iterate[:2]
            return State(self.last, self.last.init(problem), ROUNDS + 1)
        return State(state.solver, state.solver.step(problem, state.state, tol), state.steps + 1)

    def direct(self):
        return self.solver

    def _start(self, problem, weighted):
        rows = weighted[_spread_out(problem.targets[:, weighted], self.size)]
        share = problem.cost.sum() / problem.cost[:, rows].sum()
        some = Problem(
            problem.bank.among(rows), problem.targets[:, rows], share * problem.cost[:, rows], problem.regularizer,
            loss=problem.loss, memory_budget=problem.memory_budget,
        )  # fmt: skip
        result = drive(
            self.first(some),
            some,
            tol=TOLERANCE,
            watch=_labelled(problem.watch, f"sample of {rows.size} points"),
        )
        problem.counters.include(some.counters)
        beta = np.zeros_like(problem.targets)
        beta[:, rows] = result.beta
        if not result.status.broken_off:
            problem.counters.kernel_passes += 1
            scores = problem.bank.decision(result.weights, beta) + result.intercept[:, None]
            rounded = rounded_corners(problem, WIDTH * problem.unit)
            beta = np.stack(
                [corner.response(f)[0] for corner, f in zip(rounded, scores, strict=True)]
            )
        beta = problem.feasible(beta)
        if result.status.broken_off:
            problem.latest = result.weights, beta
            raise Stopped if result.status is Status.STOPPED else KeyboardInterrupt
        return result.weights, beta


def _labelled(watch, stage):
    """The watch, told what the records are of."""
    return None if watch is None else lambda record: watch(record._replace(stage=stage))


def _spread_out(targets, size):
    """Random points whose targets are spread as those of all points."""
    shuffled = np.random.default_rng(0).permutation(targets.shape[1])
    ordered = shuffled[np.lexsort(targets[:, shuffled])]
    return np.sort(ordered[np.linspace(0, ordered.size - 1, size).round().astype(int)])
