"""The quadratic program of a step for the simplex (p = 1).

Where all kernels have weight, one smooth function of the forms models the dual around beta. On the
simplex the dual has a kink, ``max_k s_k``, and which kernels share it is the question. So the model
keeps the kernels apart: with weights e and products ``M_k = K_k beta`` at hand, every quadratic
form is replaced by its tangent and the curvature by that of the weights e,

    min_{d in simplex} max_x  y'x - x' K_e x / 2 - sum_k (d_k - e_k) (M_k'x - s_k / 2)

over the box of x. That is one step of sequential quadratic programming for the program with the
constraints ``s_k(x) <= t``, and needs no pass over the kernels.

Most kernels stay far below the kink, so a program begins with those that have weight and the
largest forms (`aim`), and others are let in where their tangents rise above the kink. Which these
are is a guess; a look at the tangents of all kernels is the check.

Two methods solve it in turns. Newton's method on a proximal version of the kink, whose center moves
and whose temperature falls, gets near from anywhere: each of its steps is an SVM-like program. It
needs more and more steps of SMO as it cools; but then it is soon clear which coefficients are free
and which kernels have weight, and a system of linear equations gives the rest (`solution`). With
several outputs, whose SVM-like programs are coupled here, `outputs` has a method that begins.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import brentq

from .._loops.saddle import Model, Numbers, program
from .._pulse import pulse
from ..losses import Box, Hinge
from ..machines.device import entries
from ..problem import Problem
from ..regularizers import SmoothedSimplex
from ..regularizers.sparse import SMALLEST_WEIGHT
from ..run_state import RunState
from ..thresholds import thresholds
from .dual import TOLERANCES as PROGRAMS
from .dual import HeldPoint, HeldProgram, inner, maximizer, multiply


@dataclass(frozen=True)
class Tolerances:
    """The numbers by which a program is solved."""

    # Steps of Newton's method on the smooth model; larger: programs are solved further.
    newton_steps: int = 20
    # First temperature, as a part of the largest form; larger: a smoother first model.
    first_temperature: float = 0.05
    # First temperature at most, in gaps of the whole problem; larger: a smoother first model.
    hottest_in_gaps: float = 2.0
    # Part of the gap that may be the proximal problem's when its center moves; larger: it moves and
    # cools sooner.
    proximal_share_of_gap: float = 0.5
    # Part of the center that is uniform; larger: kernels without weight come back more easily.
    uniform_share_of_center: float = 0.1
    # Part of the largest weight below which a kernel bends nothing; larger: cheaper programs.
    ignore_curvature_below: float = 1e-5
    # Error of the length of a step, as a part of it; larger: a rougher line search.
    line_search_error: float = 1e-3
    # Part of what the dual can gain that a program may leave; larger: rougher programs.
    gain_left: float = 0.5
    # Part of the gap that linear systems must leave at most to be tried again at once; larger: they
    # are tried more often.
    systems_help_below: float = 0.5
    # Linear systems in a row without a gain; larger: more of them are solved in vain.
    systems_without_gain: int = 4
    # Kernels that a program begins with, besides those with weight; larger: larger programs.
    first_candidates: int = 256
    # Programs at most, each with the kernels that rose above the kink; larger: more programs.
    programs: int = 3


TOLERANCES = Tolerances()


class Between(NamedTuple):
    """Weights d, coefficients x and ``K_e x``, and the bounds on the saddle's value that they
    prove; `exact` where a system of equations confirms its own guess.
    """

    d: np.ndarray
    x: np.ndarray
    Kx: np.ndarray
    upper: float
    lower: float
    exact: bool = False

    @property
    def gap(self) -> float:
        return self.upper - self.lower


class Goal(NamedTuple):
    """How far a program is to be solved.

    Attributes
    ----------
    gap : float
        Absolute gap of the whole problem at the point.
    wanted : float
        Absolute gap of the program to reach.
    value : float, optional
        The dual value at the point: a gap will do that is a part of what can be gained.
    known : bool
        Whether the point and the weights are likely to say which coefficients are free and which
        kernels have weight.
    """

    gap: float
    wanted: float
    value: float | None = None
    known: bool = False

    def missing(self, at: Between) -> float:
        """The gap to reach from here, or zero if it is reached."""
        enough = self.enough(at)
        return enough if at.gap > enough else 0.0

    def enough(self, at: Between) -> float:
        """The gap that will do at a point."""
        if self.value is None:
            return self.wanted
        return max(self.wanted, TOLERANCES.gain_left * abs(at.upper - self.value))


def aim(
    run: RunState,
    K: Any,
    weights: np.ndarray,
    point: HeldPoint,
    goal: Goal,
    method: "type[Saddle] | None" = None,
) -> Between:
    """Weights (m,) and coefficients near the saddle of the program, as a `Between`; see
    `Saddle.solve`, or the method that is given in its place.
    """
    kernels, start = _candidates(weights, point.forms), None
    for _ in range(TOLERANCES.programs):
        # the program of the candidates
        saddle = (method or Saddle)(run, K, weights[kernels], point.only(kernels))
        found = saddle.solve(goal, start)
        d = np.zeros(weights.size)
        d[kernels] = found.d
        found = found._replace(d=d)
        if kernels.size == weights.size:
            break
        # the check: kernels whose tangents are above the kink join
        forms = tangents(point, found.x)
        above = forms > forms[kernels].max()
        if not above.any():
            break
        kernels = np.union1d(kernels, np.flatnonzero(above))
        start = found.d[kernels], found.x
    return found


def _candidates(weights: np.ndarray, forms: np.ndarray) -> np.ndarray:
    """Kernels that have weight, and those with the largest forms."""
    if weights.size <= 2 * TOLERANCES.first_candidates:
        return np.arange(weights.size)
    largest = np.argsort(-forms, kind="stable")[: TOLERANCES.first_candidates]
    return np.union1d(np.flatnonzero(weights), largest)


def tangents(point: HeldPoint, x: np.ndarray) -> np.ndarray:
    """Tangents of all quadratic forms around a point, (m,)."""
    return 2.0 * inner(point.products, x) - point.forms


class Saddle:
    """The program around a point.

    Parameters
    ----------
    run : RunState
    K : (n, n) array or DeviceMatrix
        Combined kernel of the weights.
    weights : (m,) array on the simplex
    point : HeldPoint
    """

    def __init__(self, run: RunState, K: Any, weights: np.ndarray, point: HeldPoint) -> None:
        self.run, self.K, self.weights, self.point = run, K, weights, point
        self.given = point.scores(run, weights)

    def solve(self, goal: Goal, start: tuple[np.ndarray, np.ndarray] | None = None) -> Between:
        """Weights and coefficients near the saddle, as a `Between`.

        Parameters
        ----------
        goal : Goal
        start : (d, x), optional
            Where to begin, in place of the point: nearly the saddle.
        """
        best = self._between(self.weights, self.point.beta, self.given, self.point.forms)
        if start is not None:
            best, goal = closer(self._at(*start), best), goal._replace(known=True)
        try:
            with np.errstate(over="raise", invalid="raise"):
                for better in self._approaches(best, goal):
                    best = closer(better, best)
        except FloatingPointError:  # kernels so large that their squares are no numbers
            pass
        return best

    def _approaches(self, best: Between, goal: Goal) -> Iterator[Between]:
        """The points found on the way, until one is good enough."""
        model, x, Kx = self._first_model(goal.gap), best.x, best.Kx
        is_rough = self.run.tol >= ACTIVE_SET.rough_from
        # the active set, where it is likely to be known
        if goal.known and not is_rough and goal.missing(best):
            best = self._by_equations(best, goal.missing(best))
            yield best
        pause, due = 1, ACTIVE_SET.first_step_roughly if is_rough else 1
        for step in range(TOLERANCES.newton_steps):
            if not goal.missing(best):
                return
            # the point of the smooth model
            forms = self.forms(x)
            here = self._between(model.weights(forms), x, Kx, forms)
            best = closer(here, best)
            yield best
            # the active set, less and less often where it does not help
            if step == due and goal.missing(best):
                better = self._by_equations(best, goal.missing(best))
                pause = 1 if better.gap < TOLERANCES.systems_help_below * best.gap else 2 * pause
                best, due = better, step + pause
                yield best
            # Newton's step on a model that is perhaps cooler
            model = _cooler(model, here, forms)
            x, Kx = self._step(model, here, forms)

    def _first_model(self, gap: float) -> SmoothedSimplex:
        center = (
            1.0 - TOLERANCES.uniform_share_of_center
        ) * self.weights + TOLERANCES.uniform_share_of_center / self.weights.size
        temperature = min(
            TOLERANCES.first_temperature * self.point.forms.max(), TOLERANCES.hottest_in_gaps * gap
        )
        return SmoothedSimplex(center, max(temperature, np.finfo(float).tiny))

    def forms(self, x: np.ndarray) -> np.ndarray:
        """The tangents of all quadratic forms, (m,)."""
        return tangents(self.point, x)

    def scores(self, d: np.ndarray, Kx: np.ndarray) -> np.ndarray:
        """The slopes of the program, which take the place of decision values, (t, n)."""
        return Kx - self.given + self.point.scores(self.run, d)

    def _between(
        self,
        d: np.ndarray,
        x: np.ndarray,
        Kx: np.ndarray,
        forms: np.ndarray,
        scores: np.ndarray | None = None,
    ) -> Between:
        problem, half = self.run.problem, 0.5 * float(np.vdot(x, Kx))
        upper = half + 0.5 * float((d - self.weights) @ self.point.forms)
        scores = self.scores(d, Kx) if scores is None else scores
        for y, cost, f in zip(problem.targets, problem.cost, scores, strict=True):
            upper += problem.loss.value(y, cost, f, problem.loss.intercept(y, cost, f))
        rise = 0.5 * float(forms.max() - self.weights @ forms)
        return Between(d, x, Kx, upper, problem.dual_linear(x) - half - rise)

    def _at(self, d: np.ndarray, x: np.ndarray) -> Between:
        return self._between(d, x, self._times(x), self.forms(x))

    def _times(self, x: np.ndarray) -> np.ndarray:
        return multiply(self.K, x)

    def _step(
        self, model: SmoothedSimplex, here: Between, forms: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients after a step of Newton's method on the smooth model, and K_e times them."""
        # the Hessian, of the kernels that bend it
        d, J = model.weights(forms), model.curvature(forms)
        used = np.flatnonzero(d > TOLERANCES.ignore_curvature_below * d.max())
        J = J._replace(diagonal=J.diagonal[used], vector=J.vector[used])
        program = HeldProgram(
            self.run.bank, self.K, self.point.products[used], J, self.scores(d, here.Kx)
        )
        # Newton's direction over the box
        change = maximizer(self.run, here.x, here.gap, program) - here.x
        # the line search
        moved = program.times_kernel()
        size = self._length(model, here, forms, change, moved)
        return here.x + size * change, here.Kx + size * moved

    def _length(
        self,
        model: SmoothedSimplex,
        here: Between,
        forms: np.ndarray,
        change: np.ndarray,
        moved: np.ndarray,
    ) -> float:
        """The step in [0, 1] that is best for the smooth model."""
        problem = self.run.problem
        # along the step the tangents are lines and the quadratic part is a parabola
        rise = 2.0 * inner(self.point.products, change)
        start = float(np.vdot(change, here.Kx)) - 0.5 * float(self.weights @ rise)
        bend = float(np.vdot(change, moved))

        def uphill(size: float) -> float:
            """The slope of the model along the step."""
            linear = problem.dual_slope(here.x + size * change, change)
            pulled = 0.5 * float(model.weights(forms + size * rise) @ rise)
            return linear - start - size * bend - pulled

        # the whole step where the model still rises there, or where rounding hides its slope
        if uphill(1.0) >= 0.0 or uphill(0.0) <= 0.0:
            return 1.0
        return brentq(uphill, 0.0, 1.0, xtol=1e-9, rtol=TOLERANCES.line_search_error, maxiter=50)

    def _by_equations(self, best: Between, wanted: float) -> Between:
        """The best of what is known and of the solutions of some systems of equations."""
        problem, worse, table = self.run.problem, 0, ACTIVE_SET
        is_rough = self.run.tol >= table.rough_from
        most = table.most_free_roughly if is_rough else table.most_free
        guess = first_guess(problem, best.d, best.x)
        for _ in range(ACTIVE_SET.guesses):
            with self.run.algebra():
                found = solution(problem, self.K, self.given, self.point, guess, most)
            if found is None or not (found.d > 0.0).any():
                break
            x, d = problem.feasible(found.x), np.maximum(found.d, 0.0)
            here = self._at(d / d.sum(), x)
            other = next_guess(problem, self, guess, found, here.Kx)
            worse = 0 if here.gap < best.gap else worse + 1
            best = closer(here._replace(exact=True), best)
            if other is None or best.gap <= wanted or worse == TOLERANCES.systems_without_gain:
                break
            guess = other
        return best


class HingeSaddle(Saddle):
    """The program of one output with the hinge, in the memory of the host: Newton's method as one
    compiled call, and what is missing then by the way of all programs.
    """

    @staticmethod
    def fits(run: RunState, K: Any, point: HeldPoint) -> bool:
        """Whether this is such a program; where gaps are to be small, and kernels are in float64,
        systems come first.
        """
        here = isinstance(K, np.ndarray) and K.dtype == np.float32
        return (
            here
            and isinstance(point.products, np.ndarray)
            and type(run.problem.loss) is Hinge
            and len(point.beta) == 1
            and run.tol >= ACTIVE_SET.rough_from
        )

    def _approaches(self, best: Between, goal: Goal) -> Iterator[Between]:
        problem, point = self.run.problem, self.point
        beta, products = point.beta[0], point.products[:, 0]
        model = Model(
            self.K, self.weights, beta, products, point.forms, problem.targets[0], problem.cost[0]
        )
        value = best.upper if goal.value is None else goal.value
        *found, solves, steps = program(model, goal.gap, goal.wanted, value, NUMBERS)
        self.run.counters.svm_solves += solves
        self.run.counters.machine_steps += steps
        pulse()
        d, x, Kx, upper, lower = found
        best = closer(Between(d, x[None], Kx[None], upper, lower), best)
        yield best
        yield from super()._approaches(best, goal)


# those that the compiled call takes, and its coarsest and finest violations
NUMBERS = Numbers(
    TOLERANCES.gain_left,
    TOLERANCES.newton_steps,
    TOLERANCES.first_temperature,
    TOLERANCES.hottest_in_gaps,
    TOLERANCES.proximal_share_of_gap,
    TOLERANCES.uniform_share_of_center,
    TOLERANCES.ignore_curvature_below,
    TOLERANCES.line_search_error,
    SMALLEST_WEIGHT,
    PROGRAMS.first_inner_tolerance,
    PROGRAMS.smallest_inner_tolerance,
    PROGRAMS.machine_steps,
)


def closer(one: Between, other: Between) -> Between:
    return one if one.gap < other.gap else other


def _cooler(model: SmoothedSimplex, here: Between, forms: np.ndarray) -> SmoothedSimplex:
    """A new center, and half as warm, once the proximal problem of the old one is nearly solved."""
    smooth = model.conjugate(forms) + model.divergence(here.d) - 0.5 * forms.max()
    solved = here.gap + smooth < TOLERANCES.proximal_share_of_gap * here.gap
    return model.recentered(here.d) if solved else model


# --- the saddle of a step as a system of linear equations on its active set -----------------------


@dataclass(frozen=True)
class ActiveSetTolerances:
    """The numbers by which an active set is guessed and confirmed."""

    # Guesses of the active set in a row; larger: more linear systems.
    guesses: int = 8
    # Free coefficients of an output beyond which a system costs more than it saves; larger: larger
    # systems.
    most_free: int = 1500
    # The same where the tolerance is rough: then steps of Newton's method do as well.
    most_free_roughly: int = 150
    # Relative gap from which on a tolerance is rough; larger: larger systems.
    rough_from: float = 1e-4
    # Newton's step from which on they are tried at such tolerances, where SMO alone mostly gets
    # there; larger: hard programs take longer.
    first_step_roughly: int = 3
    # Kernels with weight beyond which it does; larger: larger systems.
    most_kernels: int = 100
    # Part of the largest weight above which a kernel is in the first guess; larger: fewer kernels.
    kernel_counts_above: float = 1e-4
    # Relative shift of diagonals, because equal points or kernels make a system singular; larger:
    # less precise solutions.
    diagonal_shift: float = 1e-12
    # Violation, in units of the problem or relative, that is not rounding; larger: guesses are
    # confirmed more easily.
    violation_counts_above: float = 1e-9
    # Change of the coefficients, as a part of the largest, that is none; larger: the same.
    change_counts_above: float = 1e-12
    # Size of a coefficient that is to leave zero, for its sign; larger: it is not zero any more.
    sign_of_zero: float = 1e-300


ACTIVE_SET = ActiveSetTolerances()


class Guess(NamedTuple):
    """Which coefficients are free and which kernels have weight.

    Attributes
    ----------
    free : (t, n) bool
    x : (t, n)
        Values of coefficients that are not free; signs of those that are, or where to linearize the
        slopes of a curve.
    used : (s,) kernels
    """

    free: np.ndarray
    x: np.ndarray
    used: np.ndarray


class Found(NamedTuple):
    """The solution of a guess: weights (m,), coefficients (t, n) and intercepts (t,), not yet
    within any bounds, unless the loss has a curve.
    """

    d: np.ndarray
    x: np.ndarray
    b: np.ndarray


def first_guess(problem: Problem, d: np.ndarray, x: np.ndarray) -> Guess:
    """From weights and coefficients that are nearly right."""
    free = [
        (row > box.lower) & (row < box.upper) & ((row != 0.0) | (box.kink == 0.0))
        for box, row in zip(problem.boxes, x, strict=True)
    ]
    return Guess(np.stack(free), x, np.flatnonzero(d > ACTIVE_SET.kernel_counts_above * d.max()))


def solution(
    problem: Problem, K: Any, given: np.ndarray, point: HeldPoint, guess: Guess, most: int
) -> Found | None:
    """The solution of a guess; None if its system is too large or has none.

    The coefficients are eliminated, output by output, which leaves a system for the weights, the
    intercepts and the height t.

    Parameters
    ----------
    problem : Problem
    K : (n, n) array or DeviceMatrix
        Combined kernel of the weights e.
    given : (t, n) array
        Its product with the coefficients of the point.
    point : HeldPoint
    guess : Guess
    most : int
        Free coefficients of an output that a system may have.
    """
    # the size of the system
    sizes, t, s = guess.free.sum(axis=1), len(guess.free), guess.used.size
    if problem.loss.has_nonquadratic_dual:  # a step by any other method costs such systems, too
        most = thresholds().factorized_points
    if sizes.min() == 0 or sizes.max() > most or s > min(ACTIVE_SET.most_kernels, sizes.sum() + 1):
        return None
    # the equations of the weights: tangents in use have the height t, and weights sum to one
    small, right = np.zeros((s + t + 1, s + t + 1)), np.zeros(s + t + 1)
    small[:s, -1] = small[-1, :s] = right[-1] = 1.0
    right[:s] = 0.5 * point.forms[guess.used]
    # kernels of 1e290 and more may make numbers that are none, and then there is no solution
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            # the Schur complement of the free coefficients, output by output
            parts = [_eliminated(problem, K, given, point, guess, c) for c in range(t)]
            for c, part in enumerate(parts):
                rows, sides = np.r_[:s, s + c], part.answers.sides
                small[np.ix_(rows, rows)] -= sides.T @ sides
                right[rows] += part.fixed - sides.T @ part.side
            small[np.diag_indices(s)] += ACTIVE_SET.diagonal_shift * np.trace(small[:s, :s]) / s
            z = np.linalg.solve(small, right)
        except LinAlgError:
            return None
        if not np.isfinite(z).all():
            return None
    # back substitution: the coefficients of every output
    x, d = guess.x.copy(), np.zeros(point.forms.size)
    for c, part in enumerate(parts):
        left = part.side - part.answers.sides @ z[np.r_[:s, s + c]]
        x[c, part.answers.free] = part.answers.coefficients(left)
        x[c] = _inside(problem.boxes[c], guess.x[c], x[c])
    d[guess.used] = z[:s]
    return Found(d, x, z[s : s + t]) if np.isfinite(z).all() and np.isfinite(x).all() else None


def _inside(box: Box, before: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The response of a loss with a curve to the decision values that its linearized slopes have
    come to; x itself without a curve.
    """
    if box.curve is None:
        return x
    model = box.around(before)
    f = model.linear - model.ridge * x
    return box.curve.coefficients(f, box.total)


class Answers(NamedTuple):
    """How the free coefficients of one output answer to weights and intercept.

    Attributes
    ----------
    free : (f,) points with free coefficients
    factor : (f, f) Cholesky's factor L of their kernel
    sides : (f, s + 1)
        ``L^-1`` times the products of the kernels in use, and ones.
    """

    free: np.ndarray
    factor: np.ndarray
    sides: np.ndarray

    def coefficients(self, side: np.ndarray) -> np.ndarray:
        """Coefficients (f,) from ``L^-1`` times a right-hand side."""
        return solve_triangular(self.factor, side, lower=True, trans=1, check_finite=False)


def answers(problem: Problem, K: Any, point: HeldPoint, guess: Guess, c: int) -> Answers:
    """The answers of output c."""
    F, M = np.flatnonzero(guess.free[c]), point.products[guess.used, c]
    block = entries(K, F, F).astype(float)
    block[np.diag_indices(F.size)] += (
        problem.boxes[c].around(guess.x[c]).ridge[F]
        + ACTIVE_SET.diagonal_shift * np.trace(block) / F.size
    )
    factor = cholesky(block, lower=True, overwrite_a=True, check_finite=False)
    sides = np.empty((F.size, len(M) + 1))
    sides[:, :-1], sides[:, -1] = M[:, F].T, 1.0
    sides = solve_triangular(factor, sides, lower=True, overwrite_b=True, check_finite=False)
    return Answers(F, factor, sides)


class _Part(NamedTuple):
    """The equations of one output without its coefficients.

    Attributes
    ----------
    answers : Answers
    side : (f,)
        ``L^-1`` times the constants of the free coefficients.
    fixed : (s + 1,)
        What the other coefficients leave of the right-hand sides of weights and intercept.
    """

    answers: Answers
    side: np.ndarray
    fixed: np.ndarray


def _eliminated(
    problem: Problem, K: Any, given: np.ndarray, point: HeldPoint, guess: Guess, c: int
) -> _Part:
    """The equations of output c without its free coefficients."""
    found = answers(problem, K, point, guess, c)
    box, F = problem.boxes[c].around(guess.x[c]), found.free
    fixed = np.where(guess.free[c], 0.0, guess.x[c])
    held = np.flatnonzero(fixed)
    side = box.linear[F] - box.kink[F] * np.sign(guess.x[c, F]) + given[c, F]
    side -= fixed[held] @ entries(K, held, F)
    side = solve_triangular(found.factor, side, lower=True, check_finite=False)
    pulled = -point.products[guess.used, c] @ fixed
    return _Part(found, side, np.append(pulled, box.total - fixed.sum()))


def next_guess(
    problem: Problem, saddle: Saddle, guess: Guess, found: Found, Kx: np.ndarray
) -> Guess | None:
    """The guess that the solution makes of bounds and kernels; None if it is the one before."""
    scores, x, free = saddle.scores(found.d, Kx), found.x.copy(), guess.free.copy()
    for c, box in enumerate(problem.boxes):
        # free coefficients that left the box, or changed their side of the kink, are held
        outside = (x[c] <= box.lower) | (x[c] >= box.upper)
        turned = (box.kink > 0.0) & (np.sign(x[c]) != np.sign(guess.x[c]))
        x[c] = np.where(free[c] & turned, 0.0, np.clip(x[c], box.lower, box.upper))
        # held coefficients that violate the optimality conditions are freed
        up, down = box.sides(x[c], scores[c] + box.ridge * x[c] - box.linear)
        slack = ACTIVE_SET.violation_counts_above * problem.unit
        rises, falls = ~free[c] & (up > found.b[c] + slack), ~free[c] & (down < found.b[c] - slack)
        at_kink = (box.kink > 0.0) & (x[c] == 0.0)
        x[c] += np.where(at_kink & rises, ACTIVE_SET.sign_of_zero, 0.0) - np.where(
            at_kink & falls, ACTIVE_SET.sign_of_zero, 0.0
        )
        free[c] = (free[c] & ~outside & ~turned) | rises | falls
    # kernels without weight leave, and those above the kink join
    used = found.d > 0.0
    forms = saddle.forms(x)
    used |= forms > forms[used].max() * (1.0 + ACTIVE_SET.violation_counts_above)
    # the same guess again is a confirmation
    changed = not np.array_equal(free, guess.free)
    changed |= not np.array_equal(np.flatnonzero(used), guess.used)
    if problem.loss.has_nonquadratic_dual:
        changed |= bool(
            np.abs(x - guess.x).max() > ACTIVE_SET.change_counts_above * np.abs(x).max()
        )
    return Guess(free, x, np.flatnonzero(used)) if changed else None
