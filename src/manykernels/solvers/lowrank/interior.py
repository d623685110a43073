"""MKL on low-rank factors by a primal-dual interior-point method, for losses with corners (hinge,
epsilon-insensitive).

With ``K_k = V_k V_k'`` the optimality conditions of every output are

    v = D V' beta,    f = V v + b,    sum(beta) = total, linear - f = high - low,    low (beta -
    lower) = 0,    high (upper - beta) = 0,    low, high >= 0,

with the weights D that fit v best. Mehrotra's method follows the points where both products are mu
instead of zero, with mu falling to zero. Linearized, the bounds leave ``beta = now - bends (change
of f)``, as if the loss were quadratic: v, b and the weights minimize its small model together (see
`factored`). Gondzio's correctors then bring products that would be far too small or too large back
to the others, which lengthens the step. An iteration costs one Gram matrix of the factors, scaled,
and a few passes over them; the number of iterations hardly depends on the cost or on the number of
points. Where the factors lie in a small space, the first iterations work in half of it, for an
eighth of the price, until their gap there and their gap in the whole, which is the one that counts,
begin to differ.

A loss with a kink at zero has two variables for a point, ``beta = x_1 + x_2`` with ``x_1 >= 0 >=
x_2``.
"""

from typing import NamedTuple

import numpy as np

from ..._arrays import namespace, places, smallest, sums_by
from ...run_state import RunState
from ..base import Iterate
from .factored import FactorSolver, Fit, Model, certified, lifted, watched

BACK = 0.995  # of the way to the nearest bound
LONG = 0.95  # a step that needs no correctors
CORRECTORS, FARTHEST = 3, 10.0  # at most, and how far products may be from their aim
SETTLED = 1e-3  # change of a model's value that ends its rounds, as a part of the gap that is left
FINAL_GAP = 1e-2  # gap to aim at in the end, as a part of the tolerance
SHORTEST, PATIENCE = 1e-9, 25  # a step, and steps without a smaller gap, that end the method
APART = 1.1  # ratio of the gap in the whole space to that in a half of it which ends the work there


class Bounded(NamedTuple):
    """The variables of all outputs that have room to move, side by side, (k,) each.

    Attributes
    ----------
    place : where they belong in the coefficients (t, n), flat
    linear, lower, upper : their dual problem
    x, low, high : their values, and the multipliers of the bounds
    """

    place: np.ndarray
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    x: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def products(self, step=None, length=0.0):
        """Products of slacks and multipliers, below and above, after a step."""
        below, above, low, high = self.x - self.lower, self.upper - self.x, self.low, self.high
        if step is None:
            return below * low, above * high
        change = length * step.x
        return (below + change) * (low + length * step.low), (above - change) * (
            high + length * step.high
        )

    def longest(self, step):
        """The longest step that keeps slacks and multipliers positive."""
        pairs = (
            (self.x - self.lower, step.x),
            (self.upper - self.x, -step.x),
            (self.low, step.low),
            (self.high, step.high),
        )
        return min(_longest(value, change) for value, change in pairs)

    def moved(self, step, length):
        return self._replace(
            x=self.x + length * step.x,
            low=self.low + length * step.low,
            high=self.high + length * step.high,
        )


def _longest(value, change):
    """The longest step by which positive values stay positive."""
    xp, falls = namespace(change), change < 0.0
    return smallest(xp.where(falls, -value / xp.where(falls, change, -1.0), np.inf))


class Step(NamedTuple):
    """Changes of the variables and of the multipliers, (k,) each, and that of the fit."""

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    fit: Fit


class State(NamedTuple):
    """Variables, the problem that is worked at and its fit.

    Further the iterate for the true problem, its smallest gap so far, and how many more steps may
    pass without a smaller one.
    """

    bounded: Bounded
    fit: Fit
    at: RunState
    iterate: Iterate
    best: float = np.inf
    patience: int = PATIENCE


class Interior(FactorSolver):
    """An interior-point method for banks of low-rank factors and losses with corners; needs a
    regularizer with `reweight`.
    """

    max_iter = 200

    def needs(self, run):
        super().needs(run)
        if not all(
            np.isfinite(box.lower).all() and np.isfinite(box.upper).all()
            for box in run.problem.boxes
        ):
            raise ValueError(
                f"Interior is for losses whose dual has bounds, not for {run.problem.loss!r}: use "
                "solver='primal'."
            )
        if run.problem.loss.is_smooth:
            raise ValueError(
                f"Interior is for losses with corners, not for {run.problem.loss!r}: use "
                "solver='primal'."
            )

    def init(self, run):
        weights, beta = run.start
        beta, at = run.bank.to_device(run.problem.feasible(beta)), _simpler(run)
        return State(
            _centered(run),
            Fit.of(at, lifted(run, weights), 0.0 * beta),
            at,
            certified(run, weights, beta),
        )

    def step(self, run, state, tol):
        linearized = _Linearized(state)
        step = self._direction(linearized, state, tol)
        length = min(1.0, BACK * state.bounded.longest(step))
        bounded, fit, at = (
            state.bounded.moved(step, length),
            state.fit.moved(state.at, step.fit, length),
            state.at,
        )
        iterate = certified(run, fit.weights, linearized.feasible(bounded), tol)
        stuck = length < SHORTEST
        if at is not run and (stuck or _apart(at, iterate)):
            fit, at, stuck = (
                Fit.of(run, fit.weights, linearized.by_point(bounded.x), fit.b),
                run,
                False,
            )
        return State(bounded, fit, at, *watched(state, iterate, PATIENCE, stuck))

    @staticmethod
    def _direction(at, state, tol):
        """The step by predictor, corrector, and correctors of products that are out of line."""
        bounded, gap = state.bounded, state.iterate.certificate.gap
        weights = lifted(state.at, state.fit.weights, gap)
        mean = _mean(bounded.products())
        aims = Aims(0.0, 0.0)
        ahead = at.step(aims, at.model.solved(at.pulls(aims), weights))
        reached = _mean(bounded.products(ahead, min(1.0, bounded.longest(ahead))))
        enough = FINAL_GAP * tol * abs(state.iterate.certificate.primal) / (2.0 * len(bounded.x))
        center = max(mean * (reached / mean) ** 3, min(enough, mean))
        aims = Aims(center - ahead.x * ahead.low, center + ahead.x * ahead.high)
        decrease = SETTLED * 2.0 * mean * len(bounded.x)
        step = at.step(aims, at.model.fitted(at.pulls(aims), weights, decrease))
        return _corrected(at, bounded, step, aims, center)


def _corrected(at, bounded, step, aims, center):
    """The step after correctors, as many as lengthen it enough."""
    longest = bounded.longest(step)
    for _ in range(CORRECTORS):
        if longest >= LONG:
            break
        wanted = min(1.0, 1.5 * longest + 0.1)
        low, high = (_toward(center, value) for value in bounded.products(step, wanted))
        corrected = Aims(aims.low + low, aims.high + high)
        another = at.step(corrected, at.model.solved(at.pulls(corrected), step.fit.weights))
        reach = bounded.longest(another)
        if min(reach, 1.0) < longest + 0.1 * (wanted - longest):
            break
        step, aims, longest = another, corrected, reach
    return step


def _toward(center, value):
    """What to add to products so that they are near the center, but not too much."""
    clip = namespace(value).clip
    near = clip(value, center / FARTHEST, FARTHEST * center)
    return clip(near - value, -FARTHEST * center, None)


class Aims(NamedTuple):
    """Products below and above that a step aims at, (k,) or a number each."""

    low: np.ndarray
    high: np.ndarray


def _mean(products):
    return 0.5 * float(sum(values.mean() for values in products))


class _Linearized:
    """The conditions linearized at a state, and the model that they leave."""

    def __init__(self, state):
        self.problem, self.bounded = state.at.problem.placed, state.bounded
        at = self.bounded
        self.below, self.above = at.x - at.lower, at.upper - at.x
        self.left = at.linear - state.fit.f.ravel()[at.place]
        # of a variable, when the pull on it grows by one
        self.give = 1.0 / (at.low / self.below + at.high / self.above)
        self.curvatures = self.by_point(self.give)
        self.model = Model(state.at, state.fit, self.curvatures, exact=True)

    def by_point(self, values):
        """Sums of the variables' values over those of a point, (t, n)."""
        shape = self.problem.targets.shape
        return sums_by(self.bounded.place, values, shape[0] * shape[1]).reshape(shape)

    def _change(self, aims):
        """How the variables change towards the aims while the decision values stay."""
        return self.give * (self.left + aims.low / self.below - aims.high / self.above)

    def pulls(self, aims):
        return self.model.pulls(self.by_point(self.bounded.x + self._change(aims)))

    def step(self, aims, fit):
        """The step of everything that goes with a step of the fit."""
        at = self.bounded
        x = self._change(aims) - self.give * fit.f.ravel()[at.place]
        low = (aims.low - at.low * x) / self.below - at.low
        high = (aims.high + at.high * x) / self.above - at.high
        return Step(x, low, high, fit)

    def feasible(self, bounded):
        """Coefficients with the right sums: what is missing is put where it costs least."""
        beta = self.by_point(bounded.x)
        for row, bends, box in zip(beta, self.curvatures, self.problem.boxes, strict=True):
            if bends.any():
                row += (box.total - row.sum()) * bends / bends.sum()
        return self.problem.feasible(beta)


def _simpler(run):
    """The run in half of the space of its factors, or itself."""
    bank = run.bank.half()
    if bank is None:
        return run
    simpler = RunState(run.problem.on(bank), memory_budget=run.memory_budget)
    simpler.counters = run.counters
    return simpler


def _apart(at, iterate):
    """Whether an iterate is clearly worse than it looks in a half of the space."""
    near = certified(at, iterate.weights, iterate.beta).certificate
    return iterate.certificate.absolute_gap > APART * abs(near.absolute_gap)


def _centered(run):
    """Variables in the middle of their bounds, less on the heavier side, with products that are all
    the same.
    """
    parts = []
    for c, box in enumerate(run.problem.placed.boxes):
        shares = _shares(box)
        for side in _sides(box):
            room = places((side.upper > side.lower) & (min(shares) > 0.0))
            lower, upper = side.lower[room], side.upper[room]
            parts.append(
                (
                    c * len(box.linear) + room,
                    side.linear[room],
                    lower,
                    upper,
                    shares[0] * upper + shares[1] * lower,
                )
            )
    joined = map(namespace(parts[0][1]).concatenate, zip(*parts, strict=True))
    place, linear, lower, upper, x = joined
    product = 0.5 * run.problem.unit * float((upper - lower).mean()) if len(x) else 0.0
    return Bounded(place, linear, lower, upper, x, product / (x - lower), product / (upper - x))


def _shares(box):
    """Shares of the upper and lower bounds, a half at most, that sum up to the total; zero if only
    zero does.
    """
    most, least = float(box.upper.sum()), -float(box.lower.sum())
    if box.total > 0.0:
        return min(box.total / most, 1.0 - 1e-3), 0.5
    return (
        (0.5 * min(1.0, least / most), 0.5 * min(1.0, most / least))
        if min(most, least) > 0.0
        else (0.0, 0.0)
    )


def _sides(box):
    """The box of each variable of a point: itself, or one on either side of the kink."""
    if not box.kink.any():
        return [box]
    clip = namespace(box.kink).clip
    return [
        box._replace(linear=box.linear - box.kink, lower=clip(box.lower, 0.0, None)),
        box._replace(linear=box.linear + box.kink, upper=clip(box.upper, None, 0.0)),
    ]
