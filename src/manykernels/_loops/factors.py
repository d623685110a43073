"""Factors of kernels whose numerical rank is small."""

import math

from .jit import cached_njit
from .rbf import LOG2_E, start_chain


@cached_njit()
def gaussian_factor(x, gamma, error, left, powers, factor):
    """The pivoted Cholesky factor of ``exp(-gamma (x_i - x_j)^2)``, row by row.

    What a factor leaves of the matrix is positive semidefinite, so that none of its entries is
    larger than its largest diagonal entry.

    Parameters
    ----------
    x : (n,) array
    gamma, error : float
        The factor is complete when no diagonal entry of what it leaves is larger than `error`.
    left, powers : (n,) arrays
        Scratch: the diagonal of what is left, and powers of two.
    factor : (most, n) array
        Its first rows are filled.

    Returns
    -------
    int
        The rank, or -1 if it is larger than the rows that there are.
    """
    n, unit = x.size, gamma * LOG2_E
    left[:] = 1.0
    pivot = 0
    for rank in range(factor.shape[0] + 1):
        if left[pivot] <= error:
            return rank
        if rank == factor.shape[0]:
            return -1
        row = factor[rank]
        for i in range(n):
            apart = x[i] - x[pivot]
            row[i] = unit * apart * apart
        start_chain(row, powers, n)
        for i in range(n):
            row[i] = 1.0 - row[i]
        for before in range(rank):
            other = factor[before]
            share = other[pivot]
            for i in range(n):
                row[i] -= share * other[i]
        scale = 1.0 / math.sqrt(left[pivot])
        pivot, largest = 0, -1.0
        for i in range(n):
            row[i] *= scale
            left[i] -= row[i] * row[i]
            if left[i] > largest:
                pivot, largest = i, left[i]
    return -1
