"""Combined kernels in memory, and products with them."""

from typing import Any

import numpy as np

from .._loops.sums import dot
from .._pulse import pulse

# Rows of a kernel that are copied, and turned into float64, at a time: more take more memory.
ROWS_PER_PRODUCT = 256
# Rows that one call of the compiled product visits: with more, Ctrl-C waits.
ROWS_PER_CALL = 2048
# Part of the coefficients that are zero, from which on a product leaves their rows out: with a
# smaller one, more products copy rows.
ZEROS_COUNT_FROM = 0.5
# Columns of a kernel whose products are summed in its own precision: more are less precise.
COLUMNS_PER_SUM = 2048


class CurvedKernel:
    """``K + left right`` with a second term of small rank, of which machines add up the rows that
    they visit: most programs visit a small part of them.

    Parameters
    ----------
    K : (n, n) array
    left, right : (n, s) and (s, n) arrays of the same type
    """

    def __init__(self, K: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        self.K, self.left, self.right = K, left, right

    def __len__(self) -> int:
        return len(self.K)

    def rows(self, chosen: np.ndarray) -> np.ndarray:
        """Some rows of the matrix."""
        out = self.left[chosen] @ self.right
        out += self.K[chosen]
        return out

    def whole(self) -> np.ndarray:
        """The matrix."""
        out = self.left @ self.right
        out += self.K
        return out

    def diagonal(self) -> np.ndarray:
        return np.diagonal(self.K) + np.einsum("ns,sn->n", self.left, self.right)


def rows_of(kernel: Any, chosen: np.ndarray) -> np.ndarray:
    """Some rows of a matrix or a `CurvedKernel`."""
    return kernel.rows(chosen) if isinstance(kernel, CurvedKernel) else kernel[chosen]


def submatrix(kernel: Any, chosen: np.ndarray) -> Any:
    """The kernel of some of the points."""
    if isinstance(kernel, CurvedKernel):
        K = submatrix(kernel.K, chosen)
        return CurvedKernel(K, kernel.left[chosen], kernel.right[:, chosen])
    return kernel[np.ix_(chosen, chosen)]


def multiply(kernel: Any, beta: np.ndarray) -> np.ndarray:
    """The product of a matrix or a `CurvedKernel` with a vector, in float64."""
    if isinstance(kernel, CurvedKernel):
        return multiply(kernel.K, beta) + kernel.left @ (kernel.right @ beta)
    support = np.flatnonzero(beta)
    if support.size > ZEROS_COUNT_FROM * beta.size and kernel.flags.c_contiguous:
        return _by_rows(kernel, beta)
    out = np.zeros(beta.size)
    for start in range(0, support.size, ROWS_PER_PRODUCT):
        part = support[start : start + ROWS_PER_PRODUCT]
        out += beta[part] @ kernel[part]
    return out


def _by_rows(kernel: np.ndarray, beta: np.ndarray) -> np.ndarray:
    out, coefficients = np.empty(beta.size), np.array(beta, dtype=float)[None]
    for start in range(0, beta.size, ROWS_PER_CALL):
        part = kernel[start : start + ROWS_PER_CALL]
        sums = np.empty((1, len(part)))
        dot(part, coefficients, sums)
        out[start : start + ROWS_PER_CALL] = sums[0]
        pulse()
    return out


def rough_product(kernel: Any, x: np.ndarray) -> np.ndarray:
    """The product of a matrix or a `CurvedKernel` with a vector, about as precise as the entries
    are.
    """
    if isinstance(kernel, CurvedKernel):
        low = kernel.right @ x.astype(kernel.right.dtype)
        return rough_product(kernel.K, x) + kernel.left @ low
    # single precision holds the shape of any vector, but not its length
    length = float(np.abs(x).max(initial=0.0)) or 1.0
    entries, out = (x / length).astype(kernel.dtype), np.zeros(x.size)
    for start in range(0, x.size, COLUMNS_PER_SUM):
        part = slice(start, start + COLUMNS_PER_SUM)
        out += kernel[:, part] @ entries[part]
    return length * out
