"""Losses, and the box-constrained dual problem of each.

Every loss leads to the same dual problem (`Box`), so one machine solves them all. In signed
coefficients beta,

    min_{f, b}  |f|^2 / 2 + loss(f + b)   =   max_beta  linear' beta - kink' |beta| - ridge' beta^2
    / 2 - beta' K beta / 2

over ``lower <= beta <= upper`` and ``sum(beta) = total``, which is what the intercept asks for.

A `CurvedLoss` adds a strictly concave function of beta that is not quadratic, its `Curve`, and has
nothing else: ``linear``, ``kink`` and ``ridge`` are zero. The logistic loss is one. A new one is a
`Curve` with six methods and a `CurvedLoss` that makes it; machines, solvers and certificates ask
for nothing more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ._arrays import Array, ascending, namespace, special_functions
from ._loops.kinks import flat_point
from ._loops.smo import Bounds

# A bound that stands for none in compiled loops, which know no infinities: larger is infinite.
UNBOUNDED = 1e300


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this module.

    Attributes
    ----------
    smallest_share : float
        Share of a cost, above zero, that a coefficient has at least where slopes are computed. If
        it were larger, slopes at the end of the box would be smaller.
    rounding : float
        Relative rounding error of float64.
    smallest_curvature : float
        Curvature of a loss, as a part of its cost, that systems of equations see at least. Larger
        makes them better conditioned and Newton's steps shorter.
    sum_error : float
        Error of a sum of coefficients, as a part of the costs. Larger ends the search for an
        intercept earlier.
    max_rounds : int
        Steps of the search for an intercept.
    certain_value : float
        Decision value at which an error is so unlikely that its loss is zero in float64.
    """

    smallest_share: float = 1e-300
    rounding: float = 2.0**-53
    smallest_curvature: float = 1e-10
    sum_error: float = 1e-15
    max_rounds: int = 200
    certain_value: float = 800.0


TOLERANCES = Tolerances()


@dataclass(frozen=True, eq=False)
class Curve(ABC):
    """The concave dual of a smooth convex loss ``l_i(f_i)`` of decision values.

    A subclass gives `limits`, `value`, `slopes`, `response`, `loss` and `largest_bends`; the rest
    follows from them. Coefficients and decision values belong to each other,

        beta_i = -l_i'(f_i)  (`response`),    f_i = slope of the dual at beta_i  (`slopes`),

    and the dual is ``value(beta) = sum_i min_f l_i(f) + beta_i f``. So, for every beta inside of
    its limits, ``value(beta) = loss(f) + beta' f`` at ``f = slopes(beta)``. What it takes:

    - l_i is convex, has two derivatives, and its curvature has a bound (`largest_bends`).
    - Zero is within the limits, and the value there is finite: a certificate scales coefficients
      down to zero.
    - A point without a cost has a coefficient of zero: both its limits are zero, and so is its
      slope.

    Methods take arrays of NumPy and, for device banks, tensors of PyTorch: write them with
    ``namespace(beta)`` of `manykernels._arrays`.

    Parameters
    ----------
    y, cost : (n,) arrays
        Targets and costs.
    """

    y: Array
    cost: Array

    @property
    def certain_value(self) -> float:
        """Decision value at which the loss of a point, or its change, is zero in float64."""
        return TOLERANCES.certain_value

    @property
    def unit(self) -> float:
        """Natural unit of decision values, in which violations of the optimality conditions are
        measured.
        """
        return 1.0

    @abstractmethod
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the coefficients, (n,) both; infinite where there are none."""

    @abstractmethod
    def value(self, beta: Array) -> float:
        """The function at coefficients within their limits."""

    @abstractmethod
    def slopes(self, beta: Array) -> Array:
        """Decision values of coefficients, (n,); large but finite at the limits, and zero without a
        cost.
        """

    @abstractmethod
    def response(self, f: Array) -> tuple[Array, Array]:
        """Coefficients at decision values, and the curvature of the loss there, (n,) both."""

    @abstractmethod
    def loss(self, f: Array, b: float = 0.0) -> float:
        """Total loss of the decision values f; that b of them is the intercept costs nothing."""

    @abstractmethod
    def largest_bends(self) -> Array:
        """A bound on the curvature of the loss of each point, (n,)."""

    def doubts(self, beta: Array) -> Array:
        """Error of the slopes that rounding of the coefficients makes, (n,)."""
        bends = self.positive(self.response(self.slopes(beta))[1])
        return TOLERANCES.rounding * abs(beta) / namespace(beta).where(self.cost > 0.0, bends, 1.0)

    def positive(self, bends: Array) -> Array:
        """Curvatures that equations can be divided by: at least a small part of the cost."""
        return namespace(bends).maximum(bends, TOLERANCES.smallest_curvature * self.cost)

    def coefficients(self, f: Array, total: float = 0.0) -> Array:
        """The response to decision values after the shift that makes its sum right, (n,)."""
        return self.response(f + self.level(f, total))[0]

    def level(self, f: Array, total: float = 0.0) -> float:
        """The shift of decision values after which their coefficients have a sum."""
        used = f[self.cost > 0.0]
        ahead, behind = self.room(total)
        if behind <= 0.0:  # one class alone: no intercept is too large
            return self.certain_value - (min(0.0, float(used.min())) if len(used) else 0.0)
        if ahead <= 0.0:
            return -self.certain_value - (max(0.0, float(used.max())) if len(used) else 0.0)
        low, high = self.bracket(f, total)
        costs = ahead + behind
        error = TOLERANCES.sum_error
        enough = error * (costs if np.isfinite(costs) else float(self.cost.sum()))
        shift = 0.5 * (low + high)
        # Newton's method inside of a bracket: the sum falls as the shift grows
        for _ in range(TOLERANCES.max_rounds):
            beta, bends = self.response(f + shift)
            excess = float(beta.sum()) - total
            if abs(excess) <= enough or high - low <= error * (abs(low) + abs(high)):
                break
            low, high = (shift, high) if excess > 0.0 else (low, shift)
            newton = shift + excess / max(float(bends.sum()), TOLERANCES.smallest_share)
            shift = newton if low < newton < high else 0.5 * (low + high)
        return shift

    def room(self, total: float) -> tuple[float, float]:
        """Distances from a sum of coefficients to the largest and the smallest one."""
        lower, upper = self.limits()
        return float(upper.sum()) - total, total - float(lower.sum())

    def bracket(self, f: Array, total: float) -> tuple[float, float]:
        """Two shifts of decision values between which `level` lies."""
        reach = self.unit
        while reach < UNBOUNDED and self._excess(f - reach, total) < 0.0:
            reach *= 4.0
        low, reach = -reach, self.unit
        while reach < UNBOUNDED and self._excess(f + reach, total) > 0.0:
            reach *= 4.0
        return low, reach

    def _excess(self, f: Array, total: float) -> float:
        return float(self.response(f)[0].sum()) - total

    def take_points(self, chosen: Any) -> Curve:
        """The curve of some of the points."""
        return replace(self, y=self.y[chosen], cost=self.cost[chosen])


@dataclass(frozen=True, eq=False)
class Entropy(Curve):
    """The dual of the logistic loss for labels y = ±1 and costs, (n,) both: with ``alpha_i = y_i
    beta_i`` in ``[0, cost_i]``,

        cost_i H(alpha_i / cost_i),    H(t) = -t log t - (1 - t) log(1 - t).

    Its slope is the decision value that belongs to a coefficient, ``y_i log((cost_i - alpha_i) /
    alpha_i)``, and the other way round ``alpha_i = cost_i / (1 + exp(y_i f_i))`` belongs to the
    decision value f_i.
    """

    def limits(self) -> tuple[Array, Array]:
        return _label_limits(self.y, self.cost)

    def value(self, beta: Array) -> float:
        share, special = self._shares(beta), special_functions(beta)
        return float(self.cost @ (special.entr(share) - special.xlog1py(1.0 - share, -share)))

    def slopes(self, beta: Array) -> Array:
        xp = namespace(beta)
        share = xp.clip(self._shares(beta), TOLERANCES.smallest_share, 1.0 - TOLERANCES.rounding)
        return xp.where(self.cost > 0.0, self.y * (xp.log1p(-share) - xp.log(share)), 0.0)

    def doubts(self, beta: Array) -> Array:
        rounding = TOLERANCES.rounding
        return rounding / namespace(beta).clip(1.0 - self._shares(beta), rounding, None)

    def response(self, f: Array) -> tuple[Array, Array]:
        unlikely = special_functions(f).expit(-self.y * f)
        return self.y * self.cost * unlikely, self.cost * unlikely * (1.0 - unlikely)

    def loss(self, f: Array, b: float = 0.0) -> float:
        xp, margins = namespace(f), self.y * f
        return float(self.cost @ (xp.log1p(xp.exp(-abs(margins))) - xp.clip(margins, None, 0.0)))

    def largest_bends(self) -> Array:
        return 0.25 * self.cost

    def room(self, total: float) -> tuple[float, float]:
        ahead = float(self.cost[self.y > 0].sum()) - total
        return ahead, float(self.cost[self.y < 0].sum()) + total

    def bracket(self, f: Array, total: float) -> tuple[float, float]:
        # if all decision values were the same, the shift would make them the odds
        ahead, behind = self.room(total)
        used, odds = f[self.cost > 0.0], float(np.log(ahead) - np.log(behind))
        return odds - float(used.max()), odds - float(used.min())

    def _shares(self, beta: Array) -> Array:
        xp = namespace(beta)
        cost = xp.where(self.cost > 0.0, self.cost, 1.0)
        return xp.clip(self.y * beta / cost, 0.0, 1.0)


class Box(NamedTuple):
    """The dual of a loss for n points; all (n,) arrays but the total, and the curve if there is
    one.
    """

    linear: Array
    lower: Array
    upper: Array
    kink: Array
    ridge: Array
    total: float = 0.0
    curve: Curve | None = None

    @property
    def free(self) -> bool:
        """True for a dual without bounds, kinks and curve: it is one linear system."""
        xp = namespace(self.kink)
        return (
            self.curve is None
            and not self.kink.any()
            and bool(xp.isinf(self.lower).all() and xp.isinf(self.upper).all())
        )

    @property
    def is_system(self) -> bool:
        """True where the dual is solved by systems of linear equations: one, or one per step."""
        return self.curve is not None or self.free

    @property
    def is_bounded(self) -> bool:
        """True if every coefficient has a lower and an upper bound."""
        return bool(namespace(self.upper).isfinite(self.upper - self.lower).all())

    def around(self, beta: Array) -> Box:
        """The box with the quadratic model of its curve around coefficients: itself without one.

        Its maximizer may lie outside of the bounds, but ``linear - ridge beta`` is then a model of
        the decision values, and the `response` to them is inside.
        """
        if self.curve is None:
            return self
        cost, slopes = self.curve.cost, self.curve.slopes(beta)
        bends = self.curve.positive(self.curve.response(slopes)[1])
        ridge = 1.0 / np.where(cost > 0.0, bends, 1.0)
        linear, ridge = self.linear + slopes + ridge * beta, self.ridge + ridge
        return self._replace(linear=linear, ridge=ridge, curve=None)

    def bounds(self, chosen: Any = slice(None)) -> Bounds:
        """Bounds of some of the variables as compiled loops take them: very large numbers for
        infinite ones.
        """
        return Bounds(
            lower=np.maximum(self.lower[chosen], -UNBOUNDED),
            upper=np.minimum(self.upper[chosen], UNBOUNDED),
            kink=self.kink[chosen],
            ridge=self.ridge[chosen],
        )

    def take_points(self, chosen: Any) -> Box:
        """The box of some of the points, whose coefficients sum to what they do."""
        linear, lower, upper, kink, ridge = (array[chosen] for array in self[:5])
        curve = None if self.curve is None else self.curve.take_points(chosen)
        return Box(linear, lower, upper, kink, ridge, self.total, curve)

    def sides(self, beta: Array, F: Array) -> tuple[Array, Array]:
        """Slopes of the dual for a move up and for a move down of each variable, -inf and inf where
        it may not move.

        F is minus the gradient of the quadratic part. At the optimum no slope up exceeds any slope
        down.
        """
        where = namespace(beta).where
        if self.curve is not None:
            slopes, doubts = self.curve.slopes(beta) - F, self.curve.doubts(beta)
            up = where(beta < self.upper, slopes - doubts, -np.inf)
            return up, where(beta > self.lower, slopes + doubts, np.inf)
        up = where(beta < self.upper, -F - where(beta >= 0.0, self.kink, -self.kink), -np.inf)
        down = where(beta > self.lower, -F + where(beta <= 0.0, self.kink, -self.kink), np.inf)
        return up, down

    def value(self, beta: Array) -> float:
        """The dual objective without its part from the kernels."""
        value = self.linear @ beta - self.kink @ abs(beta) - 0.5 * (self.ridge @ beta**2)
        return float(value) + (0.0 if self.curve is None else self.curve.value(beta))

    def bent_value(self, beta: Array) -> float:
        """The part of the `value` that is neither linear nor a kink: of the ridge, or the curve."""
        if self.curve is not None:
            return self.curve.value(beta)
        return -0.5 * float(self.ridge @ beta**2)

    def slope(self, beta: Array, change: Array) -> float:
        """The slope of the value along a change of beta."""
        slopes = self.linear - self.kink * namespace(beta).sign(beta) - self.ridge * beta
        if self.curve is not None:
            slopes = slopes + self.curve.slopes(beta)
        return float(slopes @ change)

    def unit(self) -> float:
        """Half the violation at zero coefficients: one for labels, half the spread of the targets
        for regression.
        """
        if self.curve is not None:  # whose slopes there may be infinite
            return self.curve.unit
        up, down = self.sides(np.zeros(self.linear.size), -self.linear)
        violation = float(up.max() - down.min())
        return 0.5 * violation if np.isfinite(violation) and violation > 0.0 else 1.0

    def widths(self, beta: Array) -> Array:
        """The widths of the box, (n,): a violation of v costs up to v times their sum in the
        gap. Where there are no bounds, they are a guess.
        """
        widths, xp = self.upper - self.lower, namespace(beta)
        return xp.where(xp.isfinite(widths), widths, 2.0 * abs(beta) + 1.0)

    @property
    def squares(self) -> float:
        """A violation of v costs up to this times its square, where a loss bends; zero if it does
        not.
        """
        if self.curve is not None:
            return 0.5 * float(self.curve.largest_bends().sum())
        return float(np.sum(0.5 / self.ridge[self.ridge > 0.0]))

    def price(self, violation: float, beta: Array) -> float:
        """What a violation may cost in the gap: the smaller of two bounds, of which one is a guess
        where there are no bounds.
        """
        squares = self.squares * violation**2
        if not self.is_bounded:
            return squares
        return min(squares, violation * float(self.widths(beta).sum()))

    def steepness(self, beta: Array) -> Array:
        """About what an error of one in every decision value may cost, (n,)."""
        if self.curve is not None:
            return abs(beta)
        return namespace(beta).where(beta != 0.0, self.widths(beta), 0.0)

    def feasible(self, beta: Array) -> Array:
        """beta moved into the box and onto the right sum; a no-op for feasible ones."""
        xp = namespace(beta)
        beta = xp.clip(beta, self.lower, self.upper)
        positive = float(xp.clip(beta, 0.0, None).sum())
        negative = -float(xp.clip(beta, None, 0.0).sum())
        excess = positive - negative - self.total
        if abs(excess) <= 1e-14 * (positive + negative + abs(self.total)):
            return beta
        if self.total > 0.0 and excess < 0.0:
            return _filled(beta, self.upper, -excess)
        # the heavier side gives way, so that zeros stay zeros
        heavier, weight = (beta > 0, positive) if excess > 0 else (beta < 0, negative)
        return xp.where(heavier, (1.0 - abs(excess) / weight) * beta, beta)


def _filled(beta: Array, upper: Array, missing: float) -> Array:
    """Add what is missing, point after point."""
    room, xp = upper - beta, namespace(beta)
    before = xp.cumsum(room, 0) - room
    return beta + xp.clip(xp.clip(missing - before, 0.0, None), None, room)


class Loss(ABC):
    """A convex loss of decision values ``scores + b`` for targets y, with one cost per point."""

    separates: ClassVar[bool] = False
    """Targets are labels of ±1."""

    capped: ClassVar[bool] = False
    """A label's coefficients are bounded by its costs."""

    can_be_infinite: ClassVar[bool] = False
    """No error at all is allowed."""

    has_nonquadratic_dual: ClassVar[bool] = False
    """The dual is not quadratic: its boxes have a curve, see `CurvedLoss`."""

    gives_log_odds: ClassVar[bool] = False
    """Decision values are log-odds of the labels, so that there are probabilities."""

    @abstractmethod
    def box(self, y: Array, cost: Array) -> Box:
        """The dual box for targets y and costs, both (n,)."""

    @abstractmethod
    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        """Total loss of the decision values ``scores + b``."""

    @abstractmethod
    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        """The b that minimizes the loss; the middle if an interval does."""

    @property
    def is_smooth(self) -> bool:
        """True for a loss without corners: its curvature is nowhere infinite."""
        one = np.ones(1)
        return self.has_nonquadratic_dual or bool(self.box(one, one).ridge[0] > 0.0)

    def factor(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        """A factor on ``scores + b`` that makes a loss finite which can be infinite."""
        return 1.0

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value:g}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


class CurvedLoss(Loss):
    """A smooth loss whose dual is not quadratic: all that is asked of it follows from its curve.

    A subclass gives `curve`, and says with `separates` whether targets are labels and with `capped`
    whether the costs bound the coefficients.
    """

    has_nonquadratic_dual = True

    @abstractmethod
    def curve(self, y: Array, cost: Array) -> Curve:
        """The dual for targets y and costs, both (n,)."""

    def box(self, y: Array, cost: Array) -> Box:
        curve, nothing = self.curve(y, cost), namespace(y).zeros_like(y)
        lower, upper = curve.limits()
        return Box(nothing, lower, upper, nothing, nothing, curve=curve)

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        return self.curve(y, cost).loss(scores + b)

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        return self.curve(y, cost).level(scores)


class Hinge(Loss):
    """``cost_i max(0, 1 - y_i f_i)`` for labels y = ±1; ``beta_i = y_i alpha_i``, ``0 <= alpha_i <=
    cost_i``.
    """

    separates = capped = True

    def box(self, y: Array, cost: Array) -> Box:
        return _half_open(y, cost, namespace(y).zeros_like(y))

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        return float(cost @ namespace(scores).clip(1.0 - y * (scores + b), 0.0, None))

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        return _flat_point(y - scores, cost, -cost[y > 0].sum())


class SquaredHinge(Loss):
    """``cost_i max(0, 1 - y_i f_i)^2`` for labels y = ±1, as in scikit-learn's LinearSVC."""

    separates = True

    def box(self, y: Array, cost: Array) -> Box:
        return _half_open(y, _unbounded(cost), _half_inverse(cost))

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        return float(cost @ namespace(scores).clip(1.0 - y * (scores + b), 0.0, None) ** 2)

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        # the slope in b grows, and is linear between the kinks y - scores: Newton's method on it
        # ends where the points that pull stay the same
        kinks, used = y - scores, cost > 0.0
        low, high = (float(kinks[used].min()), float(kinks[used].max())) if used.any() else (0, 0)
        best = float(cost @ kinks / cost.sum()) if used.any() else 0.0
        for _ in range(TOLERANCES.max_rounds):
            weight = _pull(kinks, y, cost, best)
            total = float(weight.sum())
            if total == 0.0:
                return _between(kinks, y, used, low, high)
            newton = float(weight @ kinks) / total
            if newton == best:
                break
            low, high = (low, best) if newton < best else (best, high)
            if high - low <= TOLERANCES.sum_error * (abs(low) + abs(high)):
                break
            best = newton if low < newton < high else 0.5 * (low + high)
        return best


def _pull(kinks: Array, y: Array, cost: Array, b: float) -> Array:
    """Costs of the points on the wrong side of their margin at this intercept."""
    return cost * namespace(kinks).where(y > 0, kinks > b, kinks < b)


def _between(kinks: Array, y: Array, used: Array, low: float, high: float) -> float:
    """The middle of the intercepts at which no point is on the wrong side."""
    below, above = kinks[used & (y > 0)], kinks[used & (y < 0)]
    low = float(below.max()) if len(below) else low
    high = float(above.min()) if len(above) else high
    return 0.5 * (low + high)


class Logistic(CurvedLoss):
    """``cost_i log(1 + exp(-y_i f_i))`` for labels y = ±1: decision values are log-odds.

    With ``beta_i = y_i alpha_i`` the problem and its dual are, at weights d of the kernels,

        min_{beta, b}  beta' K_d beta / 2 + sum_i cost_i log(1 + exp(-y_i (K_d beta + b)_i))
        max_beta  sum_i cost_i H(alpha_i / cost_i) - beta' K_d beta / 2

    over ``0 <= alpha_i <= cost_i`` and ``sum(beta) = 0``, with the entropy ``H(t) = -t log t - (1 -
    t) log(1 - t)``; over the weights too, the dual ends in ``- phi(s(beta))``. At the optimum
    ``alpha_i = cost_i / (1 + exp(y_i f_i))``: a share of the cost, the probability of an error. No
    coefficient is zero or at its bound, so that all points with a cost are support vectors.
    """

    separates = capped = gives_log_odds = True

    def curve(self, y: Array, cost: Array) -> Entropy:
        return Entropy(y, cost)


class HardMargin(Loss):
    """No error at all: zero if ``y_i f_i >= 1`` for every point that has a cost, else infinite; for
    labels y = ±1.
    """

    separates = can_be_infinite = True

    def box(self, y: Array, cost: Array) -> Box:
        return _half_open(y, _unbounded(cost), namespace(y).zeros_like(y))

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        return 0.0 if np.min((y * (scores + b))[cost > 0]) >= 1.0 - 1e-9 else np.inf

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        used = cost > 0
        return -0.5 * float(scores[used & (y > 0)].min() + scores[used & (y < 0)].max())

    def factor(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        margin = float(np.min((y * (scores + b))[cost > 0]))
        return 1.0 / margin if margin > 0.0 else 1.0


class EpsilonInsensitive(Loss):
    """``cost_i max(0, |y_i - f_i| - epsilon)``: support vector regression."""

    def __init__(self, epsilon: float = 0.1) -> None:
        if not epsilon >= 0.0:
            raise ValueError(f"EpsilonInsensitive needs epsilon >= 0, got {epsilon!r}.")
        self.epsilon = float(epsilon)

    def box(self, y: Array, cost: Array) -> Box:
        nothing = namespace(y).zeros_like(y)
        return Box(y, -cost, cost, nothing + self.epsilon, nothing)

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        errors = abs(y - scores - b) - self.epsilon
        return float(cost @ namespace(errors).clip(errors, 0.0, None))

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        residuals, xp = y - scores, namespace(scores)
        kinks = xp.concatenate([residuals - self.epsilon, residuals + self.epsilon])
        return _flat_point(kinks, xp.concatenate([cost, cost]), -cost.sum())


class Squared(Loss):
    """``cost_i (y_i - f_i)^2``: kernel ridge regression with an intercept, penalty ``1 / (2
    cost)``.
    """

    def box(self, y: Array, cost: Array) -> Box:
        unbounded = _unbounded(cost)
        return Box(y, -unbounded, unbounded, namespace(y).zeros_like(y), _half_inverse(cost))

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        return float(cost @ (y - scores - b) ** 2)

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        return float(cost @ (y - scores) / cost.sum())


class OneClass(Loss):
    """``cost_i max(0, -f_i) + nu sum(cost) b``: at most a share nu of the points ends up outside,
    where f is negative.

    The dual has ``0 <= beta_i <= cost_i`` and ``sum(beta) = nu sum(cost)``, as in OneClassSVM;
    targets are ignored.
    """

    def __init__(self, nu: float = 0.5) -> None:
        if not 0.0 < nu <= 1.0:
            raise ValueError(f"OneClass needs 0 < nu <= 1, got {nu!r}.")
        self.nu = float(nu)

    def box(self, y: Array, cost: Array) -> Box:
        nothing = namespace(y).zeros_like(y)
        return Box(nothing, nothing, cost, nothing, nothing, self.nu * float(cost.sum()))

    def value(self, y: Array, cost: Array, scores: Array, b: float) -> float:
        errors = namespace(scores).clip(-scores - b, 0.0, None)
        return float(cost @ errors + self.nu * cost.sum() * b)

    def intercept(self, y: Array, cost: Array, scores: Array) -> float:
        return _flat_point(-scores, cost, (self.nu - 1.0) * cost.sum())


LOSSES: dict[str, type[Loss]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "hard_margin": HardMargin,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared": Squared,
    "one_class": OneClass,
}


def _half_open(y: Array, bound: Array, ridge: Array) -> Box:
    """The box ``0 <= y_i beta_i <= bound_i`` of labels."""
    return Box(y, *_label_limits(y, bound), namespace(y).zeros_like(y), ridge)


def _label_limits(y: Array, bound: Array) -> tuple[Array, Array]:
    """Lower and upper bounds ``0 <= y_i beta_i <= bound_i`` of the coefficients of labels."""
    xp = namespace(y)
    return xp.where(y > 0, 0.0, -bound), xp.where(y > 0, bound, 0.0)


def _unbounded(cost: Array) -> Array:
    """Infinite bounds of the points that have a cost."""
    return namespace(cost).where(cost > 0, np.inf, 0.0 * cost)


def _half_inverse(cost: Array) -> Array:
    """``1 / (2 cost)``; a point of cost zero has no coefficient, so its ridge does not matter."""
    xp = namespace(cost)
    return xp.where(cost > 0, 0.5 / xp.where(cost > 0, cost, 1.0), 0.0)


def _flat_point(kinks: Array, jumps: Array, slope: float) -> float:
    """The minimizer of a convex piecewise linear function: its slope begins at ``slope`` and jumps
    up at the kinks.
    """
    if isinstance(kinks, np.ndarray):
        return flat_point(kinks, np.asarray(jumps, dtype=float), float(slope))
    kinks, jumps = kinks[jumps > 0.0], jumps[jumps > 0.0]
    order, xp = ascending(kinks), namespace(kinks)
    slopes = xp.cumsum(jumps[order], 0) + slope
    flat = 1e-12 * float(jumps.sum())
    k = min(int(xp.searchsorted(slopes, -flat)), len(order) - 1)
    best = kinks[order[k]]
    if abs(slopes[k]) <= flat and k + 1 < len(order):
        return float(0.5 * (best + kinks[order[k + 1]]))
    return float(best)
