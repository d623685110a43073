"""Solvers around a solver: a part of the problem first, or what an earlier run came to.

A part is solved by a run of its own (`drive_part`); what it comes to is a good place to begin on
the whole problem, and the certificate of the whole decides.

Where all kernels have weight (p > 1), the solution for a sample of the kernels is a good start for
all (`FromKernels`). On the simplex (p = 1) few kernels have weight at the optimum: the problem is
solved on a working set of kernels (`WorkingSet`); one pass over all of them then gives every
quadratic form, and so the certificate of the whole problem. The next set has the kernels with
weight and those with the largest forms. Which kernels are left out is a guess; that nothing is lost
by it is proved by the certificate, in which all kernels count.

Weights depend on averages over the points, so a few thousand points tell them well, and what they
do not tell is small enough for one or two more rounds with all points (`FromPoints`). The
coefficients of all points begin where the decision function of the sample puts them: nearly all of
those that will be at a bound are there from the beginning.

Kernels of small rank whose factors are exact are solved in the space of these (`FromFactors`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..banks.wrappers.parts import SampledBank
from ..problem import Problem
from ..regularizers import PNormBall
from ..result import Status
from ..run_state import Point, RunState
from ..thresholds import thresholds
from .base import Around, Iterate, Solver, patient
from .loop import Part, drive_part
from .lowrank.primal import rounded_corners

SAMPLE, SMALLEST_SAMPLE = 32, 1000  # one kernel in so many, but so many at least
FIRST, MORE = 1000, 250  # kernels in the first working set, and joining it in a round
ROUNDS = 5  # steps on all points of the first solver, after a sample of them


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the methods are tuned by."""

    # Gap to reach on a sample of the kernels; larger: a cheaper and rougher start.
    kernel_sample_gap: float = 1e-3
    # Gap to reach on the first working set, a random one; larger: a rougher first choice.
    first_set_gap: float = 1e-2
    # Gap to reach on the next ones, as a part of the tolerance; larger: cheaper rounds.
    set_share_of_tolerance: float = 0.3
    # Steps on a part of the kernels, or on exact factors; larger: hard parts are solved further.
    steps_on_part: int = 60
    # Rounds without a smaller gap that end the method; larger: it gives up later.
    rounds_without_gain: int = 4
    # Relative gap of a sample of the points, whose weights are no better than that for all points;
    # larger: a cheaper and rougher start.
    point_sample_gap: float = 3e-3
    # Steps of every start on a sample for random features, after which the best one goes on alone;
    # larger: a surer choice.
    steps_of_a_race: int = 8
    # Width, in units of the problem, of the rounded corners of the loss, by which decision values
    # become coefficients; larger: more of them are away from their bounds.
    corner_width: float = 0.3
    # Gap to reach on exact factors, as a part of the tolerance; larger: the kernels may not agree.
    factor_share_of_tolerance: float = 0.5


TOLERANCES = Tolerances()


# --- some of the kernels first --------------------------------------------------------------------


class _OverKernels(Around):
    """The base of both: a bank that can be cut down to some of its kernels."""

    def needs(self, run: RunState) -> None:
        if not run.bank.cheap_subsets:
            raise ValueError(
                f"{run.bank!r} cannot be cut down to some of its kernels: use Newton() as it is."
            )

    def without_steps(self) -> Solver:
        return self.solver


class FromKernels(_OverKernels):
    """Solve for a sample of the kernels, then go on with all of them.

    Parameters
    ----------
    solver : Newton
    """

    solver: Any  # a solver with `begin`

    def needs(self, run: RunState) -> None:
        super().needs(run)
        self.solver.check(run)

    def init(self, run: RunState) -> Any:
        if run.start.beta.any():
            return self.solver.init(run)
        return self.solver.begin(run, self._sampled(run))

    def step(self, run: RunState, state: Any, tol: float) -> Any:
        return self.solver.step(run, state, tol)

    def refreshed(self, run: RunState, state: Any) -> Any:
        return self.solver.refreshed(run, state)

    def _sampled(self, run: RunState) -> np.ndarray:
        """Coefficients that solve the problem of a sample of the kernels."""
        bank, regularizer, (weights, beta) = run.bank, run.problem.regularizer, run.start
        sampled = SampledBank(bank, min(bank.m, max(SMALLEST_SAMPLE, bank.m // SAMPLE)))
        factor, problem = regularizer.repeated(sampled.m / sampled.size), run.problem.on(sampled)
        if factor is not None:  # the same problem with short vectors
            weights = weights[sampled.chosen]
            problem = run.problem.on(bank.take_kernels(sampled.chosen, factor))

        def whole(point: Point) -> Point:
            if factor is None:
                return point
            return Point(regularizer.adopt(point.weights[sampled.stands_for]), point.beta)

        start = Point(regularizer.adopt(weights), beta)
        part = Part(problem, start, f"sample of {sampled.size} kernels", whole)
        aim, steps = TOLERANCES.kernel_sample_gap, TOLERANCES.steps_on_part
        return drive_part(self.solver, run, part, tol=aim, max_iter=steps).beta


class SetState(NamedTuple):
    """The state of a working set.

    Attributes
    ----------
    kernels : (a,) numbers of the kernels in the set
    forms : (m,) quadratic forms of all kernels
    iterate : Iterate of the whole problem
    best, patience : float, int
        Smallest absolute gap so far, and how many more rounds may pass without a smaller one.
    """

    kernels: np.ndarray
    forms: np.ndarray
    iterate: Iterate
    best: float = np.inf
    patience: int = TOLERANCES.rounds_without_gain


class WorkingSet(_OverKernels):
    """A method on the kernels that matter, when most have no weight.

    Parameters
    ----------
    solver : Solver
    """

    def needs(self, run: RunState) -> None:
        super().needs(run)
        some = run.problem.on(run.bank.take_kernels(np.arange(min(FIRST, run.bank.m))))
        self.solver.check(RunState(some, memory_budget=run.memory_budget))

    def init(self, run: RunState) -> SetState:
        """From the heaviest kernels of an earlier result, or from some taken at random."""
        weights, beta = run.start
        if beta.any() and np.count_nonzero(weights) <= FIRST:
            return self._judged(run, np.flatnonzero(weights), run.start)
        order = weights if beta.any() else np.random.default_rng(0).random(weights.size)
        kernels = np.sort(np.argpartition(-order, min(FIRST, order.size - 1))[:FIRST])
        return self._solved(run, kernels, run.start, TOLERANCES.first_set_gap)

    def step(self, run: RunState, state: SetState, tol: float) -> SetState:
        largest = np.argpartition(-state.forms, min(MORE, state.forms.size - 1))[:MORE]
        kernels = np.union1d(np.flatnonzero(state.iterate.weights), largest)
        aim = TOLERANCES.set_share_of_tolerance * tol
        new = self._solved(run, kernels, state.iterate.point, aim)
        return patient(
            new, state, new.iterate.certificate.absolute_gap, TOLERANCES.rounds_without_gain
        )

    def refreshed(self, run: RunState, state: SetState) -> SetState:
        return self._judged(run, state.kernels, state.iterate.point)

    def _solved(self, run: RunState, kernels: np.ndarray, start: Point, tol: float) -> SetState:
        """The state once the problem of some kernels is solved."""
        problem = run.problem

        def whole(point: Point) -> Point:
            weights = np.zeros(problem.bank.m)
            weights[kernels] = point.weights
            return Point(weights, point.beta)

        inside = Point(problem.regularizer.adopt(start.weights[kernels]), start.beta)
        some = problem.on(run.bank.take_kernels(kernels))
        part = Part(some, inside, f"working set of {kernels.size} kernels", whole)
        drive_part(self.solver, run, part, tol=tol, max_iter=TOLERANCES.steps_on_part)
        return self._judged(run, kernels, run.latest)

    @staticmethod
    def _judged(run: RunState, kernels: np.ndarray, point: Point) -> SetState:
        """The state with the forms of all kernels and the certificate of the whole problem."""
        run.latest, (weights, beta) = point, point
        forms = run.quadratic_forms(beta)
        scores = run.bank.decision(weights, beta)  # of few kernels
        certificate = run.certificate(weights, beta, scores=scores, forms=forms)
        return SetState(kernels, forms, Iterate(weights, beta, certificate))


# --- some of the points first ---------------------------------------------------------------------


class PointsState(NamedTuple):
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
    starts : int
        Starting points that are tried on the sample, where the problem is not convex; the best is
        taken.
    """

    def __init__(
        self,
        solver: Solver,
        first: Callable[[RunState], Solver],
        last: Solver | None = None,
        size: int | None = None,
        starts: int = 1,
    ) -> None:
        super().__init__(solver)
        self.first, self.last, self.size = first, last, size or thresholds().sample_points
        self.starts = starts

    def needs(self, run: RunState) -> None:
        super().needs(run)
        problem = run.problem
        depends = problem.has_fixed_sum or problem.regularizer.needs_bank
        if depends or problem.bank.take_points(np.arange(1)) is None:
            raise ValueError(
                "A sample of the points does not stand for all of them here: use solver='spg'."
            )

    def init(self, run: RunState) -> PointsState:
        weighted = np.flatnonzero(run.problem.cost.any(axis=0))
        if weighted.size > self.size and not run.start.beta.any():
            run.start = run.latest = self._start(run, weighted)
        return PointsState(self.solver, self.solver.init(run), 0)

    def step(self, run: RunState, state: PointsState, tol: float) -> PointsState:
        if state.steps == ROUNDS and self.last is not None:
            run.start = state.iterate.point
            last = self.last.specialize(run)
            return PointsState(last, last.init(run), ROUNDS + 1)
        return PointsState(state.solver, state.solver.step(run, state.state, tol), state.steps + 1)

    def refreshed(self, run: RunState, state: PointsState) -> PointsState:
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
            solver, starts = self.first(sample), _moved(sample.start, self.starts)
            if beta is not None:
                solver = self.solver
                starts = [Point(weights, sample.problem.feasible(beta[:, rows]))]
            weights, scores = self._solved(run, sample.problem, rows, solver, starts)
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
        run: RunState, problem: Problem, rows: np.ndarray, solver: Solver, starts: list[Point]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights from some of the points, and the decision values of all."""

        def at_all(some: np.ndarray) -> np.ndarray:
            beta = np.zeros_like(run.problem.targets)
            beta[:, rows] = some
            return beta

        def whole(point: Point) -> Point:
            return Point(point.weights, run.problem.feasible(at_all(point.beta)))

        adopt = run.problem.regularizer.project

        stage, results = f"sample of {rows.size} points", []
        # the first steps tell which start is best, where the last ones only chase what is chance
        is_race = problem.bank.smooth_in_roots and len(starts) > 1
        steps = TOLERANCES.steps_of_a_race if is_race else None
        for number, start in enumerate(starts):
            named = f"{stage}, start {number + 1} of {len(starts)}" if len(starts) > 1 else stage
            part = Part(problem, Point(adopt(start.weights), start.beta), named, whole)
            how = {"tol": TOLERANCES.point_sample_gap, "max_iter": steps}
            results.append(drive_part(solver, run, part, **how))
        result = min(results, key=lambda one: one.objective)
        if is_race:
            part = Part(problem, Point(result.weights, result.beta), f"{stage}, best start", whole)
            result = drive_part(solver, run, part, tol=TOLERANCES.point_sample_gap)
        scores = run.decision(result.weights, at_all(result.beta))
        return result.weights, scores + result.intercept[:, None]


def _moved(start: Point, count: int) -> list[Point]:
    """A start, and others with weights around it."""
    rng = np.random.default_rng(0)
    factors = [np.ones(start.weights.size)]
    factors += [rng.uniform(0.0, 2.0, start.weights.size) for _ in range(count - 1)]
    return [start._replace(weights=factor * start.weights) for factor in factors]


def _evenly(targets: np.ndarray, size: int) -> np.ndarray:
    """Random points whose targets are distributed as those of all points."""
    shuffled = np.random.default_rng(0).permutation(targets.shape[1])
    ordered = shuffled[np.lexsort(targets[:, shuffled])]
    return np.sort(ordered[np.linspace(0, ordered.size - 1, size).round().astype(int)])


# --- going on from where an earlier run ended -----------------------------------------------------


class ResumedState(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    state : Any
        Of the solver at work; None before its first step.
    iterate : Iterate
    anew : bool
        Whether the solver was already started from the beginning.
    """

    state: Any
    iterate: Iterate
    anew: bool = False


class FromIterate(Around):
    """Certify the weights and coefficients that the run starts from, and let a solver go on if they
    are not good enough.

    A solver by itself would first solve an SVM roughly, and so begin with something worse than what
    it was given. One that gets stuck from there is started again from the beginning, so that it
    comes as far as it would have come in one run.

    Parameters
    ----------
    solver : Solver
    beginning : Point
        Weights and coefficients that a run from the beginning starts from.
    ended : Status, optional
        How the earlier run ended, if it came to the end of what this solver does.
    proved : float
        A bound on the gap that the earlier run had proved; if the gap is larger now, it was with
        finer kernels.
    """

    def __init__(
        self, solver: Solver, beginning: Point, ended: Status | None = None, proved: float = np.inf
    ) -> None:
        super().__init__(solver)
        self.beginning, self.ended, self.proved = beginning, ended, proved

    def count(self, state: ResumedState, steps: int) -> int:
        return 0 if state.state is None else self.solver.count(state.state, steps)

    def specialize(self, run: RunState) -> Solver:
        planned = self.solver.specialize(run)
        return FromIterate(planned, self.beginning, self.ended, self.proved)

    def init(self, run: RunState) -> ResumedState:
        weights, beta = run.start
        certificate = run.certificate(weights, beta)
        if abs(certificate.gap) > self.proved and run.refine():
            certificate = run.certificate(weights, beta)
        return ResumedState(None, Iterate(weights, beta, certificate, ended=self.ended))

    def step(self, run: RunState, state: ResumedState, tol: float) -> ResumedState:
        if state.state is None:
            inner = self.solver.init(run)
        else:
            inner = self.solver.step(run, state.state, tol)
        if state.anew or not self._stuck(inner.iterate, tol):
            return ResumedState(inner, inner.iterate, state.anew)
        run.start = self.beginning
        inner = self.solver.init(run)
        return ResumedState(inner, inner.iterate, True)

    def refreshed(self, run: RunState, state: ResumedState) -> ResumedState:
        if state.state is None:
            run.start = state.iterate.point
            return self.init(run)
        inner = self.solver.refreshed(run, state.state)
        return ResumedState(inner, inner.iterate, state.anew)

    @staticmethod
    def _stuck(iterate: Iterate, tol: float) -> bool:
        failed = iterate.ended is not None and not iterate.ended.converged
        return failed and abs(iterate.certificate.gap) > tol


class FromSimplex(FromIterate):
    """Solve for p = 1 first, and go on from there, where a regularizer is `near_simplex` and its
    dual has nearly a kink: where one kernel alone has the weight that belongs to the forms of the
    first SVM, or where the solver gets stuck.

    Parameters
    ----------
    solver : Solver
        For the problem itself; its states have a ``point``.
    on_simplex : Solver
        For p = 1.
    """

    def __init__(self, solver: Solver, on_simplex: Solver) -> None:
        super().__init__(solver, Point(np.empty(0), np.empty(0)))
        self.on_simplex = on_simplex

    def specialize(self, run: RunState) -> Solver:
        return self

    def init(self, run: RunState) -> ResumedState:
        inner = self.solver.init(run)
        weights = run.problem.regularizer.weights(inner.point.forms)
        if np.count_nonzero(weights) > 1:
            return ResumedState(inner, inner.iterate)
        return self._from_simplex(run, inner.iterate)

    def step(self, run: RunState, state: ResumedState, tol: float) -> ResumedState:
        if state.state is None:
            inner = self.solver.init(run)
        else:
            inner = self.solver.step(run, state.state, tol)
        if state.anew or not self._stuck(inner.iterate, tol):
            return ResumedState(inner, inner.iterate, state.anew)
        return self._from_simplex(run, inner.iterate)

    def _from_simplex(self, run: RunState, at: Iterate) -> ResumedState:
        start = Point(at.weights / at.weights.sum(), at.beta)
        problem = replace(run.problem, regularizer=PNormBall(1.0))
        part = Part(problem, start, "p = 1", lambda point: point)
        tol = run.tol or TOLERANCES.kernel_sample_gap
        result = drive_part(self.on_simplex, run, part, tol=tol)
        run.start = Point(result.weights, result.beta)
        return super().init(run)._replace(anew=True)


# --- in the space of exact factors ----------------------------------------------------------------


class FactorsState(NamedTuple):
    """What the factors came to, or the state of the solver that goes on from there."""

    iterate: Iterate
    state: Any = None


class FromFactors(Around):
    """Solve in the space of factors that are the kernels themselves, and certify with the kernels.

    Linear kernels of few columns, words and the like have many more points than dimensions. SMO
    takes the longer there the larger C is, and systems of a few equations do not.

    Parameters
    ----------
    solver : Solver
        Goes on where rounding of the factors leaves more than the tolerance.
    first : callable
        The solver for the factors, given a run on them.
    """

    def __init__(self, solver: Solver, first: Callable[[RunState], Solver]) -> None:
        super().__init__(solver)
        self.first = first

    @staticmethod
    def pays(run: RunState) -> bool:
        """Whether there are such factors, and few columns for so many points."""
        factors = run.bank.exact_factors() if run.bank.is_sum else None
        least = thresholds().points_per_exact_column
        return factors is not None and least * factors.width <= run.bank.n

    def init(self, run: RunState) -> FactorsState:
        problem = run.problem.on(run.bank.exact_factors())
        solver = self.first(RunState(problem, memory_budget=run.memory_budget))
        part = Part(problem, run.start, "factors", lambda point: point)
        wanted, steps = TOLERANCES.factor_share_of_tolerance * run.tol, TOLERANCES.steps_on_part
        drive_part(solver, run, part, tol=wanted, max_iter=steps)
        weights, beta = run.start = run.latest
        return FactorsState(Iterate(weights, beta, run.certificate(weights, beta)))

    def step(self, run: RunState, state: FactorsState, tol: float) -> FactorsState:
        if state.state is None:
            new = self.solver.init(run)
        else:
            new = self.solver.step(run, state.state, tol)
        return FactorsState(new.iterate, new)

    def refreshed(self, run: RunState, state: FactorsState) -> FactorsState:
        if state.state is None:  # finer kernels have finer factors
            run.start = state.iterate.point
            return self.init(run)
        new = self.solver.refreshed(run, state.state)
        return FactorsState(new.iterate, new)

    def without_steps(self) -> Solver:
        return self.solver
