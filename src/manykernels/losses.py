"""Losses: what a machine minimizes besides the norm, and the box of its dual.

Every loss leads to the same dual problem (`Box`), so one machine solves them all. In signed
coefficients beta,

    min_{f, b}  |f|^2 / 2 + loss(f + b)   =   max_beta  linear' beta - kink' |beta| - ridge' beta^2
    / 2 - beta' K beta / 2

over ``lower <= beta <= upper`` and ``sum(beta) = total``, which is what the intercept asks for. The
logistic loss adds a strictly concave function of beta that is not quadratic, its `curve`.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ._arrays import ascending, namespace, special_functions
from ._loops.smo import Bounds

UNBOUNDED = 1e300  # as good as infinite for loops that are compiled without infinities
SMALLEST, ROUNDING = 1e-300, 2.0**-53  # shares of a cost that are not zero, and not the whole
FLATTEST = 1e-10  # curvature of a loss, as a part of its cost: less is of no use in an equation
LEVELED = 1e-15  # error of a sum of coefficients, as a part of the costs
ROUNDS = 200  # that make the sum so
NEVER = 800.0  # decision value at which an error is so unlikely that its loss is zero


class Entropy(NamedTuple):
    """The dual of the logistic loss for labels y = ±1 and costs, (n,) both: with ``alpha_i = y_i
    beta_i`` in ``[0, cost_i]``,

        cost_i H(alpha_i / cost_i),    H(t) = -t log t - (1 - t) log(1 - t).

    Its slope is the decision value that belongs to a coefficient, ``y_i log((cost_i - alpha_i) /
    alpha_i)``, and the other way round ``alpha_i = cost_i / (1 + exp(y_i f_i))`` belongs to the
    decision value f_i.
    """

    y: np.ndarray
    cost: np.ndarray

    def value(self, beta):
        """The function at coefficients in their box."""
        share, special = self._shares(beta), special_functions(beta)
        return float(self.cost @ (special.entr(share) - special.xlog1py(1.0 - share, -share)))

    def slopes(self, beta):
        """Decision values of coefficients, (n,); large but finite at the ends of the box, and zero
        without a cost.
        """
        xp = namespace(beta)
        share = xp.clip(self._shares(beta), SMALLEST, 1.0 - ROUNDING)
        return xp.where(self.cost > 0.0, self.y * (xp.log1p(-share) - xp.log(share)), 0.0)

    def doubts(self, beta):
        """How much rounding of the coefficients may have changed the slopes, (n,)."""
        return ROUNDING / np.maximum(1.0 - self._shares(beta), ROUNDING)

    def response(self, f):
        """Coefficients at decision values, and the curvature of the loss there, (n,) both."""
        unlikely = special_functions(f).expit(-self.y * f)
        return self.y * self.cost * unlikely, self.cost * unlikely * (1.0 - unlikely)

    def loss(self, f, b=0.0):
        """Total loss of the decision values f; that b of them is the intercept costs nothing."""
        xp, margins = namespace(f), self.y * f
        return float(self.cost @ (xp.log1p(xp.exp(-abs(margins))) - xp.clip(margins, None, 0.0)))

    def level(self, f, total=0.0):
        """The shift of decision values after which their coefficients have a sum."""
        used = f[self.cost > 0.0]
        ahead = float(self.cost[self.y > 0].sum()) - total
        behind = float(self.cost[self.y < 0].sum()) + total
        if behind <= 0.0:  # one class alone: no intercept is too large
            return NEVER - (min(0.0, float(used.min())) if len(used) else 0.0)
        if ahead <= 0.0:
            return -NEVER - (max(0.0, float(used.max())) if len(used) else 0.0)
        # if all decision values were the same, the shift would make them the odds
        odds = float(np.log(ahead) - np.log(behind))
        low, high = odds - float(used.max()), odds - float(used.min())
        shift, enough = 0.5 * (low + high), LEVELED * (ahead + behind)
        for _ in range(ROUNDS):
            beta, bends = self.response(f + shift)
            excess = float(beta.sum()) - total
            if abs(excess) <= enough or high - low <= LEVELED * (abs(low) + abs(high)):
                break
            low, high = (shift, high) if excess > 0.0 else (low, shift)
            newton = shift + excess / max(float(bends.sum()), SMALLEST)
            shift = newton if low < newton < high else 0.5 * (low + high)
        return shift

    def take_points(self, chosen):
        """The same for some of the points."""
        return Entropy(self.y[chosen], self.cost[chosen])

    def _shares(self, beta):
        xp = namespace(beta)
        cost = xp.where(self.cost > 0.0, self.cost, 1.0)
        return xp.clip(self.y * beta / cost, 0.0, 1.0)


class Box(NamedTuple):
    """The dual of a loss for n points; all (n,) arrays but the total, and the curve if there is
    one.
    """

    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray
    total: float = 0.0
    curve: Entropy | None = None

    @property
    def free(self):
        """Whether there are no bounds and no kinks, so that the dual is a linear system."""
        xp = namespace(self.kink)
        return not self.kink.any() and bool(
            xp.isinf(self.lower).all() and xp.isinf(self.upper).all()
        )

    def around(self, beta):
        """The box with the quadratic model of its curve around coefficients: itself without one.

        Its maximizer may lie outside of the bounds, but ``linear - ridge beta`` is then a model of
        the decision values, and the `response` to them is inside.
        """
        if self.curve is None:
            return self
        cost, slopes = self.curve.cost, self.curve.slopes(beta)
        bends = np.maximum(self.curve.response(slopes)[1], FLATTEST * cost)
        ridge = 1.0 / np.where(cost > 0.0, bends, 1.0)
        linear, ridge = self.linear + slopes + ridge * beta, self.ridge + ridge
        return self._replace(linear=linear, ridge=ridge, curve=None)

    def bounds(self, chosen=slice(None)):
        """What compiled loops take of some of the variables: very large numbers for infinite
        bounds.
        """
        return Bounds(
            lower=np.maximum(self.lower[chosen], -UNBOUNDED),
            upper=np.minimum(self.upper[chosen], UNBOUNDED),
            kink=self.kink[chosen],
            ridge=self.ridge[chosen],
        )

    def take_points(self, chosen):
        """The same for some of the points, whose coefficients sum to what they do."""
        arrays = (array[chosen] for array in self[:5])
        curve = None if self.curve is None else self.curve.take_points(chosen)
        return Box(*arrays, total=self.total, curve=curve)

    def sides(self, beta, F):
        """Slopes of the dual for a move up and for a move down of each variable, -inf and inf where
        it may not move.

        F is minus the gradient of the quadratic part. At the optimum no slope up exceeds any slope
        down.
        """
        if self.curve is not None:
            slopes, doubts = self.curve.slopes(beta) - F, self.curve.doubts(beta)
            up = np.where(beta < self.upper, slopes - doubts, -np.inf)
            return up, np.where(beta > self.lower, slopes + doubts, np.inf)
        up = np.where(beta < self.upper, -F - np.where(beta >= 0.0, self.kink, -self.kink), -np.inf)
        down = np.where(
            beta > self.lower, -F + np.where(beta <= 0.0, self.kink, -self.kink), np.inf
        )
        return up, down

    def value(self, beta):
        """The dual objective without its part from the kernels."""
        value = self.linear @ beta - self.kink @ abs(beta) - 0.5 * (self.ridge @ beta**2)
        return float(value) + (0.0 if self.curve is None else self.curve.value(beta))

    def slope(self, beta, change):
        """The slope of the value along a change of beta."""
        slopes = self.linear - self.kink * namespace(beta).sign(beta) - self.ridge * beta
        if self.curve is not None:
            slopes = slopes + self.curve.slopes(beta)
        return float(slopes @ change)

    def unit(self):
        """Half the violation at zero coefficients: one for labels, half the spread of the targets
        for regression.
        """
        if self.curve is not None:  # whose slopes there are infinite, and natural units elsewhere
            return 1.0
        up, down = self.sides(np.zeros(self.linear.size), -self.linear)
        violation = float(up.max() - down.min())
        return 0.5 * violation if np.isfinite(violation) and violation > 0.0 else 1.0

    def widths(self, beta):
        """How far each coefficient may move: a violation of v costs up to v times their sum in the
        gap.
        """
        widths, xp = self.upper - self.lower, namespace(beta)
        return xp.where(xp.isfinite(widths), widths, 2.0 * abs(beta) + 1.0)

    @property
    def squares(self):
        """A violation of v costs up to this times its square, where a loss bends; zero if it does
        not.
        """
        if self.curve is not None:
            return float(self.curve.cost.sum()) / 8.0
        return float(np.sum(0.5 / self.ridge[self.ridge > 0.0]))

    def steepness(self, beta):
        """What an error of one in every decision value may cost, about (n,)."""
        if self.curve is not None:
            return abs(beta)
        return namespace(beta).where(beta != 0.0, self.widths(beta), 0.0)

    def feasible(self, beta):
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


def _filled(beta, upper, missing):
    """Add what is missing, point after point."""
    room, xp = upper - beta, namespace(beta)
    before = xp.cumsum(room, 0) - room
    return beta + xp.clip(xp.clip(missing - before, 0.0, None), None, room)


class Loss(ABC):
    """A convex loss of decision values ``scores + b`` for targets y, with one cost per point."""

    separates = False
    """Whether targets are labels of ±1."""

    capped = False
    """Whether a label's coefficients are bounded by its costs."""

    can_be_infinite = False
    """Whether no error at all is allowed."""

    has_nonquadratic_dual = False
    """Whether the dual is not quadratic: its boxes have a curve."""

    @abstractmethod
    def box(self, y, cost):
        """The dual box for targets y and costs, both (n,)."""

    @abstractmethod
    def value(self, y, cost, scores, b):
        """Total loss of the decision values ``scores + b``."""

    @abstractmethod
    def intercept(self, y, cost, scores):
        """The b that minimizes the loss; the middle if an interval does."""

    @property
    def is_smooth(self):
        """Whether the loss has no corners: its curvature is nowhere infinite."""
        one = np.ones(1)
        return self.has_nonquadratic_dual or bool(self.box(one, one).ridge[0] > 0.0)

    def factor(self, y, cost, scores, b):
        """A factor on ``scores + b`` that makes a loss finite which can be infinite."""
        return 1.0

    def __repr__(self):
        given = ", ".join(f"{name}={value:g}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"


class Hinge(Loss):
    """``cost_i max(0, 1 - y_i f_i)`` for labels y = ±1; ``beta_i = y_i alpha_i``, ``0 <= alpha_i <=
    cost_i``.
    """

    separates = capped = True

    def box(self, y, cost):
        return _half_open(y, cost, namespace(y).zeros_like(y))

    def value(self, y, cost, scores, b):
        return float(cost @ namespace(scores).clip(1.0 - y * (scores + b), 0.0, None))

    def intercept(self, y, cost, scores):
        return _flat_point(y - scores, cost, -cost[y > 0].sum())


class SquaredHinge(Loss):
    """``cost_i max(0, 1 - y_i f_i)^2`` for labels y = ±1, as in scikit-learn's LinearSVC."""

    separates = True

    def box(self, y, cost):
        return _half_open(y, _unbounded(cost), _half_inverse(cost))

    def value(self, y, cost, scores, b):
        return float(cost @ namespace(scores).clip(1.0 - y * (scores + b), 0.0, None) ** 2)

    def intercept(self, y, cost, scores):
        # the slope in b grows, and is linear between the kinks y - scores: Newton's method on it
        # ends where the points that pull stay the same
        kinks, used = y - scores, cost > 0.0
        low, high = (float(kinks[used].min()), float(kinks[used].max())) if used.any() else (0, 0)
        best = float(cost @ kinks / cost.sum()) if used.any() else 0.0
        for _ in range(ROUNDS):
            weight = _pull(kinks, y, cost, best)
            total = float(weight.sum())
            if total == 0.0:
                return _between(kinks, y, used, low, high)
            newton = float(weight @ kinks) / total
            if newton == best:
                break
            low, high = (low, best) if newton < best else (best, high)
            if high - low <= LEVELED * (abs(low) + abs(high)):
                break
            best = newton if low < newton < high else 0.5 * (low + high)
        return best


def _pull(kinks, y, cost, b):
    """Costs of the points on the wrong side of their margin at this intercept."""
    return cost * namespace(kinks).where(y > 0, kinks > b, kinks < b)


def _between(kinks, y, used, low, high):
    """The middle of the intercepts at which no point is on the wrong side."""
    below, above = kinks[used & (y > 0)], kinks[used & (y < 0)]
    low = float(below.max()) if len(below) else low
    high = float(above.min()) if len(above) else high
    return 0.5 * (low + high)


class Logistic(Loss):
    """``cost_i log(1 + exp(-y_i f_i))`` for labels y = ±1: decision values are log-odds.

    With ``beta_i = y_i alpha_i`` the problem and its dual are, at weights d of the kernels,

        min_{beta, b}  beta' K_d beta / 2 + sum_i cost_i log(1 + exp(-y_i (K_d beta + b)_i))
        max_beta  sum_i cost_i H(alpha_i / cost_i) - beta' K_d beta / 2

    over ``0 <= alpha_i <= cost_i`` and ``sum(beta) = 0``, with the entropy ``H(t) = -t log t - (1 -
    t) log(1 - t)``; over the weights too, the dual ends in ``- phi(s(beta))``. At the optimum
    ``alpha_i = cost_i / (1 + exp(y_i f_i))``: a share of the cost, the probability of an error. No
    coefficient is zero or at its bound, so that all points with a cost are support vectors.
    """

    separates = capped = has_nonquadratic_dual = True

    def box(self, y, cost):
        nothing = namespace(y).zeros_like(y)
        return _half_open(y, cost, nothing)._replace(linear=nothing, curve=Entropy(y, cost))

    def value(self, y, cost, scores, b):
        return Entropy(y, cost).loss(scores + b)

    def intercept(self, y, cost, scores):
        return Entropy(y, cost).level(scores)


class HardMargin(Loss):
    """No error at all: zero if ``y_i f_i >= 1`` for every point that has a cost, else infinite; for
    labels y = ±1.
    """

    separates = can_be_infinite = True

    def box(self, y, cost):
        return _half_open(y, _unbounded(cost), namespace(y).zeros_like(y))

    def value(self, y, cost, scores, b):
        return 0.0 if np.min((y * (scores + b))[cost > 0]) >= 1.0 - 1e-9 else np.inf

    def intercept(self, y, cost, scores):
        used = cost > 0
        return -0.5 * float(scores[used & (y > 0)].min() + scores[used & (y < 0)].max())

    def factor(self, y, cost, scores, b):
        margin = float(np.min((y * (scores + b))[cost > 0]))
        return 1.0 / margin if margin > 0.0 else 1.0


class EpsilonInsensitive(Loss):
    """``cost_i max(0, |y_i - f_i| - epsilon)``: support vector regression."""

    def __init__(self, epsilon=0.1):
        if not epsilon >= 0.0:
            raise ValueError(f"EpsilonInsensitive needs epsilon >= 0, got {epsilon!r}.")
        self.epsilon = float(epsilon)

    def box(self, y, cost):
        nothing = namespace(y).zeros_like(y)
        return Box(y, -cost, cost, nothing + self.epsilon, nothing)

    def value(self, y, cost, scores, b):
        errors = abs(y - scores - b) - self.epsilon
        return float(cost @ namespace(errors).clip(errors, 0.0, None))

    def intercept(self, y, cost, scores):
        residuals, xp = y - scores, namespace(scores)
        kinks = xp.concatenate([residuals - self.epsilon, residuals + self.epsilon])
        return _flat_point(kinks, xp.concatenate([cost, cost]), -cost.sum())


class Squared(Loss):
    """``cost_i (y_i - f_i)^2``: kernel ridge regression with an intercept, penalty ``1 / (2
    cost)``.
    """

    def box(self, y, cost):
        unbounded = _unbounded(cost)
        return Box(y, -unbounded, unbounded, namespace(y).zeros_like(y), _half_inverse(cost))

    def value(self, y, cost, scores, b):
        return float(cost @ (y - scores - b) ** 2)

    def intercept(self, y, cost, scores):
        return float(cost @ (y - scores) / cost.sum())


class OneClass(Loss):
    """``cost_i max(0, -f_i) + nu sum(cost) b``: at most a share nu of the points ends up outside,
    where f is negative.

    The dual has ``0 <= beta_i <= cost_i`` and ``sum(beta) = nu sum(cost)``, as in OneClassSVM;
    targets are ignored.
    """

    def __init__(self, nu=0.5):
        if not 0.0 < nu <= 1.0:
            raise ValueError(f"OneClass needs 0 < nu <= 1, got {nu!r}.")
        self.nu = float(nu)

    def box(self, y, cost):
        nothing = namespace(y).zeros_like(y)
        return Box(nothing, nothing, cost, nothing, nothing, self.nu * float(cost.sum()))

    def value(self, y, cost, scores, b):
        errors = namespace(scores).clip(-scores - b, 0.0, None)
        return float(cost @ errors + self.nu * cost.sum() * b)

    def intercept(self, y, cost, scores):
        return _flat_point(-scores, cost, (self.nu - 1.0) * cost.sum())


LOSSES = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "logistic": Logistic,
    "hard_margin": HardMargin,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared": Squared,
    "one_class": OneClass,
}


def _half_open(y, bound, ridge):
    """The box ``0 <= y_i beta_i <= bound_i`` of labels."""
    xp = namespace(y)
    lower, upper = xp.where(y > 0, 0.0, -bound), xp.where(y > 0, bound, 0.0)
    return Box(y, lower, upper, xp.zeros_like(y), ridge)


def _unbounded(cost):
    """Infinite bounds of the points that have a cost."""
    return namespace(cost).where(cost > 0, np.inf, 0.0 * cost)


def _half_inverse(cost):
    """``1 / (2 cost)``; a point of cost zero has no coefficient, so its ridge does not matter."""
    xp = namespace(cost)
    return xp.where(cost > 0, 0.5 / xp.where(cost > 0, cost, 1.0), 0.0)


def _flat_point(kinks, jumps, slope):
    """Where a convex piecewise linear function is smallest: its slope begins at ``slope`` and jumps
    up at the kinks.
    """
    kinks, jumps = kinks[jumps > 0.0], jumps[jumps > 0.0]
    order, xp = ascending(kinks), namespace(kinks)
    slopes = xp.cumsum(jumps[order], 0) + slope
    flat = 1e-12 * float(jumps.sum())
    k = min(int(xp.searchsorted(slopes, -flat)), len(order) - 1)
    best = kinks[order[k]]
    if abs(slopes[k]) <= flat and k + 1 < len(order):
        return float(0.5 * (best + kinks[order[k + 1]]))
    return float(best)
