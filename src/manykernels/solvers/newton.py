"""Newton's method on the dual.

For a smooth conjugate phi, ``D(beta) = y'beta - phi(s(beta))`` has gradient ``y - K_d beta`` and
curvature

    H = K_d + 2 M' J M,    M_k = K_k beta,    J = d weights / d s   (diagonal plus rank one),

so that a Newton step over the box is itself an SVM-like quadratic program with kernel H, and the
SMO machine solves it. Along the step every quadratic form is a parabola in the step size, so the
line search is exact and costs no pass. An iteration takes two passes over the kernels, one for
``K_d`` and one for the products with the step.

The products M are either held, or never in memory: then the first pass adds up H itself, and the
second gives the parabolas (see `points`). So a million kernels take no more memory than a few
numbers for each.

The logistic loss adds an entropy to the dual, which the program has as it is: kernel logistic
regression with kernel H.

How precisely the program is solved decides everything (`programs.maximizer`).

Where the conjugate has a kink (the ball with p = 1) a smooth model of the dual is none: there
`Sequential` takes over, whose model keeps the kernels apart.

Outputs that share the weights have one program each, coupled through J; they are solved in turn
until they settle.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..machines.base import Machine
from ..problem import Problem
from ..run_state import RunState
from ..thresholds import thresholds
from .base import Iterate, Solver, patient, stalled
from .dual import HeldPoint, Line, StreamedPoint, best_multiple, first_svm, held_bytes, maximizer
from .sequential import Sequential
from .wrappers import FromKernels, FromSimplex, WorkingSet


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Error of the length of a step, as a part of it; larger: a rougher line search.
    line_search_error: float = 1e-3
    # Steps without a smaller gap that end the method; larger: it gives up later.
    steps_without_gain: int = 4


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    point : HeldPoint or StreamedPoint
    iterate : Iterate
    best, patience : float, int
        Smallest absolute gap so far, and how many more steps may pass without a smaller one.
    """

    point: HeldPoint | StreamedPoint
    iterate: Iterate
    best: float = np.inf
    patience: int = TOLERANCES.steps_without_gain


class Newton(Solver):
    """Second-order ascent on the dual of sums of kernels.

    Needs a regularizer with a smooth conjugate, or the simplex, and room for a combined kernel and
    for the (m, n) products, unless the bank can do without them.

    Parameters
    ----------
    streamed : bool, optional
        Whether to do without the products of all kernels; by default where they are large and the
        bank can.
    partial : bool, optional
        Whether to look at a part of the kernels first: for p = 1 at those which may have weight
        (`WorkingSet`), otherwise at a sample, whose solution is a good start for all
        (`FromKernels`); by default where kernels are many and the bank can.
    """

    title = "Newton's method"
    max_iter = 200

    def __init__(self, streamed: bool | None = None, partial: bool | None = None) -> None:
        self.streamed, self.partial = streamed, partial

    def needs(self, run: RunState) -> None:
        r = run.problem.regularizer
        if r.is_simplex:
            self._on_simplex(run).check(run)
            return
        if not (r.has_curvature and r.smooth):
            raise ValueError(
                f"Newton's method needs a conjugate that is smooth, or PNormBall(1); {r!r} has "
                "neither: use solver='spg'."
            )
        outputs, n = run.problem.targets.shape
        held = _sizes(run)[1 if self._streams(run) else 0]
        largest = max(held, outputs * n**2 * run.bank.dtype.itemsize)
        if not run.holds_kernel or largest > run.memory_budget:
            raise ValueError(
                f"Newton's method holds a combined kernel for each of {outputs} outputs and the "
                f"products of {run.bank.m} kernels with {n} points, or their sums for each pair of "
                "outputs, which are over the memory budget: raise cache_size or use solver='spg'."
            )

    def _streams(self, run: RunState) -> bool:
        """True if the products are not held."""
        if self.streamed is not None:
            return self.streamed
        products, sums = _sizes(run)
        if run.bank.cheap_sweeps:
            outputs = len(run.problem.targets)
            least = run.bank.cheap_from * outputs**2
            return run.bank.m >= least and sums <= run.memory_budget
        return run.bank.streams and products > max(thresholds().held_product_bytes, sums)

    def specialize(self, run: RunState) -> Solver:
        if run.problem.regularizer.only_weights(run.bank.m) is not None:
            return OneSVM()
        if run.problem.regularizer.is_simplex:
            return self._on_simplex(run)
        if run.problem.regularizer.near_simplex:
            return FromSimplex(Newton(self.streamed, False), Sequential())
        if self._looks_at_part(run):
            return FromKernels(Newton(self.streamed, False))
        return self

    def _looks_at_part(self, run: RunState) -> bool:
        many = run.bank.m >= thresholds().kernels_for_part
        wanted = many if self.partial is None else self.partial
        return wanted and run.bank.cheap_subsets

    def _on_simplex(self, run: RunState) -> Solver:
        """The method for p = 1, on some of the kernels if they are many."""
        return WorkingSet(Sequential()) if self._looks_at_part(run) else Sequential()

    def init(self, run: RunState) -> State:
        return self.begin(run, first_svm(run))

    def begin(self, run: RunState, beta: np.ndarray) -> State:
        """The first state, from coefficients that need not be an SVM's."""
        point = (StreamedPoint if self._streams(run) else HeldPoint).at(run, beta)
        return _state(run, point.times(best_multiple(run.problem, beta, point.forms)))

    def step(self, run: RunState, state: State, tol: float) -> State:
        gap, model = state.iterate.certificate.absolute_gap, run.problem.regularizer
        # Newton's direction: the maximizer of the quadratic model over the box
        point, program = state.point.program(run, model)
        target = maximizer(run, point.beta, gap, program)
        # the exact line search
        line = point.line(run, target - point.beta)
        new = _state(run, point.moved(line, _line_search(run.problem, point, line)))
        left = new.iterate.certificate.absolute_gap
        # forms were updated, not computed: judge by fresh ones
        if new.iterate.certificate.gap <= tol:
            new = _state(run, new.point.fresh(run))
        return patient(new, state, left, TOLERANCES.steps_without_gain)

    def refreshed(self, run: RunState, state: State) -> State:
        return _state(run, state.point.at(run, state.point.beta))


def _sizes(run: RunState) -> tuple[int, int]:
    """Bytes of the products of all kernels, and of what is kept of them by a sweep."""
    outputs, n = run.problem.targets.shape
    return held_bytes(run), 8 * run.bank.sweep_parts * (outputs * n) ** 2


def _state(run: RunState, point: HeldPoint | StreamedPoint) -> State:
    return State(*point.judged(run, run.problem.regularizer))


def _line_search(problem: Problem, point: HeldPoint | StreamedPoint, line: Line) -> float:
    """The step in [0, 1] that maximizes the dual along the line: where its slope is zero.

    The slope of the conjugate is half the weights, so that the last look at them is the one that
    the next iteration needs.
    """
    model = problem.regularizer

    def slope(size: float) -> float:
        forms, change = line.forms(point.forms, size), 2.0 * (line.slope + size * line.curve)
        linear = problem.dual_slope(point.beta + size * line.change, line.change)
        return linear - 0.5 * float(model.weights(forms) @ change)

    def loss(size: float) -> float:
        linear = problem.dual_linear(point.beta + size * line.change)
        return model.conjugate(line.forms(point.forms, size)) - linear

    first, last = slope(0.0), slope(1.0)
    if last >= 0.0:
        return 1.0
    inner = 0.0
    if first > 0.0:
        error = TOLERANCES.line_search_error
        inner = brentq(slope, 0.0, 1.0, xtol=1e-9, rtol=error, maxiter=50)
    # near the optimum the dual is flat to the last digit while the primal still gains from a whole
    # step
    value = loss(inner)
    slack = 1e-13 * (abs(loss(0.0)) + abs(value))
    return 1.0 if loss(1.0) <= value + slack else inner


# --- one SVM, where the weights do not depend on the data: p = inf, or a single kernel ------------


@dataclass(frozen=True)
class OneSVMTolerances:
    """The numbers by which the only SVM is solved."""

    # Violation of the first SVM; larger: a cheaper first iteration, and more of them.
    first_inner_tolerance: float = 1e-2
    # Violation at which the method stalls; larger: small gaps are out of reach.
    smallest_inner_tolerance: float = 1e-12
    # Part of the tolerance that the gap of the SVM by itself may be; larger: it ends sooner.
    svm_share_of_gap: float = 0.9


ONE_SVM = OneSVMTolerances()


class OneSVMState(NamedTuple):
    """A combined kernel with its machine, and how precisely the SVM is solved."""

    machine: Machine
    kernel: Any
    tolerance: float
    iterate: Iterate


class OneSVM(Solver):
    """The SVM of the only weights there are, solved until its gap is below the tolerance.

    One pass over the kernels makes the combined kernel; no other is needed, because the quadratic
    forms count only by their sum, which is that of the combined kernel.
    """

    title = "Newton's method"
    max_iter = 50

    def needs(self, run: RunState) -> None:
        self._weights(run)

    @staticmethod
    def _weights(run: RunState) -> np.ndarray:
        """The only weights there are, (m,)."""
        weights = run.problem.regularizer.only_weights(run.bank.m)
        if weights is None:
            raise ValueError("The weights depend on the data: use solver='auto'.")
        return weights

    def init(self, run: RunState) -> OneSVMState:
        weights = self._weights(run)
        machine, kernel = run.machine(weights)
        return self._solved(
            run, machine, kernel, weights, run.start.beta, ONE_SVM.first_inner_tolerance
        )

    def step(self, run: RunState, state: OneSVMState, tol: float) -> OneSVMState:
        weights, beta, certificate = state.iterate[:3]
        wanted = run.problem.inner_tolerance(tol * abs(certificate.primal), beta)
        finer = max(min(0.1 * state.tolerance, wanted), ONE_SVM.smallest_inner_tolerance)
        new = self._solved(run, state.machine, state.kernel, weights, beta, finer)
        return stalled(new) if state.tolerance <= ONE_SVM.smallest_inner_tolerance else new

    @staticmethod
    def _solved(
        run: RunState,
        machine: Machine,
        kernel: Any,
        weights: np.ndarray,
        beta: np.ndarray,
        tolerance: float,
    ) -> OneSVMState:
        at = run.solve(
            machine, kernel, weights, beta, tolerance, ONE_SVM.svm_share_of_gap * run.tol
        )
        form = float(np.vdot(at.beta, at.scores))
        forms = np.full(weights.size, max(form, 0.0) / weights.size)
        certificate = run.certificate(weights, at.beta, scores=at.scores, forms=forms)
        return OneSVMState(machine, kernel, tolerance, Iterate(weights, at.beta, certificate))
