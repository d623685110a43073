"""SMO-MKL: ascent on the dual of a sum of kernels, two variables at a time.

``D(beta) = linear' beta - phi(s(beta))`` with ``s_k = sum_c beta_c' K_k beta_c``. Moving ``beta_i``
up and ``beta_j`` down by x makes every form a parabola, ``s_k + 2 b_k x + a_k x^2``, so the best x
is the root of a decreasing function of one variable.

An update is two sweeps over arrays of m rows: one over the column of i and the products for the
second-order choice of j, one over the columns of i and j that updates products and gradient
together. Rows are handled by small functions on contiguous slices, which is what the compiler
vectorizes.
"""

from typing import NamedTuple

import numpy as np

from .conjugates import SQUARED, Law, respond
from .rbf import fast
from .smo import BARRED, Bounds, bar, move_down, move_up, position_of_max, room_down, room_up

# Updates between exact diagonals of the combined kernel, which only guide the choice of j: more are
# cheaper, and choose worse.
STEPS_PER_DIAGONAL = 32
SEARCH_ROUNDS = 60  # of the search for the length of a step


class Ascent(NamedTuple):
    """State of the ascent; all arrays are updated in place.

    Attributes
    ----------
    beta, F : (t, n) coefficients, and minus the gradient: ``sum_k d_k K_k beta_c + ridge beta_c -
    linear_c``
    linear, lower, upper, kink, ridge : (t, n), see `manykernels.losses.Box`
    products : (m, t, n)
    forms, weights : (m,)
    diagonals : (m, n) of every kernel
    """

    beta: np.ndarray
    F: np.ndarray
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray
    products: np.ndarray
    forms: np.ndarray
    weights: np.ndarray
    diagonals: np.ndarray


@fast
def _accumulate(out: np.ndarray, factor: float, row: np.ndarray) -> None:
    for t in range(out.size):
        out[t] += factor * row[t]


@fast
def _accumulate_squares(out: np.ndarray, factor: float, center: float, row: np.ndarray) -> None:
    for t in range(out.size):
        out[t] += factor * (center - row[t]) * (center - row[t])


@fast
def _move(row: np.ndarray, step: float, Ki: np.ndarray, Kj: np.ndarray) -> None:
    for t in range(row.size):
        row[t] += step * (Ki[t] - Kj[t])


@fast
def _gains(
    F: np.ndarray, barred: np.ndarray, curvature: np.ndarray, top: float, out: np.ndarray
) -> None:
    for t in range(out.size):
        difference = max(top + F[t] - barred[t], 0.0)
        out[t] = difference * difference / curvature[t]


@fast
def _finish_curvature(
    curvature: np.ndarray,
    diagonal: np.ndarray,
    scores: np.ndarray,
    ridge: np.ndarray,
    column: np.ndarray,
    i: int,
    factor: float,
) -> None:
    """Turn ``sum_k 2 J_k (M_k(i) - M_k)^2`` into the curvature along every pair with i, which is
    never negative.
    """
    Kii, own, score = diagonal[i], ridge[i], scores[i]
    for t in range(curvature.size):
        difference = score - scores[t]
        bend = (
            curvature[t]
            + Kii
            + diagonal[t]
            - 2.0 * column[t]
            + 2.0 * factor * difference * difference
            + own
            + ridge[t]
        )
        curvature[t] = max(bend, 1e-10 * (Kii + diagonal[t]) + 1e-300)


@fast
def combined_diagonal(weights: np.ndarray, diagonals: np.ndarray, out: np.ndarray) -> None:
    out[:] = 0.0
    for k in range(weights.size):
        _accumulate(out, weights[k], diagonals[k])


@fast
def _slope(
    law: Law,
    s: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    linear: float,
    ridge: float,
    x: float,
    forms: np.ndarray,
    d: np.ndarray,
    diagonal: np.ndarray,
) -> tuple[float, float]:
    """First derivative of D along the pair at x, and minus the second; ``linear - ridge x`` is the
    part of the loss.
    """
    for k in range(s.size):
        forms[k] = max(s[k] + (2.0 * b[k] + a[k] * x) * x, 0.0)
    factor = respond(law, forms, d, diagonal)
    first, second, bend, mean = linear - ridge * x, ridge, 0.0, 0.0
    for k in range(s.size):
        c = b[k] + a[k] * x
        first -= d[k] * c
        second += d[k] * a[k]
        bend += diagonal[k] * c * c
        mean += d[k] * c
    return first, second + 2.0 * bend + 2.0 * factor * mean * mean


@fast
def _cubic_root(c0: float, c1: float, c2: float, c3: float, highest: float) -> float:
    """The root in [0, highest] of ``c0 + c1 x + c2 x^2 + c3 x^3``, which decreases from above zero
    to below.
    """
    low, high, x = 0.0, highest, 0.5 * highest
    if abs(c3) > 1e-14 * (abs(c1) + abs(c2)):
        shift = c2 / (3.0 * c3)
        p = c1 / c3 - 3.0 * shift * shift
        q = shift * (2.0 * shift * shift - c1 / c3) + c0 / c3
        root = np.sqrt(max(0.25 * q * q + p * p * p / 27.0, 0.0))
        u = np.cbrt(-0.5 * q - root if q > 0.0 else -0.5 * q + root)
        x = u - p / (3.0 * u) - shift if u != 0.0 else -shift
    # the closed form loses digits: one or two steps of Newton's method bring them back
    for _ in range(SEARCH_ROUNDS):
        if not low < x < high:
            x = 0.5 * (low + high)
        value = c0 + x * (c1 + x * (c2 + x * c3))
        low, high = (x, high) if value > 0.0 else (low, x)
        move = value / (c1 + x * (2.0 * c2 + 3.0 * x * c3))
        x -= move
        if abs(move) <= 1e-14 * high or high - low <= 1e-15 * high:
            break
    return min(max(x, low), high)


@fast
def _quadratic_norm_step(
    strength: float,
    s: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    linear: float,
    ridge: float,
    highest: float,
) -> float:
    """The best step for the squared 2-norm: the derivative is a cubic."""
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    for k in range(s.size):
        c0 += s[k] * b[k]
        c1 += s[k] * a[k] + 2.0 * b[k] * b[k]
        c2 += 3.0 * a[k] * b[k]
        c3 += a[k] * a[k]
    half = -0.5 / strength
    c0, c1, c2, c3 = linear + half * c0, half * c1 - ridge, half * c2, half * c3
    if c0 + highest * (c1 + highest * (c2 + highest * c3)) >= 0.0:
        return highest
    return _cubic_root(c0, c1, c2, c3, highest)


@fast
def _best_step(
    law: Law,
    s: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    linear: float,
    ridge: float,
    highest: float,
    guess: float,
    forms: np.ndarray,
    d: np.ndarray,
    diagonal: np.ndarray,
) -> float:
    """The x in [0, highest] that maximizes D along the pair: Newton–Raphson inside a bracket."""
    if law.kind == SQUARED and law.q == 2.0:
        return _quadratic_norm_step(law.strength, s, a, b, linear, ridge, highest)
    low, high, x = 0.0, highest, min(guess, highest)
    for _ in range(SEARCH_ROUNDS):
        first, second = _slope(law, s, a, b, linear, ridge, x, forms, d, diagonal)
        low, high = (x, high) if first > 0.0 else (low, x)
        if low == highest:
            return highest
        move = first / max(second, 1e-300)
        if abs(move) <= 1e-10 * x or high - low <= 1e-13 * high:
            break
        target = min(x + move, highest)
        x = (
            target
            if low < target < high or (target == highest and high == highest)
            else 0.5 * (low + high)
        )
    return x


@fast
def _walls(ascent: Ascent, c: int) -> Bounds:
    return Bounds(ascent.lower[c], ascent.upper[c], ascent.kink[c], ascent.ridge[c])


@fast
def _choose_output(
    ascent: Ascent, barred_up: np.ndarray, barred_down: np.ndarray, scratch: np.ndarray
) -> tuple[int, float, int]:
    """The output with the largest violation, this violation, and who wants up most."""
    chosen, worst, best_i = 0, -BARRED, 0
    for c in range(ascent.beta.shape[0]):
        F = ascent.F[c]
        for t in range(F.size):
            scratch[t] = -F[t] - barred_up[c, t]
        i = position_of_max(scratch)
        top = scratch[i]
        for t in range(F.size):
            scratch[t] = F[t] - barred_down[c, t]
        violation = top + scratch[position_of_max(scratch)]
        if violation > worst:
            chosen, worst, best_i = c, violation, i
    return chosen, worst, best_i


@fast
def ascend(
    law: Law,
    ascent: Ascent,
    store: np.ndarray,
    slots: np.ndarray,
    stamps: np.ndarray,
    clock: int,
    tol: float,
    max_steps: int,
) -> tuple[int, float, int]:
    """Improve until the largest violation is below tol, the steps are used up, or a column is not
    in the store.

    Parameters
    ----------
    store : (capacity, m, n) columns of all kernels
    slots : (n,) place of each point's column in the store, -1 where it is not
    stamps : (capacity,) when each place was last used
    clock : int
        The time now; goes up with every step.

    Returns
    -------
    steps, violation, missing : missing is the point whose column is needed, or -1
    """
    outputs, n = ascent.beta.shape
    m = ascent.forms.size
    barred_up, barred_down = np.empty((outputs, n)), np.empty((outputs, n))
    for c in range(outputs):
        for t in range(n):
            bar(t, ascent.beta[c], _walls(ascent, c), barred_up[c], barred_down[c])
    scratch, curvature, column, diagonal, scores = (
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
    )
    a, b, s, d, bend = np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    factor = respond(law, ascent.forms, ascent.weights, bend)
    step, violation = 0, BARRED
    while True:
        # first variable: of the output with the largest violation, the steepest slope up
        c, violation, i = _choose_output(ascent, barred_up, barred_down, scratch)
        if violation < tol or step == max_steps:
            return step, max(violation, 0.0), -1
        # its column of every kernel, which the caller computes where it is missing
        if slots[i] < 0:
            return step, violation, i
        stamps[slots[i]] = clock + step
        if step % STEPS_PER_DIAGONAL == 0:
            combined_diagonal(ascent.weights, ascent.diagonals, diagonal)
        # curvature of the dual along every pair with i: the combined kernel, and the response of
        # the weights
        Ki, F, beta = store[slots[i]], ascent.F[c], ascent.beta[c]
        column[:], curvature[:] = 0.0, 0.0
        for k in range(m):
            _accumulate(column, ascent.weights[k], Ki[k])
            _accumulate_squares(
                curvature, 2.0 * bend[k], ascent.products[k, c, i], ascent.products[k, c]
            )
        bounds = _walls(ascent, c)
        scores[:] = F + ascent.linear[c] - bounds.ridge * beta
        _finish_curvature(curvature, diagonal, scores, bounds.ridge, column, i, factor)
        # second variable: the largest gain of a step with i
        _gains(F, barred_down[c], curvature, -F[i] - barred_up[c, i], scratch)
        scratch[i] = 0.0  # as in `smo`
        j = position_of_max(scratch)
        if scratch[j] <= 0.0:
            return step, max(violation, 0.0), -1
        if slots[j] < 0:
            return step, violation, j
        Kj = store[slots[j]]
        stamps[slots[j]] = clock + step
        # step: every form is a parabola along the pair
        for k in range(m):
            a[k] = max(ascent.diagonals[k, i] + ascent.diagonals[k, j] - 2.0 * Ki[k, j], 0.0)
            b[k] = ascent.products[k, c, i] - ascent.products[k, c, j]
        up, down = room_up(i, beta, bounds), room_down(j, beta, bounds)
        linear = ascent.linear[c, i] - ascent.linear[c, j] - barred_up[c, i] - barred_down[c, j]
        linear += bounds.ridge[j] * beta[j] - bounds.ridge[i] * beta[i]
        guess = (F[j] - F[i] - barred_up[c, i] - barred_down[c, j]) / curvature[j]
        ridge = bounds.ridge[i] + bounds.ridge[j]
        x = _best_step(law, ascent.forms, a, b, linear, ridge, min(up, down), guess, s, d, bend)
        # update: the two coefficients and their prices
        move_up(i, beta, bounds, x, up)
        move_down(j, beta, bounds, x, down)
        bar(i, beta, bounds, barred_up[c], barred_down[c])
        bar(j, beta, bounds, barred_up[c], barred_down[c])
        # update: forms, and the weights that belong to them
        for k in range(m):
            ascent.forms[k] = max(ascent.forms[k] + (2.0 * b[k] + a[k] * x) * x, 0.0)
        factor = respond(law, ascent.forms, ascent.weights, bend)
        # update: products, and F of every output with the new weights
        for e in range(outputs):
            ascent.F[e] = ascent.ridge[e] * ascent.beta[e] - ascent.linear[e]
        for k in range(m):
            _move(ascent.products[k, c], x, Ki[k], Kj[k])
            for e in range(outputs):
                _accumulate(ascent.F[e], ascent.weights[k], ascent.products[k, e])
        step += 1
