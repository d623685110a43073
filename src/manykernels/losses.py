"""Losses: what a machine minimizes besides the norm, and the box of its dual.

Every loss leads to the same dual problem (`Box`), so one machine solves them all. In signed
coefficients beta,

    min_{f, b}  |f|^2 / 2 + loss(f + b)   =   max_beta  linear' beta - kink' |beta| - ridge' beta^2
    / 2 - beta' K beta / 2

over ``lower <= beta <= upper`` and ``sum(beta) = total``, which is what the intercept asks for.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ._loops.smo import Bounds

UNBOUNDED = 1e300  # as good as infinite for loops that are compiled without infinities


class Box(NamedTuple):
    """The dual of a loss for n points; all (n,) arrays but the total."""

    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray
    total: float = 0.0

    @property
    def free(self):
        """Whether there are no bounds and no kinks, so that the dual is a linear system."""
        return not self.kink.any() and bool(
            np.isinf(self.lower).all() and np.isinf(self.upper).all()
        )

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

    def sides(self, beta, F):
        """Slopes of the dual for a move up and for a move down of each variable, -inf and inf where
        it may not move.

        F is minus the gradient of the smooth part. At the optimum no slope up exceeds any slope
        down.
        """
        up = np.where(beta < self.upper, -F - np.where(beta >= 0.0, self.kink, -self.kink), -np.inf)
        down = np.where(
            beta > self.lower, -F + np.where(beta <= 0.0, self.kink, -self.kink), np.inf
        )
        return up, down

    def value(self, beta):
        """The dual objective without its part from the kernels."""
        return float(
            self.linear @ beta - self.kink @ np.abs(beta) - 0.5 * self.ridge @ np.square(beta)
        )

    def slope(self, beta, change):
        """The slope of the value along a change of beta."""
        return float((self.linear - self.kink * np.sign(beta) - self.ridge * beta) @ change)

    def unit(self):
        """Half the violation at zero coefficients: one for labels, half the spread of the targets
        for regression.
        """
        up, down = self.sides(np.zeros(self.linear.size), -self.linear)
        violation = float(up.max() - down.min())
        return 0.5 * violation if np.isfinite(violation) and violation > 0.0 else 1.0

    def widths(self, beta):
        """How far each coefficient may move: a violation of v costs up to v times their sum in the
        gap.
        """
        widths = self.upper - self.lower
        return np.where(np.isfinite(widths), widths, 2.0 * np.abs(beta) + 1.0)

    def feasible(self, beta):
        """beta moved into the box and onto the right sum; a no-op for feasible ones."""
        beta = np.clip(beta, self.lower, self.upper)
        positive, negative = beta[beta > 0].sum(), -beta[beta < 0].sum()
        excess = positive - negative - self.total
        if abs(excess) <= 1e-14 * (positive + negative + abs(self.total)):
            return beta
        if self.total > 0.0 and excess < 0.0:
            return _filled(beta, self.upper, -excess)
        # the heavier side gives way, so that zeros stay zeros
        heavier, weight = (beta > 0, positive) if excess > 0 else (beta < 0, negative)
        beta[heavier] *= 1.0 - abs(excess) / weight
        return beta


def _filled(beta, upper, missing):
    """Add what is missing, point after point."""
    room = upper - beta
    before = np.cumsum(room) - room
    return beta + np.clip(missing - before, 0.0, room)


class Loss(ABC):
    """A convex loss of decision values ``scores + b`` for targets y, with one cost per point."""

    separates = False
    """Whether targets are labels of ±1."""

    capped = False
    """Whether a label's coefficients are bounded by its costs."""

    can_be_infinite = False
    """Whether no error at all is allowed."""

    @abstractmethod
    def box(self, y, cost):
        """The dual box for targets y and costs, both (n,)."""

    @abstractmethod
    def value(self, y, cost, scores, b):
        """Total loss of the decision values ``scores + b``."""

    @abstractmethod
    def intercept(self, y, cost, scores):
        """The b that minimizes the loss; the middle if an interval does."""

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
        return _half_open(y, cost, np.zeros(y.size))

    def value(self, y, cost, scores, b):
        return float(cost @ np.maximum(0.0, 1.0 - y * (scores + b)))

    def intercept(self, y, cost, scores):
        return _flat_point(y - scores, cost, -cost[y > 0].sum())


class SquaredHinge(Loss):
    """``cost_i max(0, 1 - y_i f_i)^2`` for labels y = ±1, as in scikit-learn's LinearSVC."""

    separates = True

    def box(self, y, cost):
        return _half_open(y, np.where(cost > 0, np.inf, 0.0), _half_inverse(cost))

    def value(self, y, cost, scores, b):
        return float(cost @ np.square(np.maximum(0.0, 1.0 - y * (scores + b))))

    def intercept(self, y, cost, scores):
        # the slope in b grows, and is linear between the kinks y - scores: bisect on their order,
        # then solve
        kinks = y - scores
        ordered = np.unique(kinks)
        low, high = 0, ordered.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            rising = _pull(kinks, y, cost, ordered[middle]) @ (ordered[middle] - kinks) > 0.0
            low, high = (low, middle) if rising else (middle, high)
        weight = _pull(kinks, y, cost, 0.5 * (ordered[low] + ordered[high]))
        best = (
            weight @ kinks / weight.sum() if weight.any() else 0.5 * (ordered[low] + ordered[high])
        )
        return float(np.clip(best, ordered[low], ordered[high]))


def _pull(kinks, y, cost, b):
    """Costs of the points on the wrong side of their margin at this intercept."""
    return cost * np.where(y > 0, kinks > b, kinks < b)


class HardMargin(Loss):
    """No error at all: zero if ``y_i f_i >= 1`` for every point that has a cost, else infinite; for
    labels y = ±1.
    """

    separates = can_be_infinite = True

    def box(self, y, cost):
        return _half_open(y, np.where(cost > 0, np.inf, 0.0), np.zeros(y.size))

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
        return Box(y, -cost, cost, np.full(y.size, self.epsilon), np.zeros(y.size))

    def value(self, y, cost, scores, b):
        return float(cost @ np.maximum(0.0, np.abs(y - scores - b) - self.epsilon))

    def intercept(self, y, cost, scores):
        residuals = y - scores
        kinks = np.concatenate([residuals - self.epsilon, residuals + self.epsilon])
        return _flat_point(kinks, np.concatenate([cost, cost]), -cost.sum())


class Squared(Loss):
    """``cost_i (y_i - f_i)^2``: kernel ridge regression with an intercept, penalty ``1 / (2
    cost)``.
    """

    def box(self, y, cost):
        unbounded = np.where(cost > 0, np.inf, 0.0)
        return Box(y, -unbounded, unbounded, np.zeros(y.size), _half_inverse(cost))

    def value(self, y, cost, scores, b):
        return float(cost @ np.square(y - scores - b))

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
        nothing = np.zeros(y.size)
        return Box(nothing, nothing, cost, nothing, nothing, self.nu * float(cost.sum()))

    def value(self, y, cost, scores, b):
        return float(cost @ np.maximum(0.0, -scores - b) + self.nu * cost.sum() * b)

    def intercept(self, y, cost, scores):
        return _flat_point(-scores, cost, (self.nu - 1.0) * cost.sum())


LOSSES = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "hard_margin": HardMargin,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared": Squared,
    "one_class": OneClass,
}


def _half_open(y, bound, ridge):
    """The box ``0 <= y_i beta_i <= bound_i`` of labels."""
    return Box(
        y, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0), np.zeros(y.size), ridge
    )


def _half_inverse(cost):
    """``1 / (2 cost)``; a point of cost zero has no coefficient, so its ridge does not matter."""
    return np.divide(0.5, cost, out=np.zeros_like(cost), where=cost > 0)


def _flat_point(kinks, jumps, slope):
    """Where a convex piecewise linear function is smallest: its slope begins at ``slope`` and jumps
    up at the kinks.
    """
    kinks, jumps = kinks[jumps > 0.0], jumps[jumps > 0.0]
    order = np.argsort(kinks, kind="stable")
    slopes = np.cumsum(jumps[order]) + slope
    flat = 1e-12 * jumps.sum()
    k = min(int(np.searchsorted(slopes, -flat)), order.size - 1)
    best = kinks[order[k]]
    if abs(slopes[k]) <= flat and k + 1 < order.size:
        return float(0.5 * (best + kinks[order[k + 1]]))
    return float(best)
