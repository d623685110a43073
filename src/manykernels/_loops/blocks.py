"""Block coordinate descent on groups of features: the closed form of a block, rounds over blocks on
a Gram matrix, and the intercept of a loss.
"""

import numpy as np

from .rbf import fast
from .smo import Bounds

NEWTON_ROUNDS = 60  # of Newton's method for a length, and for an intercept
LENGTH_ERROR = 1e-12  # relative change of a length that is none
UNTRIED = 1e300  # an intercept that was not tried yet


@fast
def shrunk(z: np.ndarray, bends: np.ndarray, threshold: float, out: np.ndarray) -> float:
    """The u (q,) that minimizes ``|u|^2 / 2 + threshold |u| + sum_j bends_j u_j^2 / 2 - z.u``,
    written into out; its length.

    Its direction is known once its length is: ``u_j = z_j length / (length (1 + bends_j) +
    threshold)``, whose length must be that length. One over the length of the ratio is nearly
    linear in it, and Newton's method on that takes a few rounds.
    """
    total = 0.0
    for j in range(z.size):
        total += z[j] ** 2
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
            part = (z[j] / down) ** 2
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
        out[j] = z[j] * length / (length * (1.0 + bends[j]) + threshold)
    return length


@fast
def descend(G: np.ndarray, pull: np.ndarray, x: np.ndarray, error: float, rounds: int) -> int:
    """Block coordinate descent on ``(sum_k |x_k|)^2 / 2 + x' G x / 2`` less what is linear, from x
    (K, j), where the slope of all but the first part is ``-pull``, to its minimizer, written into
    x; the number of rounds.

    The parts of G (K j, K j) that belong to a block are diagonal. Ends when no visit lowers the
    value by more than `error`; `pull` is that of the last x.
    """
    count, size = x.shape
    z, bends, new = np.empty(size), np.empty(size), np.empty(size)
    lengths, total = np.empty(count), 0.0
    for k in range(count):
        squares = 0.0
        for j in range(size):
            squares += x[k, j] ** 2
        lengths[k] = np.sqrt(squares)
        total += lengths[k]
    for done in range(rounds):
        largest = 0.0
        for k in range(count):
            for j in range(size):
                bends[j] = G[k * size + j, k * size + j]
                z[j] = pull[k, j] + bends[j] * x[k, j]
            length = shrunk(z, bends, max(total - lengths[k], 0.0), new)
            total += length - lengths[k]
            lengths[k] = length
            for j in range(size):
                change = new[j] - x[k, j]
                if change != 0.0:
                    largest = max(largest, (1.0 + bends[j]) * change * change)
                    x[k, j] = new[j]
                    row = G[k * size + j]
                    for other in range(count):
                        for i in range(size):
                            pull[other, i] -= change * row[other * size + i]
        if largest <= error:
            return done + 1
    return rounds


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
