"""Nearest points and proximal maps of norms."""

import numpy as np
from scipy.optimize import brentq

from .base import p_norm


def project_simplex(d):
    """Nearest point of ``{x >= 0, sum(x) = 1}`` (Held, Wolfe and Crowder 1974)."""
    d = d - d.max()  # changes nothing but rounding: of entries of 1e16 a one is not seen
    ordered = np.sort(d)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, d.size + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.maximum(d - threshold, 0.0)


def threshold_by_sum(d, factor):
    """Solve ``x = max(d - factor sum(x), 0)`` for d >= 0."""
    ordered = np.sort(d)[::-1]
    sums = np.cumsum(ordered) / (1.0 + factor * np.arange(1, d.size + 1))
    kept = np.flatnonzero(ordered > factor * sums)
    return np.maximum(d - factor * sums[kept[-1]], 0.0) if kept.size else np.zeros_like(d)


def project_ball(d, p):
    """Nearest point of ``{x >= 0, |x|_p = 1}`` to d outside it, 1 < p < inf.

    Stationarity says ``x + mu x^(p-1) = d``; mu is found by a root search in one dimension.
    """
    largest = d.max()
    mu_low, mu_high = 0.0, largest
    while p_norm(stationary_point(d, p, mu_high), p) > 1.0:
        mu_low, mu_high = mu_high, 10.0 * mu_high
    mu = brentq(
        lambda mu: p_norm(stationary_point(d, p, mu), p) - 1.0,
        mu_low,
        mu_high,
        xtol=1e-14 * mu_high,
        rtol=1e-13,
    )
    return stationary_point(d, p, mu)


def stationary_point(d, p, mu):
    """Solve ``x + mu x^(p-1) = d`` for each entry by Newton's method on a convex function, from
    above.

    For p < 2 the unknown is ``v = x^(p-1)``, in which the equation ``v^(1/(p-1)) + mu v = d`` is
    convex.
    """
    if mu == 0.0:
        return d
    power, linear, highest = (1.0 / (p - 1.0), mu, 1.0) if p < 2.0 else (p - 1.0, 1.0, mu)
    # highest v^power + linear v = d: both terms are at most d at the root
    v = np.minimum(d / linear, (d / highest) ** (1.0 / power))
    for _ in range(60):
        previous = v
        top = highest * v ** (power - 1.0)
        v = np.maximum(v - ((top + linear) * v - d) / (power * top + linear), 0.0)
        if np.abs(v - previous).max() <= 1e-15 * v.max():
            break
    return v**power if p < 2.0 else v
