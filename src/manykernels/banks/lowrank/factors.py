"""A bank of low-rank kernels ``K_k = V_k V_k'``: everything is products with the factors, by blocks
of rows.
"""

from functools import cached_property
from typing import Any

import numpy as np

from ..._loops import factors as loops
from ..._threads import Threads
from ..base import as_outputs
from ..kernel_set import Indices
from .columns import ROWS, ColumnBank
from .systems import System

FINE_ROWS = 32_768


class FactorBank(ColumnBank):
    """Kernels given by their factors, side by side in one matrix.

    Parameters
    ----------
    factors : (n_rows, r) array or memory map
        ``V_1, V_2, ...``; float32 or float64.
    offsets : (m + 1,) int
        Kernel k has the columns ``offsets[k]`` to ``offsets[k + 1]``.
    features : FeatureMap
        What computes the factors of new points.
    threads : Threads, optional
    right : (n, r) array, optional
        Factors of the training points, where the rows are others.
    """

    factored = True

    def __init__(
        self,
        factors: np.ndarray,
        offsets: Indices,
        features: Any,
        threads: Threads | None = None,
        right: np.ndarray | None = None,
    ) -> None:
        super().__init__(offsets, features, threads)
        self.factors, right = factors, factors if right is None else right
        self.right, self.n_rows, self.n = right, factors.shape[0], right.shape[0]
        self.dtype = factors.dtype

    @property
    def symmetric(self):
        return self.right is self.factors

    def whole(self):
        """The factors of all kernels in float64, (n, r)."""
        return self.factors.astype(float)

    # What solvers on factors ask of a space: see `lowrank.basis` for one with fewer dimensions than
    # columns.

    @property
    def points(self):
        """The bank whose factors are those of the space, one row per point."""
        return self

    @property
    def prefers_factor_space(self):
        return 2 * self.points.width < self.n

    def root(self, weights):
        """The diagonal of the root of the weights of all columns."""
        return np.sqrt(self.column_weights(weights))

    def coefficients_of_moments(self, weights, moments):
        """Coefficients of the features for moments ``V' beta``, (t, r)."""
        return self.column_weights(weights) * moments

    def reduced(self, v):
        """Coefficients in the space."""
        return v

    def half(self):
        """The same kernels in half of the space, or None where that would tell little of them."""
        return None

    def block(self, k):
        """The factors of one kernel, (n_rows, its columns)."""
        return self.factors[:, self.offsets[k] : self.offsets[k + 1]]

    def values(self, coefficients):
        """As `dot`, where the bank keeps long vectors (`to_device`)."""
        return self.dot(coefficients)

    def system(self, bends, exact=False, before=None):
        """The equations of Newton's method for second derivatives (n,) of the loss of an output.

        Those of other derivatives, `before`, may be changed to become these.
        """
        return System(self, bends, exact)

    def blocks(self):
        """Slices of the rows that are worked on together."""
        return [
            slice(start, min(start + ROWS, self.n_rows)) for start in range(0, self.n_rows, ROWS)
        ]

    def dot(self, coefficients):
        """``V c`` for coefficients (t, r), as (t, n_rows), summed in float64."""
        coefficients = np.ascontiguousarray(np.atleast_2d(coefficients), dtype=float)
        out = np.empty((coefficients.shape[0], self.n_rows))
        self.threads.map(
            lambda part: loops.dot(self.factors[part], coefficients, out[:, part]), self.blocks()
        )
        return out

    def correlate(self, beta):
        """``V' beta`` over the training points for beta (t, n), as (t, r), summed in float64."""
        beta = as_outputs(beta, self.n)
        parts = [slice(start, min(start + ROWS, self.n)) for start in range(0, self.n, ROWS)]

        def sums(part):
            out = np.zeros((beta.shape[0], self.right.shape[1]))
            loops.correlate(self.right[part], beta[:, part], out)
            return out

        return sum(self.threads.map(sums, parts))

    def gram(self, scale, exact=False):
        """``V' diag(scale) V`` over the rows with a scale above zero, (r, r).

        In float64 if asked for, or if there are few of them: then it costs little.
        """
        used = np.flatnonzero(scale)
        shares = [used[start : start + ROWS] for start in range(0, used.size, ROWS)]
        dtype = np.float64 if exact or used.size <= FINE_ROWS else self.dtype

        def sums(mine):
            total = np.zeros((self.width, self.width))
            for rows in mine:
                block = self.factors[rows] * np.sqrt(scale[rows, None]).astype(dtype)
                total += block.T @ block
            return total

        count = max(1, min(self.threads.count, len(shares)))
        return sum(self.threads.map(sums, [shares[i::count] for i in range(count)]))

    def combine(self, weights, rows=None):
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        columns = self.column_weights(weights).astype(self.dtype)
        # a copy must pay
        used = np.flatnonzero(columns) if rows.size == self.n_rows else np.arange(columns.size)
        right = (
            self.right if used.size == columns.size else np.ascontiguousarray(self.right[:, used])
        )
        out = np.empty((rows.size, self.n), self.dtype)

        def fill(part):
            left = self.factors[rows[part]]
            left = left * columns if used.size == columns.size else left[:, used] * columns[used]
            np.matmul(left, right.T, out=out[part])

        step = max(1, min(ROWS, -(-rows.size // self.threads.count)))
        self.threads.map(
            fill,
            [slice(start, min(start + step, rows.size)) for start in range(0, rows.size, step)],
        )
        return out

    def products(self, beta):
        moments = self.correlate(as_outputs(beta, self.n)).astype(self.dtype)
        out = np.empty((self.m, moments.shape[0], self.n_rows))

        def fill(part):
            for k in range(self.m):
                columns = slice(self.offsets[k], self.offsets[k + 1])
                out[k, :, part] = (self.factors[part, columns] @ moments[:, columns].T).T

        self.threads.map(fill, self.blocks())
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        out = np.empty((self.m, self.n_rows, len(chosen)))
        for k in range(self.m):
            columns = slice(self.offsets[k], self.offsets[k + 1])
            out[k] = self.factors[:, columns] @ self.right[chosen, columns].T
        return out

    def diagonal(self):
        self._needs_square("diagonal")
        return self._diagonals.copy()

    def combined_diagonal(self, weights):
        self._needs_square("combined_diagonal")
        return np.asarray(weights, dtype=float) @ self._diagonals

    @cached_property
    def _diagonals(self):
        """Of the kernels, (m, n); kept, because every certificate asks for their sum."""
        out = np.empty((self.m, self.n))

        def fill(part):
            for k in range(self.m):
                own = self.factors[part, self.offsets[k] : self.offsets[k + 1]]
                np.einsum("ij,ij->i", own, own, out=out[k, part], dtype=float)

        self.threads.map(fill, self.blocks())
        return out

    def decision(self, weights, beta):
        scores = self.dot(self.coefficients(weights, beta))
        return scores if np.ndim(beta) == 2 else scores[0]

    def cross(self, X_new, support=None):
        right = self.right if support is None else self.right[support]
        return FactorBank(
            self.features.transform(X_new), self.offsets, self.features, self.threads, right=right
        )

    def take_points(self, points):
        return FactorBank(self.factors[points], self.offsets, self.features, self.threads)

    def take_kernels(self, kernels, factor=1.0):
        chosen = np.arange(self.m)[kernels]
        columns = np.concatenate(
            [np.arange(self.offsets[k], self.offsets[k + 1]) for k in chosen]
        ).astype(np.intp)
        root, features = (
            self.dtype.type(np.sqrt(factor)),
            self.features.take_kernels(chosen, factor),
        )
        right = None if self.symmetric else self.right[:, columns] * root
        return FactorBank(
            self.factors[:, columns] * root, features.offsets, features, self.threads, right=right
        )
