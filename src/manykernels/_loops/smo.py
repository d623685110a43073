"""Sequential minimal optimization of a box-constrained quadratic with one equality constraint.

``max_beta  linear' beta - kink' |beta| - beta' (K + diag(ridge)) beta / 2`` subject to ``sum(beta)
= const`` and ``lower <= beta <= upper``, two variables at a time with second-order selection (Fan,
Chen and Lin, JMLR 2005). ``F = (K + diag(ridge)) beta - linear`` is kept up to date.

Each step is a few passes over vectors of length n, and what they cost is decided by the compiler:
it vectorizes neither a maximum of floats (1.4 ns per entry) nor the search for its position, but it
does vectorize a maximum of integers (0.1 ns). `position_of_max` therefore compares the bit
patterns. Bounds and kinks enter through ``barred_up`` and ``barred_down``: what a move up (down)
costs besides F, a huge number where the variable may not move. A variable stops at zero where it
has a kink.
"""

from typing import NamedTuple

import numpy as np

from .rbf import fast

BARRED = 1e300  # price of a move where a variable may not move
# Keys whose largest is found before its position: more make the search in the block longer.
KEYS_PER_BLOCK = 256


@fast
def _largest_key(bits: np.ndarray) -> np.int64:
    """The largest of some float64 numbers as an ordered integer; bits are those of the numbers."""
    best = np.int64(-(2**63))
    for t in range(bits.size):
        # the patterns of negative numbers are ordered backwards: flip all but the sign
        best = max(best, bits[t] ^ ((bits[t] >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))
    return best


@fast
def position_of_max(values: np.ndarray) -> int:
    """Index of the largest value of a contiguous float64 array."""
    bits = values.view(np.int64)
    best, where = np.int64(-(2**63)), 0
    for begin in range(0, bits.size, KEYS_PER_BLOCK):
        key = _largest_key(bits[begin : begin + KEYS_PER_BLOCK])
        if key > best:
            best, where = key, begin
    for t in range(where, min(where + KEYS_PER_BLOCK, bits.size)):
        if bits[t] ^ ((bits[t] >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)) == best:
            return t
    return where


@fast
def _curvature(Kii: float, Kjj: float, Kij: float) -> float:
    # rounding can make the curvature of a pair of near-equal points zero or negative
    return max(Kii + Kjj - 2.0 * Kij, 1e-12 * (Kii + Kjj) + 1e-300)


@fast
def _scores_up(F: np.ndarray, barred_up: np.ndarray, out: np.ndarray) -> None:
    for t in range(out.size):
        out[t] = -F[t] - barred_up[t]


@fast
def _scores_down(F: np.ndarray, barred_down: np.ndarray, out: np.ndarray) -> None:
    for t in range(out.size):
        out[t] = F[t] - barred_down[t]


@fast
def _gains(
    F: np.ndarray,
    barred_down: np.ndarray,
    Ki: np.ndarray,
    diagonal: np.ndarray,
    Kii: float,
    top: float,
    out: np.ndarray,
) -> None:
    """Second-order gain of pairing each variable with i, whose ``-F`` is top."""
    for t in range(out.size):
        difference = max(top + F[t] - barred_down[t], 0.0)
        out[t] = difference * difference / _curvature(Kii, diagonal[t], Ki[t])


@fast
def _update(F: np.ndarray, Ki: np.ndarray, Kj: np.ndarray, step: float) -> None:
    for t in range(F.size):
        F[t] += step * (Ki[t] - Kj[t])


class Bounds(NamedTuple):
    """Bounds of the variables, their kinks at zero and what is added to the diagonal; all (n,)."""

    lower: np.ndarray
    upper: np.ndarray
    kink: np.ndarray
    ridge: np.ndarray


@fast
def bar(
    t: int, beta: np.ndarray, bounds: "Bounds", barred_up: np.ndarray, barred_down: np.ndarray
) -> None:
    """Write what moving variable t costs in either direction."""
    kink = bounds.kink[t]
    barred_up[t] = BARRED if beta[t] >= bounds.upper[t] else (kink if beta[t] >= 0.0 else -kink)
    barred_down[t] = BARRED if beta[t] <= bounds.lower[t] else (kink if beta[t] <= 0.0 else -kink)


@fast
def room_up(t: int, beta: np.ndarray, bounds: "Bounds") -> float:
    """Distance that variable t may move up: to its bound, or to zero if there is a kink between."""
    return -beta[t] if beta[t] < 0.0 and bounds.kink[t] > 0.0 else bounds.upper[t] - beta[t]


@fast
def room_down(t: int, beta: np.ndarray, bounds: "Bounds") -> float:
    return beta[t] if beta[t] > 0.0 and bounds.kink[t] > 0.0 else beta[t] - bounds.lower[t]


@fast
def move_up(t: int, beta: np.ndarray, bounds: "Bounds", step: float, room: float) -> None:
    """Move a variable; the whole way lands exactly on the bound or on zero."""
    at_zero = beta[t] < 0.0 and bounds.kink[t] > 0.0
    beta[t] = (0.0 if at_zero else bounds.upper[t]) if step == room else beta[t] + step


@fast
def move_down(t: int, beta: np.ndarray, bounds: "Bounds", step: float, room: float) -> None:
    at_zero = beta[t] > 0.0 and bounds.kink[t] > 0.0
    beta[t] = (0.0 if at_zero else bounds.lower[t]) if step == room else beta[t] - step


class Rows(NamedTuple):
    """The rows of ``K + left right``, of which those that were asked for are kept.

    Without a second term (s = 0) they are those of K.
    """

    K: np.ndarray  # (n, n)
    left: np.ndarray  # (n, s)
    right: np.ndarray  # (s, n)
    sums: np.ndarray  # (n, n), the rows that are known
    known: np.ndarray  # (n,) bool

    @classmethod
    def of(cls, K: np.ndarray) -> "Rows":
        """The rows of a matrix."""
        nothing = np.empty((0, 0), K.dtype)
        return cls(K, nothing, nothing, K, np.empty(0, dtype=bool))

    @classmethod
    def curved(cls, K: np.ndarray, left: np.ndarray, right: np.ndarray) -> "Rows":
        """The rows of a matrix and a product of small rank."""
        return cls(K, left, right, np.empty(K.shape, K.dtype), np.zeros(len(K), dtype=bool))


@fast
def row_of(rows: "Rows", i: int) -> np.ndarray:
    """Row i, added up if it is asked for the first time."""
    if rows.left.shape[1] == 0:
        return rows.K[i]
    row = rows.sums[i]
    if not rows.known[i]:
        rows.known[i] = True
        row[:] = rows.K[i]
        for k in range(rows.left.shape[1]):
            weight, other = rows.left[i, k], rows.right[k]
            for t in range(row.size):
                row[t] += weight * other[t]
    return row


def smo(
    K: np.ndarray,
    diagonal: np.ndarray,
    bounds: "Bounds",
    beta: np.ndarray,
    F: np.ndarray,
    tol: float,
    max_iter: int,
) -> tuple[int, float]:
    """`smo_on_rows` for a matrix."""
    return smo_on_rows(Rows.of(K), diagonal, bounds, beta, F, tol, max_iter)


@fast
def smo_on_rows(
    rows: "Rows",
    diagonal: np.ndarray,
    bounds: "Bounds",
    beta: np.ndarray,
    F: np.ndarray,
    tol: float,
    max_iter: int,
) -> tuple[int, float]:
    """Ascend until the largest violation of the optimality conditions is below tol; beta and F are
    updated in place.

    The diagonal is that of the matrix plus the ridge.

    Returns
    -------
    iterations, violation : the violation is exact if below tol, else a lower bound
    """
    n = beta.size
    barred_up, barred_down, scratch = np.empty(n), np.empty(n), np.empty(n)
    for t in range(n):
        bar(t, beta, bounds, barred_up, barred_down)
    iteration, violation = 0, BARRED
    while True:
        # first variable: the steepest slope up
        _scores_up(F, barred_up, scratch)
        i = position_of_max(scratch)
        top, Ki, Kii = scratch[i], row_of(rows, i), diagonal[i]
        # second variable: the largest gain of a step with the first
        _gains(F, barred_down, Ki, diagonal, Kii, top, scratch)
        scratch[i] = 0.0  # a point at the origin bends nothing: its rounding would be a gain
        j = position_of_max(scratch)
        gain = scratch[j]
        # end: no pair violates the optimality conditions by more than tol
        violation = top + F[j] - barred_down[j]
        if violation < tol:  # the largest violation may be that of another pair
            _scores_down(F, barred_down, scratch)
            violation = top + scratch[position_of_max(scratch)]
        if violation < tol or gain <= 0.0 or iteration == max_iter:
            return iteration, max(violation, 0.0)
        # step: to the maximum along the pair, or to the nearest bound or kink
        Kj = row_of(rows, j)
        step = (top + F[j] - barred_down[j]) / _curvature(Kii, diagonal[j], Ki[j])
        up, down = room_up(i, beta, bounds), room_down(j, beta, bounds)
        step = min(step, up, down)
        move_up(i, beta, bounds, step, up)
        move_down(j, beta, bounds, step, down)
        # update: prices of the two variables, and F
        bar(i, beta, bounds, barred_up, barred_down)
        bar(j, beta, bounds, barred_up, barred_down)
        _update(F, Ki, Kj, step)
        F[i] += step * bounds.ridge[i]
        F[j] -= step * bounds.ridge[j]
        iteration += 1
