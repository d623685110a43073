"""Projected quasi-Newton descent on the kernel weights, for kernels that are not sums.

The value W(d) of the SVMs with the kernel K_d is differentiable, and its gradient costs little more
than the SVM. A quadratic model of W, with the limited-memory matrix of BFGS from the last gradients
and the regularizer as it is, is minimized over the feasible weights; a line search decides how far
to go there. M. Schmidt, E. van den Berg, M. Friedlander and K. Murphy, Optimizing costly functions
with simple constraints, AISTATS 2009; J. Lee, Y. Sun and M. Saunders, Proximal Newton-type methods
for minimizing composite functions, SIAM Journal on Optimization 2014.

The dual value of an SVM is known far better than its duality gap says, so SVMs may be as rough as
a step gains. Of many weights only those are looked at that are not held at zero; all of them are
before the end: a projected gradient as long as the weights gains less than the tolerance to first
order, the model promises no more than a tenth of it, and the SVMs' own gap is far below.

Where a bank says so, all of this is done in the roots of the weights (`roots`).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from .._loops.roots import minimize_model
from ..regularizers.base import Regularizer
from ..result import Certificate, Status
from ..run_state import Evaluation, RunState
from .base import Iterate, Solver
from .roots import Coordinates, Rooted, coordinates


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by; see benchmarks/products.py."""

    # Part of the promised decrease that a step must reach; larger: more steps are refused.
    sufficient_decrease: float = 1e-4
    # Gap of an SVM in decreases that the model promises, or the last step had; larger: rougher
    # SVMs.
    noise_share: float = 0.5
    # The same for SVMs in a space of factors: their dual values are no better than their gaps say,
    # and Newton's method makes both small in a few steps.
    noise_share_of_factors: float = 0.05
    # Gap of an SVM in those that are wanted, above which it is solved anew where it is.
    noise_excess: float = 10.0
    # Inner tolerance at most, and at least, below which rounding decides.
    roughest_inner_tolerance: float = 0.1
    smallest_inner_tolerance: float = 1e-12
    # Gap of the SVMs, and promised decrease, at the end, in tolerances; larger: rougher ends.
    final_noise: float = 0.02
    final_decrease: float = 0.1
    # Part of the first gradient, relative to the weights, that is the first guess of the curvature,
    # from nothing and from what an earlier run has come to; smaller: longer first steps.
    first_curvature: float = 0.3
    next_curvature: float = 3.0
    # The same after a step that had to be cut, which forgets what was before it.
    second_curvature: float = 2.0
    # Change of a step in sums of the weights, where the kernel is not a sum: weights far too large
    # turn K_d into the identity, a plateau from which no gradient leads back.
    largest_growth: float = 3.0
    # Trials of a line search, after which the model is given up.
    trials: int = 6
    # Curvature along a step in that of the model; below, it is mixed with that of the model.
    damping: float = 0.2
    # Iterations on the model, and part of its value below which they end.
    model_steps: int = 100
    model_accuracy: float = 1e-6
    # Trials of a step of Newton's method on the model; larger: more halvings before it is given up.
    newton_trials: int = 10
    # Decrease, in tolerances, that counts where there is no gap, and steps without one to the end.
    flat_below: float = 1e-2
    # The same for random features, whose own error is larger; larger: an earlier end.
    flat_below_of_features: float = 0.1
    flat_steps: int = 8
    # Steps from one look at all of many weights to the next.
    steps_per_look: int = 10


TOLERANCES = Tolerances()
# Weights from which on those that are held at zero stay out of the gradients: fewer cost nothing.
MANY_WEIGHTS = 100


class Memory(NamedTuple):
    """The matrix ``B = gamma I - vectors' middle vectors`` of the last steps and changes of the
    gradient, BFGS in compact form.

    Attributes
    ----------
    steps, changes : (k, m)
    gamma : float
    vectors, middle : (2 k, m) and (2 k, 2 k)
    """

    steps: np.ndarray
    changes: np.ndarray
    gamma: float
    vectors: np.ndarray
    middle: np.ndarray

    @classmethod
    def first(cls, m: int, gamma: float) -> "Memory":
        """A multiple of the identity."""
        nothing = np.empty((0, m))
        return cls(nothing, nothing, gamma, nothing, np.empty((0, 0)))

    @classmethod
    def of(cls, steps: np.ndarray, changes: np.ndarray) -> "Memory":
        """From pairs, the last one the newest."""
        inner, k = steps @ changes.T, len(steps)
        gamma = float(np.linalg.norm(changes[-1]) / np.linalg.norm(steps[-1]))
        matrix, lower = np.diag(np.r_[np.zeros(k), -np.diag(inner)]), np.tril(inner, -1)
        matrix[:k, :k], matrix[:k, k:], matrix[k:, :k] = gamma * steps @ steps.T, lower, lower.T
        vectors = np.vstack([gamma * steps, changes])
        return cls(steps, changes, gamma, vectors, np.linalg.inv(matrix))

    @property
    def matrix(self) -> np.ndarray:
        """B itself, (m, m)."""
        return self.gamma * np.eye(self.steps.shape[1]) - self.vectors.T @ (
            self.middle @ self.vectors
        )

    def times(self, x: np.ndarray) -> np.ndarray:
        """``B x``."""
        return self.gamma * x - (self.middle @ (self.vectors @ x)) @ self.vectors

    def updated(self, step: np.ndarray, change: np.ndarray, most: int) -> "Memory":
        """With one more pair, of `most` at most. W is not convex: a curvature that is too small is
        mixed with that of the model, so that B stays positive definite.
        """
        bent = self.times(step)
        curvature, known = float(step @ change), float(step @ bent)
        if not known > 0.0:
            return self
        if curvature < TOLERANCES.damping * known:
            share = (1.0 - TOLERANCES.damping) * known / (known - curvature)
            change = share * change + (1.0 - share) * bent
        most = min(most, max(step.size, 5))  # more tell of places that were left long ago
        return Memory.of(
            np.vstack([self.steps, step])[-most:], np.vstack([self.changes, change])[-most:]
        )


class State(NamedTuple):
    """The state of the descent.

    Attributes
    ----------
    at : Evaluation
    space : Coordinates
    gradient : (m,) of W by those coordinates; of weights that were not looked at, that of the last
        look
    memory : Memory
    kept : (m,) bool
        Weights that are not held at zero.
    look : int
        Steps since the last look at all weights.
    direction : (m,)
        To the minimizer of the model, or a part of the way.
    decrease : float
        Of W, which the model promises along the whole direction to first order.
    inner_tolerance : float
        Tolerance of the SVMs.
    iterate : Iterate
    flat : int
        Steps since W last fell by what counts.
    gain : float
        By what W fell in the last step.
    lowest : float
        The smallest W with SVMs as fine as these; rounding may let it rise again.
    is_cut : bool
        The direction is a part of what the model wanted.
    """

    at: Evaluation
    space: Coordinates
    gradient: np.ndarray
    memory: Memory
    kept: np.ndarray
    look: int
    direction: np.ndarray
    decrease: float
    inner_tolerance: float
    iterate: Iterate
    flat: int = 0
    gain: float = np.inf
    lowest: float = np.inf
    is_cut: bool = False


class QuasiNewton(Solver):
    """Projected quasi-Newton descent with rough SVMs, for any differentiable combination of
    kernels and any regularizer.

    Parameters
    ----------
    pairs : int
        Steps whose gradients make the model.
    """

    title = "projected quasi-Newton descent"
    sums_only = False
    stationarity_tol = 1e-3  # of the objective, to first order

    def __init__(self, pairs: int = 25) -> None:
        self.pairs = pairs

    def init(self, run: RunState) -> State:
        inner, (weights, beta) = TOLERANCES.roughest_inner_tolerance, run.start
        space = coordinates(run)
        at = run.evaluate(space.start(weights), beta, inner)
        return self._judged(run, at, space, None, inner, run.tol)

    def step(self, run: RunState, state: State, tol: float) -> State:
        at, wanted = state.at, _wanted_noise(run, state, tol)
        inner = _next_inner_tolerance(state, wanted)
        if not len(state.memory.steps):  # no step was taken since finer SVMs were asked for
            inner = min(inner, state.inner_tolerance)
        if at.noise > TOLERANCES.noise_excess * wanted and inner < state.inner_tolerance:
            at = run.evaluate(at.weights, at.beta, inner)
            new = self._judged(run, at, state.space, state, inner, tol)
            return new._replace(gain=state.gain)
        trial = self._search(run, state, inner)
        if trial is None:
            return self._given_up(run, state, inner, tol)
        new = self._judged(run, trial, state.space, state, inner, tol)
        rough = run.bank.smooth_in_roots
        share = TOLERANCES.flat_below_of_features if rough else TOLERANCES.flat_below
        certificate, lowest = new.iterate.certificate, min(state.lowest, at.value)
        fall = share * tol * abs(certificate.primal)
        flat = state.flat + 1 if lowest - trial.value < fall else 0
        if flat >= TOLERANCES.flat_steps and np.isinf(certificate.gap):
            new = new._replace(iterate=new.iterate._replace(ended=_end(certificate, tol)))
        gain, lowest = max(at.value - trial.value, 0.0), min(lowest, trial.value)
        return new._replace(flat=flat, gain=gain, lowest=lowest)

    @staticmethod
    def _search(run: RunState, state: State, inner: float) -> Evaluation | None:
        """The first of some shorter and shorter steps at which W has fallen enough."""
        at, size, space = state.at, 1.0, state.space
        x = space.of(at.weights)
        rounding = 0.5 * float(np.finfo(run.bank.dtype).eps) * run.bank.largest(at.weights)
        blur = rounding * float(np.square(at.beta).sum())  # of values, by that of the kernels
        for _ in range(TOLERANCES.trials):
            trial = run.evaluate(space.weights(x + size * state.direction), at.beta, inner)
            rise, promised = trial.value - at.value, size * state.decrease
            if rise <= blur - TOLERANCES.sufficient_decrease * promised:
                return trial
            size *= float(np.clip(0.5 * promised / (rise + promised), 0.1, 0.5))
        return None

    def _given_up(self, run: RunState, state: State, inner: float, tol: float) -> State:
        """No step was acceptable: begin a new model with finer SVMs. Where those are fine and the
        model is new, W has a kink, or the kernels are too coarse.
        """
        certificate = state.iterate.certificate
        allowed = tol * abs(certificate.primal)
        if not len(state.memory.steps) and state.at.noise <= TOLERANCES.final_noise * allowed:
            return state._replace(iterate=state.iterate._replace(ended=_end(certificate, tol)))
        if inner <= TOLERANCES.smallest_inner_tolerance:
            return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))
        inner = max(0.1 * inner, TOLERANCES.smallest_inner_tolerance)
        at = run.evaluate(state.at.weights, state.at.beta, inner)
        anew = state._replace(memory=Memory.first(run.bank.m, state.memory.gamma))
        new = self._judged(run, at, state.space, anew, inner, tol, whole=True)
        return new._replace(flat=state.flat, gain=state.gain)

    def _judged(
        self,
        run: RunState,
        at: Evaluation,
        space: Coordinates,
        before: State | None,
        inner: float,
        tol: float,
        whole: bool = False,
    ) -> State:
        """The state at an evaluation, with the gradient of the weights that are kept, or of the
        whole where a look is due.
        """
        r, x = space.regularizer, space.of(at.weights)
        whole = whole or before is None or before.look >= TOLERANCES.steps_per_look
        some = None if before is None or whole or before.kept.all() else np.flatnonzero(before.kept)
        judgment = run.judge(at, some)
        gradient = space.gradient(at, judgment.forms)
        if before is None:
            known = run.start.beta.any()
            share = TOLERANCES.next_curvature if known else TOLERANCES.first_curvature
            memory = _first_memory(x, gradient, share)
        else:
            if some is not None:
                gradient = np.where(before.kept, gradient, before.gradient)
            change, last = gradient - before.gradient, space.of(before.at.weights)
            if space.is_apart:
                change -= r.gradient(x) - r.gradient(last)
            memory = before.memory.updated(x - last, change, self.pairs)
            if before.is_cut and not np.array_equal(x, last):
                # slopes of places that were left in one leap tell nothing of those around
                memory = _first_memory(x, gradient, TOLERANCES.second_curvature)
        kept = _kept(space, x, gradient)
        direction, decrease = _model_step(space, x, gradient, memory, kept)
        is_cut = False
        if not run.bank.is_sum:
            longest = space.growth(TOLERANCES.largest_growth) * x.sum()
            length = np.abs(direction).sum()
            is_cut = bool(longest < length)
            share = float(longest / length) if is_cut else 1.0
            direction, decrease = share * direction, share * decrease
        primal = abs(judgment.certificate.primal)
        allowed = tol * primal
        settled = (
            at.noise <= TOLERANCES.final_noise * allowed
            and decrease <= TOLERANCES.final_decrease * allowed
        )
        if settled and some is not None:
            return self._judged(run, at, space, before, inner, tol, whole=True)
        stationarity = np.inf
        if settled:
            stationarity = _first_order(r, x, gradient) / max(1.0, primal)
        iterate = Iterate(at.weights, at.beta, judgment.certificate, stationarity=stationarity)
        look = 0 if some is None or before is None else before.look + 1
        found = State(at, space, gradient, memory, kept, look, direction, decrease, inner, iterate)
        return found._replace(is_cut=is_cut)


def _end(certificate: Certificate, tol: float) -> Status:
    """What it is that W does not fall any more, or that kernels are too coarse for it."""
    enough = certificate.rounding <= tol * abs(certificate.primal)
    return Status.FLAT if enough else Status.STALLED


def _first_memory(x: np.ndarray, gradient: np.ndarray, share: float) -> Memory:
    """A multiple of the identity: a part of the gradient, relative to the variables."""
    size, slope = float(x.sum()), float(np.abs(gradient).sum())
    gamma = share * slope / size if size > 0.0 else slope
    return Memory.first(x.size, gamma or 1.0)


def _first_order(r: Regularizer, weights: np.ndarray, gradient: np.ndarray) -> float:
    """The decrease of W to first order along a projected gradient that is as long as the weights
    themselves: zero at a stationary point, and the same whatever the unit of the weights.
    """
    size, length = float(weights.sum()), 1.0 / max(float(np.abs(gradient).sum()), 1.0)
    for _ in range(2):  # how long a projected gradient is shows when it is projected
        step = weights - r.project(weights - length * gradient)
        moved = float(np.abs(step).sum())
        if moved == 0.0:
            return 0.0
        length *= size / moved
    return float(gradient @ step)


def _wanted_noise(run: RunState, state: State, tol: float) -> float:
    """The gap that the next SVM may have."""
    last = TOLERANCES.final_noise * tol * abs(state.iterate.certificate.primal)
    is_newton = run.machine_kind == "factors"
    share = TOLERANCES.noise_share_of_factors if is_newton else TOLERANCES.noise_share
    return max(share * min(state.decrease, state.gain), 0.5 * last)


def _next_inner_tolerance(state: State, wanted: float) -> float:
    """Gaps of SVMs are about proportional to their tolerances."""
    inner, least = state.inner_tolerance, TOLERANCES.smallest_inner_tolerance
    noise = max(state.at.noise, 0.1 * wanted)
    factor = max(0.1, wanted / noise) if noise > 0.0 else 10.0
    return float(np.clip(factor * inner, least, TOLERANCES.roughest_inner_tolerance))


# --- the model ------------------------------------------------------------------------------------


def _kept(space: Coordinates, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Weights that are not held at zero; all where there are few of them."""
    if x.size < MANY_WEIGHTS or not space.is_orthant:
        return np.ones(x.size, dtype=bool)
    return (x > 0.0) | (gradient < 0.0)


def _model_step(
    space: Coordinates, x: np.ndarray, gradient: np.ndarray, memory: Memory, kept: np.ndarray
) -> tuple[np.ndarray, float]:
    """The way to the minimizer of the model, and the decrease of W along it to first order."""
    r = space.regularizer
    if not space.is_apart:
        found = _over_set(r, x, gradient, memory, False)
        return found - x, float(gradient @ (x - found))
    smooth = gradient - r.gradient(x)
    if not space.is_orthant:
        found = _over_set(r, x, smooth, memory, True)
    elif space.is_bent and x.size <= MANY_WEIGHTS:
        of = r.law if isinstance(r, Rooted) else None
        B = memory.matrix
        found = _by_newton(r, x, smooth, B) if of is None else _compiled(of, x, smooth, B)
    else:
        found = _over_orthant(r, x, smooth, memory, kept)
    return found - x, float(smooth @ (x - found)) + r.value(x) - r.value(found)


def _over_orthant(
    r: Regularizer, weights: np.ndarray, smooth: np.ndarray, memory: Memory, kept: np.ndarray
) -> np.ndarray:
    """The minimizer over all weights that are not negative."""
    x, B = weights.copy(), memory._replace(vectors=memory.vectors[:, kept])
    if not kept.any():
        return x

    def model(some: np.ndarray) -> tuple[float, np.ndarray]:
        move = some - weights[kept]
        bent = B.times(move)
        x[kept] = some
        value = float(smooth[kept] @ move + 0.5 * (move @ bent)) + r.value(x)
        return value, smooth[kept] + bent + r.gradient(x)[kept]

    x[kept] = minimize(
        model,
        weights[kept],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * int(kept.sum()),
        options={"maxiter": TOLERANCES.model_steps, "ftol": TOLERANCES.model_accuracy, "gtol": 0.0},
    ).x
    return np.maximum(x, 0.0)


def _by_newton(
    r: Regularizer, weights: np.ndarray, smooth: np.ndarray, B: np.ndarray
) -> np.ndarray:
    """The minimizer over all weights that are not negative, by projected steps of Newton's method:
    of few weights a solution of their equations takes less time than a call of L-BFGS-B.
    """
    x, bent, value, total = weights, np.zeros_like(weights), r.value(weights), 0.0
    for _ in range(TOLERANCES.model_steps):
        slope = smooth + bent + r.gradient(x)
        free = np.flatnonzero((x > 0.0) | (slope < 0.0))
        left = float(np.abs(slope[free]).sum() * (x.max() or 1.0))
        if left <= TOLERANCES.model_accuracy * total:
            break
        H = (B + r.hessian(x).matrix)[np.ix_(free, free)]
        step = np.zeros_like(x)
        step[free] = np.linalg.solve(H, -slope[free])
        for size in 0.5 ** np.arange(TOLERANCES.newton_trials):
            found = np.maximum(x + size * step, 0.0)
            bent_there = B @ (found - weights)
            there = float((smooth + 0.5 * bent_there) @ (found - weights)) + r.value(found)
            if there <= value + TOLERANCES.sufficient_decrease * float(slope @ (found - x)):
                break
        else:
            return x
        gain, x, bent, value = value - there, found, bent_there, there
        total += gain
        if gain <= TOLERANCES.model_accuracy * total:
            break
    return x


def _compiled(
    law: tuple[float, float], x: np.ndarray, smooth: np.ndarray, B: np.ndarray
) -> np.ndarray:
    """`_by_newton` for p-norms of the weights: most of its time was calls of small functions."""
    steps, accuracy = TOLERANCES.model_steps, TOLERANCES.model_accuracy
    decrease, trials = TOLERANCES.sufficient_decrease, TOLERANCES.newton_trials
    return minimize_model(x, smooth, B, *law, steps, accuracy, decrease, trials)


def _over_set(
    r: Regularizer, weights: np.ndarray, smooth: np.ndarray, memory: Memory, proximal: bool
) -> np.ndarray:
    """The minimizer over the feasible set of a regularizer, by spectral steps along its proximal
    map or its projection.
    """
    x, slope, length, total = weights, smooth, 1.0 / memory.gamma, 0.0
    for _ in range(TOLERANCES.model_steps):
        target = r.prox(x - length * slope, length) if proximal else r.project(x - length * slope)
        move = target - x
        bent = memory.times(move)
        gain = -float(slope @ move) + (r.value(x) - r.value(target) if proximal else 0.0)
        curvature = float(move @ bent)
        if gain <= TOLERANCES.model_accuracy * total or curvature <= 0.0:
            break
        share = min(1.0, gain / curvature)
        x, slope = x + share * move, slope + share * bent
        total += share * gain
        length = float(move @ move) / curvature
    return x
