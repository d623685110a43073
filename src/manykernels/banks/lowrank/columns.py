"""The base of banks of low-rank kernels ``K_k = V_k V_k'``: every kernel has some of the columns of
``V = [V_1 V_2 ...]``.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._loops import sums as loops
from ..._threads import Threads
from ..base import SumBank, as_outputs
from ..kernel_set import Delegating, Indices

# Rows of a block: with a few thousand columns in float32 it is some ten megabytes. More of them do
# not stay in cache.
ROWS = 8192


class ColumnBank(Delegating, SumBank):
    """Base of banks whose kernels are given by their factors.

    Parameters
    ----------
    offsets : (m + 1,) int
        Kernel k has the columns ``offsets[k]`` to ``offsets[k + 1]``.
    features : FeatureMap
        What computes the factors of new points.
    threads : Threads, optional
    """

    inner = "features"

    by_blocks = True

    def __init__(self, offsets: Indices, features: Any, threads: Threads | None = None) -> None:
        self.offsets, self.features = np.asarray(offsets), features
        self.threads = threads or Threads(1)
        self.kernel_of = np.repeat(np.arange(self.m), np.diff(self.offsets))

    @abstractmethod
    def block(self, k: int) -> np.ndarray:
        """The factors of one kernel, (n_rows, its columns)."""

    @property
    def capacity(self) -> int:
        """Of how many kernels the factors can be held."""
        return self.m

    def want(self, kernels: Indices) -> None:
        """Take note of the kernels that will be asked for many times."""

    @abstractmethod
    def correlate(self, beta: Any) -> np.ndarray:
        """``V' beta`` over the training points for beta (t, n), as (t, r), summed in float64."""

    @property
    def m(self) -> int:
        return len(self.offsets) - 1

    @property
    def width(self) -> int:
        """Columns of all factors together."""
        return int(self.offsets[-1])

    def squared_norms(self, coefficients: ArrayLike) -> np.ndarray:
        """Squared lengths of the parts of coefficients (t, r) that belong to each kernel, summed
        over outputs, (m,).
        """
        return np.bincount(self.kernel_of, np.square(coefficients).sum(axis=0), minlength=self.m)

    def column_weights(self, weights: ArrayLike) -> np.ndarray:
        """Weights of the kernels, one per column, (r,)."""
        return np.asarray(weights, dtype=float)[self.kernel_of]

    def coefficients(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        """The primal solution ``d_k V_k' beta``, (t, r): all that predictions need besides the map
        of features.
        """
        return self.column_weights(weights) * self.correlate(beta)

    def lasting(self, coefficients: Any) -> np.ndarray:
        """Coefficients (t, r) as the map of features takes them for new points."""
        return coefficients

    def sums_of(self, kernels: Indices, coefficients: ArrayLike) -> np.ndarray:
        """``sum_k V_k c_k`` over some kernels for coefficients (t, r), (t, n_rows), summed in
        float64.
        """
        coefficients = np.ascontiguousarray(np.atleast_2d(coefficients), dtype=float)
        out, part = np.zeros((2, coefficients.shape[0], self.n_rows))
        rows = [slice(start, start + ROWS) for start in range(0, self.n_rows, ROWS)]
        for k in kernels:
            V = self.block(k)
            mine = np.ascontiguousarray(coefficients[:, self.offsets[k] : self.offsets[k + 1]])

            def fill(some, V=V, mine=mine):
                loops.dot(V[some], mine, part[:, some])

            self.threads.map(fill, rows)
            out += part
        return out

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        self._needs_square("quadratic_forms")
        return self.squared_norms(self.correlate(as_outputs(beta, self.n)))

    def same_data(self, X: Any) -> bool:
        return False
