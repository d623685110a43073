"""The model of quasi-Newton descent in the roots of the weights, for p-norms of the weights."""

import numpy as np

from .rbf import fast


@fast
def _slopes(x, strength, p, out):
    """The penalty of the weights ``d = x^2``, and its slopes by these: ``strength sum(d)`` for a p
    of zero, ``strength / 2 |d|_p^2`` else.
    """
    largest, total = 0.0, 0.0
    for i in range(x.size):
        out[i] = strength
        total += strength * x[i] * x[i]
        largest = max(largest, x[i] * x[i])
    if p == 0.0:
        return total
    if largest == 0.0:
        out[:] = 0.0
        return 0.0
    total = 0.0
    for i in range(x.size):
        total += (x[i] * x[i] / largest) ** p
    norm = largest * total ** (1.0 / p)
    for i in range(x.size):
        out[i] = strength * norm * (x[i] * x[i] / norm) ** (p - 1.0)
    return 0.5 * strength * norm * norm


@fast
def _solve(H, x):
    """``H^-1 x`` in its place, and the Cholesky factor in that of H; False if there is none."""
    for i in range(x.size):
        for j in range(i + 1):
            total = H[i, j]
            for k in range(j):
                total -= H[i, k] * H[j, k]
            if j < i:
                H[i, j] = total / H[j, j]
            elif total > 0.0:
                H[i, i] = np.sqrt(total)
            else:
                return False
        total = x[i]
        for k in range(i):
            total -= H[i, k] * x[k]
        x[i] = total / H[i, i]
    for i in range(x.size - 1, -1, -1):
        for k in range(i + 1, x.size):
            x[i] -= H[k, i] * x[k]
        x[i] /= H[i, i]
    return True


@fast
def _newton_step(x, slope, B, by_weights, strength, p, step):
    """The step of Newton's method by the variables that may move; False if there is none."""
    m, count = x.size, 0
    free = np.empty(m, np.int64)
    for i in range(m):
        step[i] = 0.0
        if x[i] > 0.0 or slope[i] < 0.0:
            free[count] = i
            count += 1
    H, part = np.empty((count, count)), np.empty(count)
    norm = 0.0  # that of the weights, of which d'r' = strength |d|_p^2
    for i in range(m):
        norm += x[i] * x[i] * by_weights[i] / strength
    factor = 4.0 * (2.0 - p) / (strength * norm) if p > 0.0 and norm > 0.0 else 0.0
    for a in range(count):
        i = free[a]
        part[a] = -slope[i]
        for b in range(a + 1):
            j = free[b]
            H[a, b] = B[i, j] + factor * x[i] * by_weights[i] * x[j] * by_weights[j]
        H[a, a] += (2.0 + (4.0 * (p - 1.0) if p > 0.0 and x[i] > 0.0 else 0.0)) * by_weights[i]
    if not _solve(H, part):
        return False
    for a in range(count):
        step[free[a]] = part[a]
    return True


@fast
def minimize_model(start, smooth, B, strength, p, steps, accuracy, decrease, trials):
    """The minimizer of ``smooth'(x - start) + (x - start)'B (x - start) / 2`` and the penalty over
    all x that are not negative, by projected steps of Newton's method.

    Parameters
    ----------
    start, smooth : (m,) arrays
    B : (m, m) array
    strength, p : float
        Of the penalty, as for `_slopes`.
    steps, trials : int
    accuracy : float
        Part of the gain so far, below which steps end it.
    decrease : float
        Part of the promised decrease that a step must reach.
    """
    m = start.size
    x, found, step, slope = start.copy(), np.empty(m), np.empty(m), np.empty(m)
    bent, bent_there, by_weights, slopes_there = np.zeros(m), np.empty(m), np.empty(m), np.empty(m)
    value, total = _slopes(x, strength, p, by_weights), 0.0
    for _ in range(steps):
        left, largest = 0.0, 0.0
        for i in range(m):
            slope[i] = smooth[i] + bent[i] + 2.0 * x[i] * by_weights[i]
            largest = max(largest, x[i])
            if x[i] > 0.0 or slope[i] < 0.0:
                left += abs(slope[i])
        if left * (largest if largest > 0.0 else 1.0) <= accuracy * total:
            break
        if not _newton_step(x, slope, B, by_weights, strength, p, step):
            break
        size, gain = 1.0, 0.0
        for _ in range(trials):
            promised, there = 0.0, 0.0
            for i in range(m):
                found[i] = max(x[i] + size * step[i], 0.0)
                promised += slope[i] * (found[i] - x[i])
            for i in range(m):
                bent_there[i] = 0.0
                for j in range(m):
                    bent_there[i] += B[i, j] * (found[j] - start[j])
                there += (smooth[i] + 0.5 * bent_there[i]) * (found[i] - start[i])
            there += _slopes(found, strength, p, slopes_there)
            if there <= value + decrease * promised:
                gain = value - there
                break
            size *= 0.5
        else:
            break
        x[:], bent[:], by_weights[:], value = found, bent_there, slopes_there, there
        total += gain
        if gain <= accuracy * total:
            break
    return x
