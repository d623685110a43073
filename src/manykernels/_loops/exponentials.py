"""Sums over a table of exponents, one kernel per row and one pair of points per column."""

import numpy as np

from .rbf import fast, start_chain


@fast
def _subtract(u, weight, out):
    for p in range(out.size):
        out[p] -= weight * u[p]


@fast
def add_kernels(exponents, weights, out):
    """``out[p] += sum_k weights[k] 2^-exponents[k, p]``; the exponents are overwritten."""
    powers = np.empty_like(out)
    total = weights.sum()
    for p in range(out.size):
        out[p] += total
    for k in range(weights.size):
        start_chain(exponents[k], powers, out.size)
        _subtract(exponents[k], weights[k], out)


@fast
def _dot(u, b):
    total = u.dtype.type(0.0)
    for p in range(b.size):
        total += b[p] * (u.dtype.type(1.0) - u[p])
    return total


@fast
def dot_kernels(exponents, b, out):
    """``out[k] += sum_p b[p] 2^-exponents[k, p]``; the exponents are overwritten, out is float64."""
    powers = np.empty_like(b)
    for k in range(out.size):
        start_chain(exponents[k], powers, b.size)
        out[k] += _dot(exponents[k], b)


@fast
def take_powers(exponents, scale):
    """``scale 2^-exponents`` in their place."""
    powers = np.empty_like(exponents[0])
    for k in range(exponents.shape[0]):
        row = exponents[k]
        start_chain(row, powers, row.size)
        for p in range(row.size):
            row[p] = scale * (row.dtype.type(1.0) - row[p])
