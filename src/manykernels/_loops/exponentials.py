"""Sums over a table of exponents, one pair of points per row and one kernel per column.

Kernels lie along the rows because there are always as many of them in a table, while the pairs of a
point are few or many: so all loops have the same length. Sums are of the complements ``u = 1 -
2^-exponent`` (see `rbf`); the exponents are overwritten.
"""

import numpy as np

from .rbf import fast, start_chain


@fast
def _subtract(weight, row, out):
    for k in range(row.size):
        out[k] -= weight * row[k]


@fast
def _dot(weights, row):
    total = row.dtype.type(0.0)
    for k in range(row.size):
        total += weights[k] * row[k]
    return total


@fast
def combine_rows(exponents, weights, out):
    """``out[p] -= sum_k weights[k] u[p, k]``; out is float64."""
    powers = np.empty_like(exponents[0])
    for p in range(exponents.shape[0]):
        row = exponents[p]
        start_chain(row, powers, row.size)
        out[p] -= _dot(weights, row)


@fast
def add_rows(exponents, factors, out):
    """``out[a, k] -= sum_p factors[a, p] u[p, k]``."""
    powers = np.empty_like(exponents[0])
    for p in range(exponents.shape[0]):
        row = exponents[p]
        start_chain(row, powers, row.size)
        for a in range(factors.shape[0]):
            _subtract(factors[a, p], row, out[a])


@fast
def _multiply(row, i, j, beta, mirrored, out):
    for c in range(beta.shape[0]):
        if beta[c, j] != 0.0:
            _subtract(beta[c, j], row, out[c, i])
        if mirrored and beta[c, i] != 0.0:
            _subtract(beta[c, i], row, out[c, j])


@fast
def multiply_rows(exponents, rows, cols, beta, mirrored, out):
    """``out[c, i, k] -= u_k(i, j) beta[c, j]`` for the pairs (i, j) and, if mirrored, (j, i)."""
    powers = np.empty_like(exponents[0])
    for p in range(exponents.shape[0]):
        row = exponents[p]
        start_chain(row, powers, row.size)
        _multiply(row, rows[p], cols[p], beta, mirrored, out)


@fast
def sweep_rows(exponents, rows, cols, weights, beta, combined, products):
    """`combine_rows` and mirrored `multiply_rows` at once."""
    powers = np.empty_like(exponents[0])
    for p in range(exponents.shape[0]):
        row = exponents[p]
        start_chain(row, powers, row.size)
        combined[p] -= _dot(weights, row)
        _multiply(row, rows[p], cols[p], beta, True, products)


@fast
def take_powers(exponents, scale):
    """``scale 2^-exponents`` in their place."""
    powers = np.empty_like(exponents[0])
    for k in range(exponents.shape[0]):
        row = exponents[k]
        start_chain(row, powers, row.size)
        for p in range(row.size):
            row[p] = scale * (row.dtype.type(1.0) - row[p])


@fast
def gaussian_rows(dots, row_norms, col_norms, unit, largest, out):
    """``out[i, j] = 2^-t``, ``t = unit |x_i - y_j|^2`` from dot products and squared norms, in any
    precision of out.
    """
    powers = np.empty_like(out[0])
    for i in range(out.shape[0]):
        row = out[i]
        for j in range(row.size):
            distance = unit * (row_norms[i] + col_norms[j] - 2.0 * dots[i, j])
            row[j] = min(max(distance, 0.0), largest)
        start_chain(row, powers, row.size)
        for j in range(row.size):
            row[j] = row.dtype.type(1.0) - row[j]
