"""Kernel weights from some of the points first.

Weights depend on averages over the points, so a few thousand points tell them well, and what they
do not tell is small enough for one or two more rounds with all points. The coefficients of all
points begin where the decision function of the sample puts them: nearly all of those that will be
at a bound are there from the beginning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...problem import Problem
from ...run_state import Point, RunState
from ...thresholds import thresholds
from ..base import Around, Iterate, Solver
from ..loop import Part, drive_part
from ..lowrank.primal import rounded_corners

ROUNDS = 8  # steps of the first solver on all points


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Relative gap of the sample, whose weights are no better than that for all points; larger: a
    # cheaper and rougher start.
    sample_gap: float = 3e-3
    # Width, in units of the problem, of the rounded corners of the loss, by which decision values
    # become coefficients; larger: more of them are away from their bounds.
    corner_width: float = 0.3


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the solver at work, and how many steps were taken."""

    solver: Solver
    state: Any
    steps: int

    @property
    def iterate(self) -> Iterate:
        return self.state.iterate


class FromPoints(Around):
    """Solve for a sample of the points, then go on with all of them.

    Parameters
    ----------
    solver : Solver
        For all points.
    first : callable
        The solver for the problem of the sample, given a run of it.
    last : Solver, optional
        One that takes over after `ROUNDS` steps, for tolerances that need more of them.
    size : int, optional
        Points in the sample.
    """

    def __init__(
        self,
        solver: Solver,
        first: Callable[[RunState], Solver],
        last: Solver | None = None,
        size: int | None = None,
    ) -> None:
        super().__init__(solver)
        self.first, self.last, self.size = first, last, size or thresholds().sample_points

    def needs(self, run: RunState) -> None:
        super().needs(run)
        problem = run.problem
        depends = problem.has_fixed_sum or problem.regularizer.needs_bank
        if depends or problem.bank.take_points(np.arange(1)) is None:
            raise ValueError(
                "A sample of the points does not stand for all of them here: use solver='spg'."
            )

    def init(self, run: RunState) -> State:
        weighted = np.flatnonzero(run.problem.cost.any(axis=0))
        if weighted.size > self.size and not run.start.beta.any():
            run.start = run.latest = self._start(run, weighted)
        return State(self.solver, self.solver.init(run), 0)

    def step(self, run: RunState, state: State, tol: float) -> State:
        if state.steps == ROUNDS and self.last is not None:
            run.start = state.iterate.point
            last = self.last.specialize(run)
            return State(last, last.init(run), ROUNDS + 1)
        return State(state.solver, state.solver.step(run, state.state, tol), state.steps + 1)

    def refreshed(self, run: RunState, state: State) -> State:
        return state._replace(state=state.solver.refreshed(run, state.state))

    def without_steps(self) -> Solver:
        return self.solver

    def _start(self, run: RunState, weighted: np.ndarray) -> Point:
        """Weights of the sample, and coefficients of all points that go with its decisions; from
        one sample to a larger one where there are very many points.
        """
        problem, beta, weights = run.problem, None, run.start.weights
        corners = rounded_corners(problem, TOLERANCES.corner_width * problem.unit)
        for size in self.sizes(weighted.size):
            rows = weighted[_evenly(problem.targets[:, weighted], size)]
            sample = RunState(problem.take_points(rows), memory_budget=run.memory_budget)
            solver, start = self.first(sample), sample.start
            if beta is not None:
                solver = self.solver
                start = Point(weights, sample.problem.feasible(beta[:, rows]))
            weights, scores = self._solved(run, sample.problem, rows, solver, start)
            pairs = zip(corners, scores, strict=True)
            beta = np.stack([corner.response(f)[0] for corner, f in pairs])
        return Point(weights, problem.feasible(beta))

    def sizes(self, n: int) -> list[int]:
        """Points of the samples of n points, each many times the last."""
        size, growth = thresholds().second_sample_points, thresholds().sample_growth
        larger = size >= growth * self.size and n > growth * size
        return [self.size, size] if larger else [self.size]

    @staticmethod
    def _solved(
        run: RunState, problem: Problem, rows: np.ndarray, solver: Solver, start: Point
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights from some of the points, and the decision values of all."""

        def at_all(some: np.ndarray) -> np.ndarray:
            beta = np.zeros_like(run.problem.targets)
            beta[:, rows] = some
            return beta

        def whole(point: Point) -> Point:
            return Point(point.weights, run.problem.feasible(at_all(point.beta)))

        part = Part(problem, start, f"sample of {rows.size} points", whole)
        result = drive_part(solver, run, part, tol=TOLERANCES.sample_gap)
        scores = run.decision(result.weights, at_all(result.beta))
        return result.weights, scores + result.intercept[:, None]


def _evenly(targets: np.ndarray, size: int) -> np.ndarray:
    """Random points whose targets are distributed as those of all points."""
    shuffled = np.random.default_rng(0).permutation(targets.shape[1])
    ordered = shuffled[np.lexsort(targets[:, shuffled])]
    return np.sort(ordered[np.linspace(0, ordered.size - 1, size).round().astype(int)])
