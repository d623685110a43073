"""Factorizations of large matrices in pieces, between which Ctrl-C and callbacks are heard.

One call of LAPACK for 12,000 points takes half a minute on two cores, and nothing interrupts it.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, solve_triangular

from ._pulse import pulse

BLOCK_COLUMNS = 1024  # of a factorization in pieces
LARGEST_CALL = 4096  # rows of a matrix that a single call factorizes, in about a second


def cholesky_factor(H: np.ndarray) -> tuple[Any, bool]:
    """The Cholesky factorization of a positive definite matrix, as `scipy.linalg.cho_solve` takes
    it: the lower triangle has the factor, the upper one anything.

    Parameters
    ----------
    H : (n, n) float64 array
        Overwritten; in Fortran's order it is not copied.
    """
    n = len(H)
    if n <= LARGEST_CALL:
        return cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    H = np.asfortranarray(H)
    for start in range(0, n, BLOCK_COLUMNS):
        stop = min(start + BLOCK_COLUMNS, n)
        own = slice(start, stop)
        square, _ = cho_factor(H[own, own], lower=True, check_finite=False)
        H[own, own] = square
        below = H[stop:, own]
        below[...] = solve_triangular(square, below.T, lower=True, check_finite=False).T
        # the Schur complement of the block, one block column of its lower triangle at a time
        for left in range(stop, n, BLOCK_COLUMNS):
            right = min(left + BLOCK_COLUMNS, n)
            H[left:, left:right] -= H[left:, own] @ H[left:right, own].T
            pulse()
    return H, True
