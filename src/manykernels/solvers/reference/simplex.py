"""Three classics for weights on the simplex (p = 1): mirror descent, SimpleMKL, and SILP's cutting
planes.

All three solve one SVM per trial of weights and see the problem through ``W(d)`` and its gradient
``-s/2`` only. They are here to be compared with.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from ...result import Status
from ...run_state import Evaluation, RunState
from ..base import Iterate, Solver, stalled


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the three methods are tuned by."""

    # Violation of the first SVM; larger: a cheaper first iteration.
    first_inner_tolerance: float = 1e-2
    # Violation below which no SVM is solved; larger: runs stall sooner.
    smallest_inner_tolerance: float = 1e-12
    # Step of mirror descent, as a part of the last, at which its line search has failed; larger:
    # SVMs are sharpened sooner.
    shortest_step: float = 1e-10
    # Entries of a row at least, by which pivots are counted as work; larger: they count less.
    shortest_row: int = 200
    # Moves of SimpleMKL to the boundary along one reduced gradient; larger: fewer gradients.
    moves_per_gradient: int = 20
    # Rounds of golden section where one has improved the value; larger: more exact line searches.
    golden_rounds: int = 12
    # Rounds of golden section where none has; larger: shorter steps are found.
    most_golden_rounds: int = 45
    # Rounds after which SILP drops a plane that does not touch the envelope; larger: larger
    # programs.
    idle_rounds: int = 50


TOLERANCES = Tolerances()


class Point(NamedTuple):
    """A solved SVM with gradient and certificate, and what the solver carries along (`memory`)."""

    at: Evaluation
    gradient: np.ndarray
    inner_tolerance: float
    iterate: Iterate
    memory: Any = None


class SimplexSolver(Solver):
    """The base of the three: the check for p = 1 and SVMs whose inner tolerance follows the gap."""

    max_iter = 5000

    def needs(self, run: RunState) -> None:
        r = run.problem.regularizer
        if not r.is_simplex:
            raise ValueError(
                f"{type(self).__name__} works for PNormBall(1) only, got {r!r}: use "
                "solver='newton' or 'spg'."
            )

    def init(self, run: RunState) -> Point:
        weights, beta = run.start
        return self.start(
            run,
            self._judge(
                run,
                run.evaluate(weights, beta, TOLERANCES.first_inner_tolerance),
                TOLERANCES.first_inner_tolerance,
            ),
        )

    def start(self, run: RunState, point: Point) -> Point:
        """The first point, with what the solver needs to remember."""
        return point

    @staticmethod
    def _judge(run: RunState, at: Evaluation, inner_tolerance: float) -> Point:
        _, gradient, certificate = run.judge(at)
        if at.noise > 0.2 * certificate.absolute_gap:
            inner_tolerance = max(0.1 * inner_tolerance, TOLERANCES.smallest_inner_tolerance)
        return Point(at, gradient, inner_tolerance, Iterate(at.weights, at.beta, certificate))

    def _sharpen(self, run: RunState, point: Point) -> Point:
        """The line search failed: more precise SVMs, or the end."""
        if point.inner_tolerance <= TOLERANCES.smallest_inner_tolerance:
            return point._replace(iterate=point.iterate._replace(ended=Status.STALLED))
        inner_tolerance = max(0.1 * point.inner_tolerance, TOLERANCES.smallest_inner_tolerance)
        at = run.evaluate(point.at.weights, point.at.beta, inner_tolerance)
        return self._judge(run, at, inner_tolerance)._replace(memory=point.memory)


class MirrorDescent(SimplexSolver):
    """Exponentiated gradient steps with backtracking, the entropy being the distance.

    Follows J. Aflalo, A. Ben-Tal, C. Bhattacharyya, J. S. Nath and S. Raman, Variable sparsity
    kernel learning, JMLR 2011, with the step length found by the test ``W(new) <= W + g'(new - d) +
    KL(new | d) / step``.
    """

    wait = 60.0, 4.5

    def start(self, run: RunState, point: Point) -> Point:
        return point._replace(memory=1.0 / np.abs(point.gradient).max())

    def step(self, run: RunState, state: Point, tol: float) -> Point:
        length = 1.2 * state.memory
        d, g = state.at.weights, state.gradient
        while length > TOLERANCES.shortest_step * state.memory:
            exponents = -length * (g - g.min())
            new = d * np.exp(exponents)
            new /= new.sum()
            trial = run.evaluate(new, state.at.beta, state.inner_tolerance)
            used = new > 0
            divergence = float(np.sum(new[used] * np.log(new[used] / d[used])))
            if trial.value <= state.at.value + g @ (new - d) + divergence / length + state.at.noise:
                return self._judge(run, trial, state.inner_tolerance)._replace(memory=length)
            length *= 0.5
        return self._sharpen(run, state)


class SimpleMKL(SimplexSolver):
    """Reduced gradient descent (A. Rakotomamonjy, F. Bach, Y. Grandvalet and S. Canu, SimpleMKL,
    JMLR 2008).

    Along the reduced gradient the weights go as far as the boundary while W decreases, with the
    direction updated there, and then a line search looks for the best point of the last stretch.
    After some twenty of these (`Tolerances.moves_per_gradient`) a fresh gradient costs less than
    what is left of the old one is worth.
    """

    wait = 50.0, 1.8

    def step(self, run: RunState, state: Point, tol: float) -> Point:
        best = self._descend(run, state)
        if best is state.at:
            return self._sharpen(run, state)
        return self._judge(run, best, state.inner_tolerance)

    def _descend(self, run: RunState, state: Point) -> Evaluation:
        """The best point met along the reduced gradient."""
        d, best = state.at.weights, state.at
        direction = _reduced(d, state.gradient)
        for _ in range(TOLERANCES.moves_per_gradient):
            if not (shrinking := direction < 0).any():
                break
            ratios = np.divide(-d, direction, out=np.full(d.size, np.inf), where=shrinking)
            longest = float(ratios.min())
            trial = run.evaluate(_clean(d + longest * direction), best.beta, state.inner_tolerance)
            if trial.value >= best.value:
                return self._golden(run, d, direction, longest, best, state.inner_tolerance)
            d, best = trial.weights, trial
            direction = _drop(direction, ratios, longest, d)
        return best

    @staticmethod
    def _golden(
        run: RunState,
        d: np.ndarray,
        direction: np.ndarray,
        longest: float,
        best: Evaluation,
        inner_tolerance: float,
    ) -> Evaluation:
        """Golden section on [0, longest]; the best point met. More rounds where none has improved
        yet, as far as these SVMs can tell values apart.
        """
        first = best
        ratio, low, high = 0.5 * (np.sqrt(5.0) - 1.0), 0.0, longest

        def value(size: float) -> float:
            nonlocal best
            trial = run.evaluate(_clean(d + size * direction), best.beta, inner_tolerance)
            best = trial if trial.value < best.value else best
            return trial.value

        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = value(left), value(right)
        for done in range(TOLERANCES.most_golden_rounds):
            alike = abs(min(at_left, at_right) - first.value) <= first.noise
            if done >= TOLERANCES.golden_rounds and (alike or best is not first):
                break
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - ratio * (high - low)
                at_left = value(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + ratio * (high - low)
                at_right = value(right)
        return best


def _reduced(d: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Descent direction that keeps the sum, measured against the largest weight, and leaves zero
    weights that want to fall.
    """
    top = int(d.argmax())
    direction = gradient[top] - gradient
    direction[(d <= 0) & (direction < 0)] = 0.0
    direction[top] = 0.0
    direction[top] = -direction.sum()
    return direction


def _drop(direction: np.ndarray, ratios: np.ndarray, longest: float, d: np.ndarray) -> np.ndarray:
    """The direction after a weight has reached zero: its share goes to the largest weight."""
    out = np.where(ratios <= longest * (1 + 1e-12), 0.0, direction)
    top = int(d.argmax())
    out[top] = 0.0
    out[top] = -out.sum()
    return out


def _clean(weights: np.ndarray) -> np.ndarray:
    """Onto the simplex; what rounding has left of a weight that should be zero is zero."""
    weights = np.where(weights > 1e-12 * weights.max(), weights, 0.0)
    return weights / weights.sum()


class SILP(SimplexSolver):
    """Cutting planes (S. Sonnenburg, G. Rätsch, C. Schäfer and B. Schölkopf, Large scale multiple
    kernel learning, JMLR 2006).

    Every SVM solution beta gives a plane ``y'beta - d's(beta)/2`` below W; the next weights
    minimize the upper envelope of all planes, a linear program solved by HiGHS.
    """

    wait = 150.0, 3.5

    def start(self, run: RunState, point: Point) -> Point:
        return point._replace(memory=[_cut(run, point)])

    def step(self, run: RunState, state: Point, tol: float) -> Point:
        weights, cuts = _envelope(run, state.memory)
        if weights is None:
            return stalled(state)
        # the same plane again would change nothing: a more precise one may
        if np.array_equal(weights, state.at.weights):
            point = self._sharpen(run, state)
        else:
            point = self._judge(
                run,
                run.evaluate(weights, state.at.beta, state.inner_tolerance),
                state.inner_tolerance,
            )
        return point._replace(memory=[*cuts, _cut(run, point)])


class Cut(NamedTuple):
    """The plane that belongs to a solved SVM: constant and slope, and how many rounds have passed
    since it touched the envelope at its lowest point.
    """

    constant: float
    slope: np.ndarray
    idle: int = 0


def _cut(run: RunState, point: Point) -> Cut:
    return Cut(run.problem.dual_linear(point.at.beta), point.gradient)


def _envelope(run: RunState, cuts: list[Cut]) -> tuple[np.ndarray | None, list[Cut]]:
    """Weights on the simplex with the smallest maximum of all planes, None if HiGHS finds none, and
    the planes that are worth keeping: the linear program would grow with every round.
    """
    constants, slopes = np.array([cut.constant for cut in cuts]), np.stack([c.slope for c in cuts])
    scale = max(1.0, np.abs(slopes).max())
    m = slopes.shape[1]
    # the last variable is the maximum in units of the slopes: else HiGHS takes it for zero
    inequalities = np.column_stack([slopes / scale, -np.ones(len(cuts))])
    program = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=inequalities,
        b_ub=-constants / scale,
        A_eq=np.append(np.ones(m), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * m + [(None, None)],
        method="highs",
    )
    # a pivot visits the whole program, as a step of a machine visits a row of the kernel, which
    # takes no less time where it is short
    run.counters.machine_steps += (
        program.nit * len(cuts) * m // (2 * max(run.bank.n, TOLERANCES.shortest_row))
    )
    if program.x is None:
        return None, cuts
    touching = program.ineqlin.marginals != 0.0
    aged = [
        cut._replace(idle=0 if touches else cut.idle + 1)
        for cut, touches in zip(cuts, touching, strict=True)
    ]
    return _clean(program.x[:m]), [cut for cut in aged if cut.idle < TOLERANCES.idle_rounds]
