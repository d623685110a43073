"""Losses: what an SVM minimises besides the norm, and the box of its dual."""

from typing import NamedTuple

import numpy as np


class Box(NamedTuple):
    """The dual of a loss: maximise ``linear' beta - beta' K beta / 2`` over ``lower <= beta <= upper``, ``sum(beta) = 0``."""

    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class Hinge:
    """``cost_i max(0, 1 - y_i f_i)`` for labels y = ±1; ``beta_i = y_i alpha_i``, ``0 <= alpha_i <= cost_i``."""

    def box(self, y, cost):
        """The dual box for targets y and costs, both (n,)."""
        return Box(y, np.where(y > 0, 0.0, -cost), np.where(y > 0, cost, 0.0))

    def value(self, y, cost, f):
        """Total loss of the decision values f."""
        return float(cost @ np.maximum(0.0, 1.0 - y * f))

    def dual_value(self, y, beta):
        """The part of the dual objective that is linear in beta."""
        return float(y @ beta)

    def intercept(self, y, cost, scores):
        """The b that minimises the loss of ``scores + b``; the middle if an interval does.

        The loss is piecewise linear in b with a kink of size cost_i at ``y_i - scores_i``; its slope starts at minus the
        cost of the positive points.
        """
        kinks = y - scores
        order = np.argsort(kinks, kind="stable")
        slope = np.cumsum(cost[order]) - cost[y > 0].sum()
        flat = 1e-12 * cost.sum()
        k = min(int(np.searchsorted(slope, -flat)), order.size - 1)
        best = kinks[order[k]]
        if abs(slope[k]) <= flat and k + 1 < order.size:
            return float(0.5 * (best + kinks[order[k + 1]]))
        return float(best)

    def feasible(self, beta, box):
        """beta moved into the box, with the heavier class scaled down so that the sum is zero."""
        beta = np.clip(beta, box.lower, box.upper)
        positive, negative = beta[beta > 0].sum(), -beta[beta < 0].sum()
        if abs(positive - negative) <= 1e-14 * (positive + negative):
            return beta
        heavier = beta > 0 if positive > negative else beta < 0
        beta[heavier] *= min(positive, negative) / max(positive, negative)
        return beta
