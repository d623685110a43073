"""SPG-GMKL: spectral projected gradient descent on the kernel weights.

A. Jain, S. V. N. Vishwanathan and M. Varma, SPG-GMKL: generalized multiple kernel learning with a
million kernels, KDD 2012. Names in brackets refer to the equations there. Gaps are relative to the
objective, so that the thresholds of the paper's schedule of inner tolerances mean the same on every
data set.

Three things are ours. Where the regularizer has a proximal map, the direction uses it instead of
its gradient. The gradient of a p-norm with p near 1 behaves like ``d^(p-1)``, which near zero is as
steep as one likes: with p = 1.1 weights near zero bounce between the bound and the smallest step,
drag the spectral length down with them, and 5,000 iterations leave a gap of 5 to 16 % where the
proximal direction needs tens. And spectral lengths may grow to 10^6, not 10: the paper's bound
presumes weights of order one, but l1 weights of unit-trace kernels are of order 100, and the bound
costs up to five times the iterations. Third, products of kernels become the identity when the
weights are large, a plateau where all gradients vanish: a step at most doubles their sum
(`cautious`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..regularizers.base import Regularizer
from ..result import Status
from ..run_state import Evaluation, RunState
from .base import Iterate, Solver


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Spectral step length at least (6); larger: steps may be too long on steep problems.
    shortest_length: float = 1e-30
    # Gamma of the line search (10); larger: more of the trial steps are refused.
    sufficient_decrease: float = 1e-4
    # Change of eta in an iteration; larger: the average adapts sooner.
    eta_step: float = 0.025
    # Smallest eta; larger: the line search always compares with some older values.
    eta_low: float = 0.1
    # Largest eta, one being a plain mean; smaller: older values count less.
    eta_high: float = 1.0
    # Step at which the line search gives up; larger: SVMs are sharpened sooner.
    smallest_step: float = 1e-8
    # Inner tolerance at least, below which rounding decides; larger: runs stall sooner.
    smallest_inner_tolerance: float = 1e-13
    # Inner tolerance at most when the projected gradient ends a run; larger: rougher ends.
    roughest_final_tolerance: float = 1e-3
    # Decrease, in tolerances, that counts where there is no gap; larger: runs end sooner.
    flat_below: float = 1e-2
    # Iterations without such a decrease that end a run; larger: runs end later.
    flat_iterations: int = 30


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the descent.

    Attributes
    ----------
    at : Evaluation
    gradient : (m,) of W at the current weights
    length : float
        Spectral step length, lambda in the paper.
    reference, averaged, eta : float
        C, Q and eta of the averaged line search (10)–(12).
    inner_tolerance : float
        Tolerance of the inner SVMs, epsilon in the paper.
    iterate : Iterate
    record : (float, int)
        The last value that was clearly smaller than those before, and how many iterations ago that
        was.
    """

    at: Evaluation
    gradient: np.ndarray
    length: float
    reference: float
    averaged: float
    eta: float
    inner_tolerance: float
    iterate: Iterate
    record: tuple


class SPG(Solver):
    """Spectral projected gradient with averaged non-monotone line search and tuned inner
    tolerances.

    Each of the three parts can be switched off; without all three it is plain projected gradient
    descent (PGD).

    Parameters
    ----------
    spectral : bool
        Step length from the last two gradients (6); else 1.
    nonmonotone : bool
        Compare with an average of past values (10); else with the last one (Armijo).
    tune_tolerance : bool
        Solve the SVMs roughly far from the optimum (13); else always to `inner_tolerance`.
    proximal : bool
        Use the regularizer's proximal map where it has one; else its gradient, as in the paper.
    cautious : bool
        Where the kernel is not a sum, at most double the sum of the weights in an iteration.
    longest : float
        Bound on the spectral step length; 10 in the paper.
    inner_tolerance : float
        Inner tolerance when it is not tuned.
    start : {"uniform", "random"}
        Weights to begin with, unless the problem brings some; random ones depend on `random_state`.
    """

    title = "SPG-GMKL"
    max_iter = 5000
    sums_only = False

    def __init__(
        self,
        spectral: bool = True,
        nonmonotone: bool = True,
        tune_tolerance: bool = True,
        *,
        proximal: bool = True,
        cautious: bool = True,
        longest: float = 1e6,
        inner_tolerance: float = 1e-6,
        start: str = "uniform",
        random_state: int = 0,
    ) -> None:
        self.cautious, self.longest = cautious, longest
        self.spectral, self.nonmonotone, self.tune_tolerance, self.proximal = (
            spectral,
            nonmonotone,
            tune_tolerance,
            proximal,
        )
        self.inner_tolerance, self.start, self.random_state = inner_tolerance, start, random_state
        # what plain gradient descent has not reached by then, it does not reach
        self.wait = (60.0, 3.3) if spectral else (90.0, 1.6)

    def init(self, run: RunState) -> State:
        if self.start not in ("uniform", "random"):
            raise ValueError(f"start must be 'uniform' or 'random', got {self.start!r}.")
        weights, beta = run.start
        if self.start == "random" and not beta.any():
            weights = run.problem.regularizer.project(
                weights * np.random.default_rng(self.random_state).uniform(0.5, 1.5, weights.size)
            )
        inner_tolerance = self.inner_tolerance
        if self.tune_tolerance:  # a start that was certified is not to be spoilt by rough SVMs
            inner_tolerance = 0.1 if run.best is None else TOLERANCES.roughest_final_tolerance
        at = run.evaluate(weights, beta, inner_tolerance)
        gradient, iterate = _judge(run, at)
        length = self._first_length(iterate)
        if inner_tolerance > TOLERANCES.roughest_final_tolerance:
            iterate = iterate._replace(stationarity=np.inf)
        return State(
            at, gradient, length, at.value, 1.0, 0.85, inner_tolerance, iterate, (at.value, 0)
        )

    def step(self, run: RunState, state: State, tol: float) -> State:
        # spectral projected gradient (8) and line search (10)
        direction, slope = self._direction(run, state)
        trial, size = self._search(run, state, direction, slope)
        if trial is None:
            return self._sharpen(run, state)
        # the next step length (6)
        gradient, iterate = _judge(run, trial)
        length = self._spectral_length(run.problem.regularizer, state, trial.weights, gradient)
        # the average that the next line search compares with (11), (12)
        eta = self._next_eta(state, trial, slope, size, direction)
        averaged = eta * state.averaged + 1.0
        reference = (eta * state.averaged * state.reference + trial.value) / averaged
        # the next inner tolerance (13)
        inner_tolerance = self._next_inner_tolerance(state.inner_tolerance, trial, iterate, tol)
        # the end where there is no gap: a small projected gradient, or a flat value
        record = _next_record(state.record, trial.value, tol)
        rough = (
            state.inner_tolerance > TOLERANCES.roughest_final_tolerance
            or trial.noise > tol * abs(iterate.certificate.primal)
        )
        if rough and self.tune_tolerance:  # the gradient of a rough SVM may be small by chance
            iterate = iterate._replace(stationarity=np.inf)
        if record[1] >= TOLERANCES.flat_iterations and np.isinf(iterate.certificate.gap):
            iterate = iterate._replace(ended=Status.FLAT)
        return State(
            trial, gradient, length, reference, averaged, eta, inner_tolerance, iterate, record
        )

    def _direction(self, run: RunState, state: State) -> tuple[np.ndarray, float]:
        """Spectral projected gradient (8) and the decrease of W along it to first order."""
        direction, slope = self._plain_direction(run.problem.regularizer, state)
        if run.bank.is_sum or not self.cautious:
            return direction, slope
        # weights far too large turn K_d into the identity, a plateau from which no gradient leads
        # back: at most double them
        longest = max(np.abs(direction).sum(), TOLERANCES.shortest_length)
        share = min(1.0, np.abs(state.at.weights).sum() / longest)
        return share * direction, share * slope

    def _plain_direction(self, r: Regularizer, state: State) -> tuple[np.ndarray, float]:
        d = state.at.weights
        if not (self.proximal and r.has_prox):
            direction = d - r.project(d - state.length * state.gradient)
            return direction, float(state.gradient @ direction)
        smooth = state.gradient - r.gradient(d)
        target = r.prox(d - state.length * smooth, state.length)
        return d - target, float(smooth @ (d - target)) + r.value(d) - r.value(target)

    def _search(
        self, run: RunState, state: State, direction: np.ndarray, slope: float
    ) -> tuple[Evaluation | None, float]:
        """The first of the steps 1, 1/2, 1/4, … that decreases W enough (10), or None."""
        level = state.reference if self.nonmonotone else state.at.value
        size = 1.0
        while size >= TOLERANCES.smallest_step:
            weights = run.problem.regularizer.project(state.at.weights - size * direction)
            trial = run.evaluate(weights, state.at.beta, state.inner_tolerance)
            if trial.value <= level - TOLERANCES.sufficient_decrease * size * slope:
                return trial, size
            # W is known up to the noise only: no step is too long as far as these SVMs can tell
            noise = max(trial.noise, state.at.noise) + state.iterate.certificate.rounding
            if self.tune_tolerance and trial.value - level < noise:
                return None, size
            size *= 0.5
        return None, size

    def _sharpen(self, run: RunState, state: State) -> State:
        """No step was acceptable: compute more precisely what the error is mostly due to, and begin
        the averages anew.
        """
        refined = state.iterate.certificate.rounding > state.at.noise and run.refine()
        inner_tolerance = state.inner_tolerance
        if self.tune_tolerance and not refined:
            inner_tolerance = max(0.1 * inner_tolerance, TOLERANCES.smallest_inner_tolerance)
        at = run.evaluate(state.at.weights, state.at.beta, inner_tolerance)
        gradient, iterate = _judge(run, at)
        iterate = iterate._replace(
            ended=None if refined or inner_tolerance < state.inner_tolerance else Status.STALLED
        )
        return state._replace(
            at=at,
            gradient=gradient,
            length=self._first_length(iterate),
            reference=at.value,
            averaged=1.0,
            inner_tolerance=inner_tolerance,
            iterate=iterate,
        )

    def _first_length(self, iterate: Iterate) -> float:
        """Before two gradients are known: a step that moves the weights by about one in the largest
        entry.
        """
        if not self.spectral:
            return 1.0
        shortest = TOLERANCES.shortest_length
        return float(np.clip(1.0 / max(iterate.stationarity, shortest), shortest, self.longest))

    def _spectral_length(
        self, regularizer: Regularizer, state: State, weights: np.ndarray, gradient: np.ndarray
    ) -> float:
        """Barzilai–Borwein step length (6)."""
        if not self.spectral:
            return 1.0
        moved, change = weights - state.at.weights, gradient - state.gradient
        # the proximal map takes care of the regularizer's curvature
        if self.proximal and regularizer.has_prox:
            change = change - regularizer.gradient(weights) + regularizer.gradient(state.at.weights)
        curvature = float(moved @ change)
        if curvature <= 0:  # noise of rough SVMs, or a problem that is not convex
            return min(10.0 * state.length, self.longest)
        return float(np.clip(moved @ moved / curvature, TOLERANCES.shortest_length, self.longest))

    def _next_eta(
        self, state: State, trial: Evaluation, slope: float, size: float, direction: np.ndarray
    ) -> float:
        """Average over more iterates when the quadratic model predicted the decrease well, over
        fewer when badly.
        """
        if not self.nonmonotone:
            return 0.0
        predicted = size * slope - 0.5 * size**2 * float(direction @ direction) / state.length
        actual = state.at.value - trial.value
        error = abs(actual - predicted) / max(abs(predicted), np.finfo(float).tiny)
        change = 0.0
        if error < 0.25:
            change = TOLERANCES.eta_step
        elif error > 0.75:
            change = -TOLERANCES.eta_step
        return float(np.clip(state.eta + change, TOLERANCES.eta_low, TOLERANCES.eta_high))

    def _next_inner_tolerance(
        self, inner_tolerance: float, at: Evaluation, iterate: Iterate, tol: float
    ) -> float:
        """The paper's schedule (13), and finer where the SVMs' own gap is much of the whole."""
        if not self.tune_tolerance:
            return inner_tolerance
        gap, v = iterate.certificate.gap, iterate.stationarity
        measure, coarse, middle = (v, 5.0, 1.0) if np.isinf(gap) else (gap, 1.0, 0.1)
        scheduled = TOLERANCES.roughest_final_tolerance
        if measure >= middle:
            scheduled = 1e-1 if measure >= coarse else 1e-2
        whole = tol * abs(iterate.certificate.primal)
        if np.isfinite(gap):
            whole = iterate.certificate.absolute_gap
        if at.noise > 0.25 * whole and (np.isfinite(gap) or measure < middle):
            finer = max(0.1 * inner_tolerance, TOLERANCES.smallest_inner_tolerance)
            scheduled = min(scheduled, finer)
        return min(inner_tolerance, scheduled)


def _next_record(record: tuple[float, int], value: float, tol: float) -> tuple[float, int]:
    """The last value that was clearly smaller, and its age in iterations.

    W has a kink where its SVM has several solutions; there no gradient becomes small, and only the
    value tells.
    """
    best, age = record
    return (value, 0) if value < best - TOLERANCES.flat_below * tol * abs(best) else (best, age + 1)


def _judge(run: RunState, at: Evaluation) -> tuple[np.ndarray, Iterate]:
    """Gradient and iterate at an evaluation."""
    _, gradient, certificate = run.judge(at)
    step = at.weights - run.problem.regularizer.project(at.weights - gradient)
    return gradient, Iterate(
        at.weights, at.beta, certificate, stationarity=float(np.abs(step).max())
    )
