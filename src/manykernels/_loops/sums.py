"""Weighted sums: of matrices in memory, of the rows and columns of factors, of powers."""

import numpy as np

from .rbf import fast

ENTRIES_PER_BLOCK = 4096  # entries of a sum that stay in cache while all matrices are added to them


@fast
def add_weighted(matrices, weights, used, start, stop, out):
    """``out[start:stop] = sum_k weights[k] matrices[k, start:stop]`` over the used k.

    Parameters
    ----------
    matrices : (m, entries) array
    weights : (m,) array of the same type
    used : (s,) int
    out : (entries,) array
    """
    for first in range(start, stop, ENTRIES_PER_BLOCK):
        line = out[first : min(first + ENTRIES_PER_BLOCK, stop)]
        line[:] = 0.0
        for k in used:
            row, weight = matrices[k, first : first + line.size], weights[k]
            for j in range(line.size):
                line[j] += weight * row[j]


@fast
def add_spread(K, rows, cols, left, right, out):
    """``out[rows[i], cols[j]] += left[i] right[j] K[i, j]``.

    Parameters
    ----------
    K : (p, q) array
    rows, cols : (p,) and (q,) int
    left, right : (p,) and (q,) arrays of the same type
    out : array of the same type
    """
    for i in range(rows.size):
        line, factor = out[rows[i]], left[i]
        for j in range(cols.size):
            line[cols[j]] += factor * right[j] * K[i, j]


# --- products with a tall matrix of factors: entries of either precision, sums in float64 ---------

# At a large cost the coefficients are large and nearly cancel: sums in float32 would leave nothing
# of the decision values.


@fast
def add(weight, row, out):
    """``out += weight row``."""
    for j in range(row.size):
        out[j] += weight * row[j]


@fast
def inner(coefficients, row):
    """The inner product, summed in float64."""
    total = 0.0
    for j in range(row.size):
        total += coefficients[j] * row[j]
    return total


@fast
def correlate(factors, beta, out):
    """``out[c] += factors' beta[c]``; rows where all beta are zero are not read."""
    for i in range(factors.shape[0]):
        for c in range(beta.shape[0]):
            if beta[c, i] != 0.0:
                add(beta[c, i], factors[i], out[c])


@fast
def dot(factors, coefficients, out):
    """``out[c] = factors coefficients[c]``."""
    for i in range(factors.shape[0]):
        for c in range(coefficients.shape[0]):
            out[c, i] = inner(coefficients[c], factors[i])


@fast
def dot_each(factors, offsets, coefficients, out):
    """``out[k, i, c] = factors[i, own] coefficients[c, own]`` with the own columns of every kernel
    k, which begin at its offset.
    """
    for i in range(factors.shape[0]):
        for k in range(offsets.size - 1):
            own = slice(offsets[k], offsets[k + 1])
            for c in range(coefficients.shape[0]):
                out[k, i, c] = inner(coefficients[c, own], factors[i, own])


@fast
def square_each(factors, offsets, out):
    """``out[k, i]``, the squared length of ``factors[i, own]`` for every kernel k."""
    for i in range(factors.shape[0]):
        for k in range(offsets.size - 1):
            total = 0.0
            for j in range(offsets[k], offsets[k + 1]):
                entry = np.float64(factors[i, j])
                total += entry * entry
            out[k, i] = total


# --- polynomials of a number per pair of points ---------------------------------------------------


@fast
def write_polynomials(rows, cols, coefficients, places, out):
    """``out[i, places[l], j] = sum_r coefficients[l, r] (rows[l, i] cols[l, j])^r``.

    Rows (l, b) and cols (l, c) are of the polynomials' own features; out is (b, kernels, c).
    """
    for i in range(out.shape[0]):
        for l in range(places.size):  # noqa: E741
            line, x, y = out[i, places[l]], rows[l, i], cols[l]
            for j in range(line.size):
                line[j] = coefficients[l, -1]
            for r in range(coefficients.shape[1] - 2, -1, -1):
                c = coefficients[l, r]
                for j in range(line.size):
                    line[j] = line[j] * (x * y[j]) + c
