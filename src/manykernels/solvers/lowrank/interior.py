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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._arrays import namespace, places, smallest, sums_by
from ...losses import Box
from ...run_state import RunState
from ..base import Iterate
from .factored import FactorSolver, Fit, Model, certified, lifted, watched


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Part of the way to the nearest bound that a step takes; larger: closer to the boundary.
    share_of_way_to_bound: float = 0.995
    # Length of a step that needs no correctors; larger: more correctors.
    step_counts_as_long: float = 0.95
    # Gondzio's correctors in an iteration; larger: longer and dearer steps.
    correctors: int = 3
    # Factor by which a product may miss its aim; larger: correctors bring back fewer products.
    farthest_product: float = 10.0
    # Change of a model's value that ends its rounds, as a part of the gap; larger: rougher steps.
    model_settled_below: float = 1e-3
    # Gap to aim at in the end, as a part of the tolerance; larger: the last steps stay farther from
    # the boundary.
    final_share_of_tolerance: float = 1e-2
    # Length of a step that ends the method; larger: it gives up sooner.
    shortest_step: float = 1e-9
    # Steps without a smaller gap that end the method; larger: it gives up later.
    steps_without_gain: int = 25
    # Ratio of the gap in the whole space to that in a half of it that ends the work there; larger:
    # more steps in the half.
    gaps_differ_above: float = 1.1


TOLERANCES = Tolerances()


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

    def products(
        self, step: "Step | None" = None, length: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Products of slacks and multipliers, below and above, after a step."""
        below, above, low, high = self.x - self.lower, self.upper - self.x, self.low, self.high
        if step is None:
            return below * low, above * high
        change = length * step.x
        return (below + change) * (low + length * step.low), (above - change) * (
            high + length * step.high
        )

    def longest(self, step: "Step") -> float:
        """The longest step that keeps slacks and multipliers positive."""
        pairs = (
            (self.x - self.lower, step.x),
            (self.upper - self.x, -step.x),
            (self.low, step.low),
            (self.high, step.high),
        )
        return min(_longest(value, change) for value, change in pairs)

    def moved(self, step: "Step", length: float) -> "Bounded":
        return self._replace(
            x=self.x + length * step.x,
            low=self.low + length * step.low,
            high=self.high + length * step.high,
        )


def _longest(value: np.ndarray, change: np.ndarray) -> float:
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
    patience: int = TOLERANCES.steps_without_gain


class Interior(FactorSolver):
    """An interior-point method for banks of low-rank factors and losses with corners; needs a
    regularizer with `reweight`.
    """

    max_iter = 200

    def needs(self, run: RunState) -> None:
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

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        beta, at = run.bank.to_device(run.problem.feasible(beta)), _simpler(run)
        return State(
            _centered(run),
            Fit.of(at, lifted(run, weights), 0.0 * beta),
            at,
            certified(run, weights, beta),
        )

    def step(self, run: RunState, state: State, tol: float) -> State:
        # the direction, from the linearized conditions
        linearized, at = _Linearized(state), state.at
        step = self._direction(linearized, state, tol)
        # the step, which stays inside of the bounds
        length = min(1.0, TOLERANCES.share_of_way_to_bound * state.bounded.longest(step))
        bounded, fit = state.bounded.moved(step, length), state.fit.moved(at, step.fit, length)
        # the certificate of the true problem
        iterate = certified(run, fit.weights, linearized.feasible(bounded), tol)
        # from a half of the space to the whole
        stuck = length < TOLERANCES.shortest_step
        if at is not run and (stuck or _apart(at, iterate)):
            fit = Fit.of(run, fit.weights, linearized.by_point(bounded.x), fit.b)
            at, stuck = run, False
        watch = watched(state, iterate, TOLERANCES.steps_without_gain, stuck)
        return State(bounded, fit, at, *watch)

    @staticmethod
    def _direction(at: "_Linearized", state: State, tol: float) -> Step:
        """The step by predictor, corrector, and correctors of products that are out of line."""
        bounded, gap = state.bounded, state.iterate.certificate.gap
        weights = lifted(state.at, state.fit.weights, gap)
        mean, primal = _mean(bounded.products()), abs(state.iterate.certificate.primal)
        # predictor: the affine direction, to products of zero
        aims = Aims(0.0, 0.0)
        ahead = at.step(aims, at.model.solved(at.pulls(aims), weights))
        reached = _mean(bounded.products(ahead, min(1.0, bounded.longest(ahead))))
        # centering: Mehrotra's cube of how far the predictor comes, but no less than is needed
        enough = TOLERANCES.final_share_of_tolerance * tol * primal / (2.0 * len(bounded.x))
        center = max(mean * (reached / mean) ** 3, min(enough, mean))
        # corrector: with the second-order terms of the predictor, and with new weights
        aims = Aims(center - ahead.x * ahead.low, center + ahead.x * ahead.high)
        decrease = TOLERANCES.model_settled_below * 2.0 * mean * len(bounded.x)
        step = at.step(aims, at.model.fitted(at.pulls(aims), weights, decrease))
        # Gondzio's correctors
        return _corrected(at, bounded, step, aims, center)


def _corrected(
    at: "_Linearized", bounded: Bounded, step: Step, aims: "Aims", center: float
) -> Step:
    """The step after correctors, as many as lengthen it enough."""
    longest = bounded.longest(step)
    for _ in range(TOLERANCES.correctors):
        if longest >= TOLERANCES.step_counts_as_long:
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


def _toward(center: float, value: np.ndarray) -> np.ndarray:
    """The change of products that brings them near the center, but not too large a one."""
    clip = namespace(value).clip
    near = clip(value, center / TOLERANCES.farthest_product, TOLERANCES.farthest_product * center)
    return clip(near - value, -TOLERANCES.farthest_product * center, None)


class Aims(NamedTuple):
    """Products below and above that a step aims at, (k,) or a number each."""

    low: np.ndarray | float
    high: np.ndarray | float


def _mean(products: tuple[np.ndarray, np.ndarray]) -> float:
    return 0.5 * float(sum(values.mean() for values in products))


class _Linearized:
    """The conditions linearized at a state, and the model that they leave."""

    def __init__(self, state: State) -> None:
        self.problem, self.bounded = state.at.problem.placed, state.bounded
        at = self.bounded
        self.below, self.above = at.x - at.lower, at.upper - at.x
        self.left = at.linear - state.fit.f.ravel()[at.place]
        # of a variable, when the pull on it grows by one
        self.give = 1.0 / (at.low / self.below + at.high / self.above)
        self.curvatures = self.by_point(self.give)
        self.model = Model(state.at, state.fit, self.curvatures, exact=True)

    def by_point(self, values: np.ndarray) -> np.ndarray:
        """Sums of the variables' values over those of a point, (t, n)."""
        shape = self.problem.targets.shape
        return sums_by(self.bounded.place, values, shape[0] * shape[1]).reshape(shape)

    def _change(self, aims: Aims) -> np.ndarray:
        """The change of the variables towards the aims while the decision values stay."""
        return self.give * (self.left + aims.low / self.below - aims.high / self.above)

    def pulls(self, aims: Aims) -> np.ndarray:
        return self.model.pulls(self.by_point(self.bounded.x + self._change(aims)))

    def step(self, aims: Aims, fit: Fit) -> Step:
        """The step of everything that goes with a step of the fit."""
        at = self.bounded
        x = self._change(aims) - self.give * fit.f.ravel()[at.place]
        low = (aims.low - at.low * x) / self.below - at.low
        high = (aims.high + at.high * x) / self.above - at.high
        return Step(x, low, high, fit)

    def feasible(self, bounded: Bounded) -> np.ndarray:
        """Coefficients with the right sums: what is missing is put where it costs least."""
        beta = self.by_point(bounded.x)
        for row, bends, box in zip(beta, self.curvatures, self.problem.boxes, strict=True):
            if bends.any():
                row += (box.total - row.sum()) * bends / bends.sum()
        return self.problem.feasible(beta)


def _simpler(run: RunState) -> RunState:
    """The run in half of the space of its factors, or itself."""
    bank = run.bank.half()
    if bank is None:
        return run
    simpler = RunState(run.problem.on(bank), memory_budget=run.memory_budget)
    simpler.counters = run.counters
    return simpler


def _apart(at: RunState, iterate: Iterate) -> bool:
    """True if an iterate is clearly worse than it looks in a half of the space."""
    near = certified(at, iterate.weights, iterate.beta).certificate
    return iterate.certificate.absolute_gap > TOLERANCES.gaps_differ_above * abs(near.absolute_gap)


def _centered(run: RunState) -> Bounded:
    """Variables in the middle of their bounds, less on the heavier side, with products that are all
    the same.
    """
    # place, linear part, bounds and value of the variables of every output and side
    parts = []
    for c, box in enumerate(run.problem.placed.boxes):
        shares = _shares(box)
        for side in _sides(box):
            room = places((side.upper > side.lower) & (min(shares) > 0.0))
            lower, upper = side.lower[room], side.upper[room]
            place, x = c * len(box.linear) + room, shares[0] * upper + shares[1] * lower
            parts.append((place, side.linear[room], lower, upper, x))
    # side by side, with multipliers that make all products equal
    joined = map(namespace(parts[0][1]).concatenate, zip(*parts, strict=True))
    place, linear, lower, upper, x = joined
    product = 0.5 * run.problem.unit * float((upper - lower).mean()) if len(x) else 0.0
    return Bounded(place, linear, lower, upper, x, product / (x - lower), product / (upper - x))


def _shares(box: Box) -> tuple[float, float]:
    """Shares of the upper and lower bounds, a half at most, that sum up to the total; zero if only
    zero does.
    """
    most, least = float(box.upper.sum()), -float(box.lower.sum())
    if box.total > 0.0:
        return min(box.total / most, 1.0 - 1e-3), 0.5
    if min(most, least) <= 0.0:
        return 0.0, 0.0
    return 0.5 * min(1.0, least / most), 0.5 * min(1.0, most / least)


def _sides(box: Box) -> list[Box]:
    """The box of each variable of a point: itself, or one on either side of the kink."""
    if not box.kink.any():
        return [box]
    clip = namespace(box.kink).clip
    return [
        box._replace(linear=box.linear - box.kink, lower=clip(box.lower, 0.0, None)),
        box._replace(linear=box.linear + box.kink, upper=clip(box.upper, None, 0.0)),
    ]
