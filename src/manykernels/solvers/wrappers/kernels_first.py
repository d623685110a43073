"""Newton's method on some of the kernels first, when there are very many.

Where all kernels have weight (p > 1), the solution for a sample of the kernels is a good start for
all. On the simplex (p = 1) few kernels have weight at the optimum: the problem is solved on a
working set of kernels; one pass over all of them then gives every quadratic form, and so the
certificate of the whole problem. The next set has the kernels with weight and those with the
largest forms. Which kernels are left out is a guess; that nothing is lost by it is proved by the
certificate, in which all kernels count.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...banks.wrappers.parts import SampledBank
from ...run_state import Point, RunState
from ..base import Around, Iterate, Solver, patient
from ..loop import Part, drive_part

SAMPLE, SMALLEST_SAMPLE = 32, 1000  # one kernel in so many, but so many at least
FIRST, MORE = 1000, 250  # kernels in the first working set, and joining it in a round


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Gap to reach on a sample of the kernels; larger: a cheaper and rougher start.
    sample_gap: float = 1e-3
    # Gap to reach on the first working set, a random one; larger: a rougher first choice.
    first_set_gap: float = 1e-2
    # Gap to reach on the next ones, as a part of the tolerance; larger: cheaper rounds.
    set_share_of_tolerance: float = 0.3
    # Steps on a part of the kernels; larger: hard parts are solved further.
    steps_on_part: int = 60
    # Rounds without a smaller gap that end the method; larger: it gives up later.
    rounds_without_gain: int = 4


TOLERANCES = Tolerances()


class _Wrapper(Around):
    """The base of both: a bank that can be cut down to some of its kernels."""

    def needs(self, run: RunState) -> None:
        if not run.bank.cheap_subsets:
            raise ValueError(
                f"{run.bank!r} cannot be cut down to some of its kernels: use Newton() as it is."
            )

    def without_steps(self) -> Solver:
        return self.solver


class FromKernels(_Wrapper):
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
        return drive_part(
            self.solver, run, part, tol=TOLERANCES.sample_gap, max_iter=TOLERANCES.steps_on_part
        ).beta


class State(NamedTuple):
    """The state of the working set.

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


class WorkingSet(_Wrapper):
    """A method on the kernels that matter, when most have no weight.

    Parameters
    ----------
    solver : Solver
    """

    def needs(self, run: RunState) -> None:
        super().needs(run)
        some = run.problem.on(run.bank.take_kernels(np.arange(min(FIRST, run.bank.m))))
        self.solver.check(RunState(some, memory_budget=run.memory_budget))

    def init(self, run: RunState) -> State:
        """From the heaviest kernels of an earlier result, or from some taken at random."""
        weights, beta = run.start
        if beta.any() and np.count_nonzero(weights) <= FIRST:
            return _judged(run, np.flatnonzero(weights), run.start)
        order = weights if beta.any() else np.random.default_rng(0).random(weights.size)
        kernels = np.sort(np.argpartition(-order, min(FIRST, order.size - 1))[:FIRST])
        return _solved(self.solver, run, kernels, run.start, TOLERANCES.first_set_gap)

    def step(self, run: RunState, state: State, tol: float) -> State:
        largest = np.argpartition(-state.forms, min(MORE, state.forms.size - 1))[:MORE]
        kernels = np.union1d(np.flatnonzero(state.iterate.weights), largest)
        new = _solved(
            self.solver, run, kernels, state.iterate.point, TOLERANCES.set_share_of_tolerance * tol
        )
        return patient(
            new, state, new.iterate.certificate.absolute_gap, TOLERANCES.rounds_without_gain
        )

    def refreshed(self, run: RunState, state: State) -> State:
        return _judged(run, state.kernels, state.iterate.point)


def _solved(solver: Solver, run: RunState, kernels: np.ndarray, start: Point, tol: float) -> State:
    """The state once the problem of some kernels is solved."""
    problem = run.problem

    def whole(point: Point) -> Point:
        weights = np.zeros(problem.bank.m)
        weights[kernels] = point.weights
        return Point(weights, point.beta)

    inside = Point(problem.regularizer.adopt(start.weights[kernels]), start.beta)
    some = problem.on(run.bank.take_kernels(kernels))
    part = Part(some, inside, f"working set of {kernels.size} kernels", whole)
    drive_part(solver, run, part, tol=tol, max_iter=TOLERANCES.steps_on_part)
    return _judged(run, kernels, run.latest)


def _judged(run: RunState, kernels: np.ndarray, point: Point) -> State:
    """The state with the forms of all kernels and the certificate of the whole problem."""
    run.latest, (weights, beta) = point, point
    forms = run.quadratic_forms(beta)
    scores = run.bank.decision(weights, beta)  # of few kernels
    certificate = run.certificate(weights, beta, scores=scores, forms=forms)
    return State(kernels, forms, Iterate(weights, beta, certificate))
