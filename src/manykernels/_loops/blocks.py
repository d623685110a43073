"""Block coordinate descent on groups of features, besides two products: the closed form of a block,
and the intercept after it.
"""

import numpy as np

from .rbf import fast
from .smo import Bounds

NEWTON_ROUNDS = 60  # of Newton's method for a length, and for an intercept
LENGTH_ERROR = 1e-12  # relative change of a length that is none
UNTRIED = 1e300  # an intercept that was not tried yet


@fast
def shrunk(z: np.ndarray, bends: np.ndarray, threshold: float, out: np.ndarray) -> float:
    """The u (t, q) that minimizes ``|u|^2 / 2 + threshold |u| + sum_j bends_j |u_j|^2 / 2 - z.u``,
    written into out; its length.

    Its direction is known once its length is: ``u_j = z_j length / (length (1 + bends_j) +
    threshold)``, whose length must be that length. One over the length of the ratio is nearly
    linear in it, and Newton's method on that takes a few rounds.
    """
    total = 0.0
    for c in range(z.shape[0]):
        for j in range(z.shape[1]):
            total += z[c, j] ** 2
    if total <= threshold * threshold:
        out[:] = 0.0
        return 0.0
    steepest = 0.0
    for j in range(bends.size):
        steepest = max(steepest, bends[j])
    # the length is between those for the largest and for no bend at all
    low = (np.sqrt(total) - threshold) / (1.0 + steepest)
    high = np.sqrt(total) - threshold
    length = low
    for _ in range(NEWTON_ROUNDS):
        squares = slope = 0.0
        for j in range(bends.size):
            bend = 1.0 + bends[j]
            down = bend * length + threshold
            for c in range(z.shape[0]):
                part = (z[c, j] / down) ** 2
                squares += part
                slope += part * bend / down
        if squares > 1.0:
            low = length
        else:
            high = length
        root = np.sqrt(squares)
        new = length + (root - 1.0) * squares / slope
        if not low <= new <= high:
            new = 0.5 * (low + high)
        done = abs(new - length) <= LENGTH_ERROR * new
        length = new
        if done:
            break
    for j in range(bends.size):
        down = length * (1.0 + bends[j]) + threshold
        for c in range(z.shape[0]):
            out[c, j] = z[c, j] * length / down
    return length


@fast
def respond(
    linear: np.ndarray, bounds: Bounds, f: np.ndarray, b: float, beta: np.ndarray
) -> tuple[float, float, float]:
    """Coefficients of points at decision values ``f + b``, into beta; their sum, the sum of their
    sizes and that of the bends of the loss.
    """
    total = sizes = bending = 0.0
    for i in range(f.size):
        pull = linear[i] - f[i] - b
        if pull > bounds.kink[i]:
            free = (pull - bounds.kink[i]) / bounds.ridge[i]
        elif pull < -bounds.kink[i]:
            free = (pull + bounds.kink[i]) / bounds.ridge[i]
        else:
            free = 0.0
        value = min(max(free, bounds.lower[i]), bounds.upper[i])
        inside = value == free and (bounds.kink[i] == 0.0 or value != 0.0)
        if inside and bounds.upper[i] > bounds.lower[i]:
            bending += 1.0 / bounds.ridge[i]
        beta[i] = value
        total += value
        sizes += abs(value)
    return total, sizes, bending


@fast
def leveled(
    linear: np.ndarray,
    bounds: Bounds,
    f: np.ndarray,
    b: float,
    total: float,
    enough: float,
    beta: np.ndarray,
) -> float:
    """The intercept at which the coefficients, written into beta, have a sum; to a part of the sum
    of their sizes.

    The sum falls as the intercept grows, in straight pieces: Newton's method, kept between an
    intercept that is too small and one that is too large.
    """
    low, high, step = -UNTRIED, UNTRIED, 1.0
    for _ in range(NEWTON_ROUNDS):
        found, sizes, bending = respond(linear, bounds, f, b, beta)
        excess = found - total
        if abs(excess) <= enough * (sizes + abs(total)):
            break
        if excess > 0.0:
            low = b
        else:
            high = b
        new = b + excess / bending if bending > 0.0 else b
        if not low < new < high:
            if low > -UNTRIED and high < UNTRIED:
                new = 0.5 * (low + high)
            else:  # all at their bounds, and nothing on the other side yet
                new = b + step if excess > 0.0 else b - step
                step *= 4.0
        b = new
    return b
