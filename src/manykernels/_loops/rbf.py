"""Gaussian kernels of one distance, all at once.

A *chain* is a set of Gaussian kernels ``e_l = 2^-(2^l t)``, ``l = 0, 1, ...``, of one pairwise
number ``t >= 0``. One exponential gives the first, and squaring gives each next one. We carry the
complement ``u_l = 1 - e_l`` instead of ``e_l``: squaring ``e`` doubles its relative error each time
(eighteen squarings, as the papers' widths need, turn a float32 rounding into an error of 1.6 %),
while ``u <- u (2 - u)`` never amplifies the error of ``u``. It also keeps clear of denormal
numbers, which would make the loops ten times slower.

The small functions work on one row of pairs and are vectorized by the compiler, which gives up when
a loop writes two arrays that it also reads: hence `_add_group` and `_advance` are two loops. ``u``
and ``powers`` are buffers at least as long as the row. Members whose place in the chain is not used
have weight zero.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from .jit import cached_njit

LOG2_E = 1.4426950408889634
# members of a chain handled in registers at a time; weight rows are padded to a multiple of it
GROUP = 5

fast = cached_njit(fastmath=True, error_model="numpy")
# Without reassociation: (1 - p) - p q must not become 1 - p (1 + q), which loses all digits of a
# small complement.
exact = cached_njit(fastmath={"nnan", "ninf", "nsz", "contract"}, error_model="numpy")


class Pairs(NamedTuple):
    """The pairwise numbers of a tile of b rows and c columns, for several chains.

    Chain r has ``t(i, j) = (rows[r, i] - cols[r, j])^2`` or, when ``factors`` is not empty,
    ``factors[r] * distances[i, j]``.
    """

    rows: np.ndarray  # (chains, b)
    cols: np.ndarray  # (chains, c)
    distances: np.ndarray  # (b, c)
    factors: np.ndarray  # (chains,)


@exact
def _start_float64(u, powers, size):
    bits = powers.view(np.int64)
    for j in range(size):
        t = min(u[j], 1000.0)
        k = np.int64(t + 0.5)
        r = np.float64(k) - t
        q = 6.778726354822543e-14
        q = q * r + 1.3691488853904124e-12
        q = q * r + 2.5678435993488196e-11
        q = q * r + 4.44553827187081e-10
        q = q * r + 7.054911620801121e-09
        q = q * r + 1.0178086009239696e-07
        q = q * r + 1.3215486790144305e-06
        q = q * r + 1.5252733804059838e-05
        q = q * r + 0.00015403530393381606
        q = q * r + 0.0013333558146428441
        q = q * r + 0.009618129107628477
        q = q * r + 0.055504108664821576
        q = q * r + 0.2402265069591007
        q = q * r + 0.6931471805599453
        u[j] = q * r
        bits[j] = (np.int64(1023) - k) << np.int64(52)
    for j in range(size):
        u[j] = (1.0 - powers[j]) - powers[j] * u[j]


@exact
def _start_float32(u, powers, size):
    bits = powers.view(np.int32)
    for j in range(size):
        t = min(u[j], np.float32(125.0))
        k = np.int32(t + np.float32(0.5))
        r = np.float32(k) - t
        q = np.float32(1.5252734e-05)
        q = q * r + np.float32(1.5403530e-04)
        q = q * r + np.float32(1.3333558e-03)
        q = q * r + np.float32(9.6181291e-03)
        q = q * r + np.float32(5.5504109e-02)
        q = q * r + np.float32(2.4022651e-01)
        q = q * r + np.float32(6.9314718e-01)
        u[j] = q * r
        bits[j] = (np.int32(127) - k) << np.int32(23)
    for j in range(size):
        u[j] = (np.float32(1.0) - powers[j]) - powers[j] * u[j]


def start_chain(u, powers, size):
    """Turn exponents into the first complement, ``u <- 1 - 2^-u``; ``u`` is float32 or float64.

    With ``u = k - r``, k whole, ``1 - 2^-u = (1 - 2^-k) - 2^-k (2^r - 1)``; ``2^r - 1`` is its
    Taylor series on [-1/2, 1/2], with a relative error below one rounding, and ``2^-k`` is put
    together from its bits in ``powers``.
    """
    start = _start_float32 if u.dtype == np.float32 else _start_float64
    start(u, powers, size)


@overload(start_chain)
def _start_chain(u, powers, size):
    if u.dtype == types.float32:
        return lambda u, powers, size: _start_float32(u, powers, size)
    return lambda u, powers, size: _start_float64(u, powers, size)


@fast
def _advance(u, size):
    """Five places further along the chain."""
    two = u.dtype.type(2.0)
    for j in range(size):
        z = u[j]
        z = z * (two - z)
        z = z * (two - z)
        z = z * (two - z)
        z = z * (two - z)
        u[j] = z * (two - z)


@fast
def _add_group(u, weights, out, size):
    """out -= the weighted sum of the next five complements."""
    two = u.dtype.type(2.0)
    w0, w1, w2, w3, w4 = weights[0], weights[1], weights[2], weights[3], weights[4]
    for j in range(size):
        z = u[j]
        total = w0 * z
        z = z * (two - z)
        total += w1 * z
        z = z * (two - z)
        total += w2 * z
        z = z * (two - z)
        total += w3 * z
        z = z * (two - z)
        total += w4 * z
        out[j] -= total


@fast
def _dot_group(u, b, out, size):
    """out[l] -= b . u_l for the next five complements."""
    two = u.dtype.type(2.0)
    s0 = s1 = s2 = s3 = s4 = u.dtype.type(0.0)
    for j in range(size):
        z = u[j]
        c = b[j]
        s0 += c * z
        z = z * (two - z)
        s1 += c * z
        z = z * (two - z)
        s2 += c * z
        z = z * (two - z)
        s3 += c * z
        z = z * (two - z)
        s4 += c * z
    out[0] -= s0
    out[1] -= s1
    out[2] -= s2
    out[3] -= s3
    out[4] -= s4


@fast
def _add_chain(u, powers, weights, out, size):
    """out += sum_l weights[l] e_l, from the exponents in ``u``; places after the last weight cost
    nothing.
    """
    total = weights.sum()
    for j in range(size):
        out[j] += total
    start_chain(u, powers, size)
    used = weights.size
    while used > GROUP and weights[used - 1] == 0.0:
        used -= 1
    for group in range(0, used, GROUP):
        if group:
            _advance(u, size)
        _add_group(u, weights[group : group + GROUP], out, size)


@fast
def _dot_chain(u, powers, b, out, size):
    """out[l] += b . e_l, from the exponents in ``u``; ``out`` is float64, the sums over one row are
    of u's dtype.
    """
    total = u.dtype.type(0.0)
    for j in range(size):
        total += b[j]
    for place in range(out.size):
        out[place] += total
    start_chain(u, powers, size)
    for group in range(0, out.size, GROUP):
        if group:
            _advance(u, size)
        _dot_group(u, b, out[group : group + GROUP], size)


@fast
def _exponents(pairs, r, i, u, size):
    """Exponents of chain r along row i: squared feature differences, or a multiple of the
    distances.
    """
    if pairs.factors.size:
        factor = pairs.factors[r]
        distances = pairs.distances[i]
        for j in range(size):
            u[j] = factor * distances[j]
    else:
        xi = pairs.rows[r, i]
        x = pairs.cols[r]
        for j in range(size):
            t = x[j] - xi
            u[j] = t * t


@fast
def squared_distances(dots, rows, row_norms, cols, col_norms, unit, largest, out):
    """``out[i, j] = unit |x_i - y_j|^2`` from dot products and squared norms, clipped to [0,
    largest].

    Zero where ``rows[i] == cols[j]``, the numbers of the points: there rounding must not leave
    anything.
    """
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            distance = unit * (row_norms[i] + col_norms[j] - 2.0 * dots[i, j])
            distance = min(max(distance, 0.0), largest)
            out[i, j] = 0.0 if rows[i] == cols[j] else distance


@fast
def _row_size(first, i, width):
    """Columns of row i to visit: ``j <= first + i``. ``first = width`` visits all, the offset of a
    diagonal tile its lower triangle.
    """
    return max(0, min(width, first + i + 1))


@fast
def combine(pairs, weights, first, out):
    """``out[i, j] += sum_r sum_l weights[r, l] e_l(t_r(i, j))``; weights (chains, length), out (b,
    c).
    """
    u = np.empty(out.shape[1], out.dtype)
    powers = np.empty_like(u)
    for i in range(out.shape[0]):
        size = _row_size(first, i, out.shape[1])
        for r in range(weights.shape[0]):
            if weights[r].any():
                _exponents(pairs, r, i, u, size)
                _add_chain(u, powers, weights[r], out[i], size)


@fast
def forms(pairs, B, first, out):
    """``out[r, l] += sum_ij B[i, j] e_l(t_r(i, j))``; B (b, c), out (chains, length) in float64."""
    u = np.empty(B.shape[1], B.dtype)
    powers = np.empty_like(u)
    for i in range(B.shape[0]):
        size = _row_size(first, i, B.shape[1])
        for r in range(out.shape[0]):
            _exponents(pairs, r, i, u, size)
            _dot_chain(u, powers, B[i], out[r], size)


@fast
def products(pairs, b, out):
    """``out[r, l, i] += sum_j e_l(t_r(i, j)) b[j]``; b (c,), out (chains, length, b) in float64."""
    u = np.empty(b.size, b.dtype)
    powers = np.empty_like(u)
    sums = np.empty(out.shape[1])
    for i in range(out.shape[2]):
        for r in range(out.shape[0]):
            sums[:] = 0.0
            _exponents(pairs, r, i, u, b.size)
            _dot_chain(u, powers, b, sums, b.size)
            for place in range(sums.size):
                out[r, place, i] += sums[place]


@fast
def _write_member(u, scale, out):
    """out = scale e, from the complement in ``u``."""
    for j in range(out.size):
        out[j] = scale * (u.dtype.type(1.0) - u[j])


@fast
def _advance_one(u):
    two = u.dtype.type(2.0)
    for j in range(u.size):
        u[j] = u[j] * (two - u[j])


@fast
def values(pairs, members, scales, out):
    """``out[i, members[r, l], j] = scales[r, l] e_l(t_r(i, j))`` where ``members[r, l] >= 0``; out
    (b, kernels, c).
    """
    u = np.empty(out.shape[2], out.dtype)
    powers = np.empty_like(u)
    for i in range(out.shape[0]):
        for r in range(members.shape[0]):
            _exponents(pairs, r, i, u, u.size)
            start_chain(u, powers, u.size)
            for place in range(members.shape[1]):
                if members[r, place] >= 0:
                    _write_member(u, scales[r, place], out[i, members[r, place]])
                _advance_one(u)


# --- squared distances of points whose features are 0 or 1, by their bits -------------------------


@intrinsic
def _ones(typing_context, word):
    """The number of bits that are one, which is an instruction of the processor."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), generate


@fast
def differing_bits(left, right, unit, out):
    """``out[i, j] = unit * (bits in which left[i] and right[:, j] differ)``; uint64, left (b,
    words), right (words, c).
    """
    counts = np.empty(out.shape[1], np.uint64)
    for i in range(out.shape[0]):
        counts[:] = 0
        for w in range(right.shape[0]):
            word, others = left[i, w], right[w]
            for j in range(counts.size):
                counts[j] += _ones(word ^ others[j])
        for j in range(counts.size):
            out[i, j] = unit * np.float64(np.int64(counts[j]))


def packed(X):
    """Rows of zeros and ones as rows of 64-bit words."""
    octets = np.packbits(X.astype(bool), axis=1)
    padded = np.pad(octets, ((0, 0), (0, -octets.shape[1] % 8)))
    return np.ascontiguousarray(padded).view(np.uint64)  # columns of a table come in any order
