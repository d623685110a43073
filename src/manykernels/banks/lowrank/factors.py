"""A bank of low-rank kernels ``K_k = V_k V_k'``: everything is products with the factors, by blocks
of rows.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._arrays import as_dtype_of, here, is_tensor, squared_lengths
from ..._loops import sums as loops
from ..._threads import Threads
from ..base import as_outputs
from ..kernel_set import Indices
from .columns import ROWS, ColumnBank
from .systems import System

# Rows of a Gram matrix that is summed in float64 whatever the precision of the factors. With a
# larger number sums are more accurate, and take twice as long.
ROWS_IN_DOUBLE = 32_768
# Changes of curvatures, as a part of them, from which on a Gram matrix is made anew. With a larger
# one more of them are changed in place, and rounding adds up.
RENEWED_SHARE = 0.5
# Share of the columns from which on all of them are multiplied: fewer are copied before.
DENSE_SHARE = 0.7
# Weight relative to the largest that is below the rounding of any sum. Products with denormal
# numbers would take forty times as long.
NEGLIGIBLE = 1e-18
# Columns of a kernel, times outputs, up to which its products are a compiled loop: with a larger
# number, fewer are left to the matrix library, whose calls take longer to begin.
NARROW_COLUMNS = 64
# Multiplications of a combined kernel that are worth a thread.
PRODUCTS_PER_THREAD = 2**25
# Points up to which one half of a combined kernel is computed, as one product, where two threads or
# fewer would share it. With a larger number, more memory is taken.
SYMMETRIC_POINTS = 2048
# Rows of a combined kernel that are made together. More of them do not stay in cache.
COMBINED_ROWS = 256


class FactorBank(ColumnBank):
    """Kernels given by their factors, side by side in one matrix.

    The formulas are those of the factors on a device, too: `visit`, `rows`, `zeros`, `to_device`
    and what is built of them say where the work is done. Long vectors, with an entry per point,
    are arrays of the host or tensors of the device; short ones are arrays of the host.

    Parameters
    ----------
    factors : (n_rows, r) array or memory map
        ``V_1, V_2, ...``; float32 or float64.
    offsets : (m + 1,) int
        Kernel k has the columns ``offsets[k]`` to ``offsets[k + 1]``.
    features : FeatureMap
        Computes the factors of new points.
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
        # copies of single kernels, entries side by side: products are several times as fast
        self._wanted: dict[int, np.ndarray] = {}

    @property
    def symmetric(self) -> bool:
        return self.right is self.factors

    # --- where the factors are, and the work is done ----------------------------------------------

    def visit(
        self, work: Callable[[slice, Any], Any], row_bytes: int = 0, training: bool = False
    ) -> list[Any]:
        """The results of ``work(part, block)`` for blocks of the factors.

        Parameters
        ----------
        work : callable
            Takes a slice of the rows and their factors.
        row_bytes : int
            Memory that the work takes for a row, on a device.
        training : bool
            Visit the factors of the training points, where the rows are others.
        """
        factors = self.right if training else self.factors
        return self.threads.map(lambda part: work(part, factors[part]), blocks(len(factors)))

    def rows(self, chosen: Indices) -> Any:
        """The factors of chosen training points, where the bank computes."""
        return self.right[chosen]

    def zeros(self, shape: tuple[int, ...]) -> Any:
        """A matrix of zeros in float64, where the bank computes."""
        return np.zeros(shape)

    def multiplier(self, short: Any) -> Any:
        """Coefficients (t, r) of single kernels in the precision of their products."""
        return short.astype(self.dtype, copy=False)

    def with_factors(self, factors: Any) -> "FactorBank":
        """A bank of one kernel with other factors of the same points."""
        return FactorBank(factors, [0, factors.shape[1]], self.features, self.threads)

    def leading(self, count: int) -> "FactorBank":
        """A bank of one kernel with the first columns of the factors."""
        return self.with_factors(np.ascontiguousarray(self.factors[:, :count]))

    def room_for_columns(self, memory_budget: int) -> int:
        """The most columns of further factors that fit into memory twice."""
        taken = 0 if isinstance(self.factors, np.memmap) else self.factors.nbytes
        return (memory_budget - taken) // (2 * self.n * self.dtype.itemsize)

    # --- what solvers on factors ask of a space: `lowrank.basis` has one of fewer dimensions ------

    @property
    def has_all_dimensions(self) -> bool:
        """True if the space has a dimension for every column, in memory, so that a smaller one may
        be looked for.
        """
        return type(self) is FactorBank

    def whole(self) -> np.ndarray:
        """The factors of all kernels in float64, (n, r)."""
        return self.factors.astype(float)

    @property
    def points(self) -> "FactorBank":
        """The bank whose factors are those of the space, one row per point."""
        return self

    @property
    def prefers_factor_space(self) -> bool:
        return 2 * self.points.width < self.n

    def root(self, weights: ArrayLike) -> Any:
        """The diagonal of the root of the weights of all columns."""
        return np.sqrt(self.column_weights(weights))

    def coefficients_of_moments(self, weights: ArrayLike, moments: np.ndarray) -> np.ndarray:
        """Coefficients of the features for moments ``V' beta``, (t, r)."""
        return self.column_weights(weights) * moments

    def reduced(self, v: np.ndarray) -> np.ndarray:
        """Coefficients in the space."""
        return v

    def half(self) -> "FactorBank | None":
        """These kernels in half of the space, or None where that would tell little of them."""
        return None

    def want(self, kernels: Indices) -> None:
        wanted = {int(k): self.block(k) for k in kernels}
        self._wanted = {k: np.ascontiguousarray(V) for k, V in wanted.items()}

    def block(self, k: int) -> np.ndarray:
        found = self._wanted.get(int(k))
        return self.factors[:, self._own(k)] if found is None else found

    def _own(self, k: int) -> slice:
        """The columns of a kernel."""
        return slice(self.offsets[k], self.offsets[k + 1])

    # --- products ---------------------------------------------------------------------------------

    def values(self, coefficients: ArrayLike) -> Any:
        """``V c`` for coefficients (t, r), as (t, n_rows), summed in float64, where the bank keeps
        long vectors (`to_device`).
        """
        coefficients = np.ascontiguousarray(np.atleast_2d(coefficients), dtype=float)
        out = np.empty((coefficients.shape[0], self.n_rows))
        self.visit(lambda part, block: loops.dot(block, coefficients, out[:, part]))
        return out

    def dot(self, coefficients: ArrayLike) -> np.ndarray:
        """`values` as an array of the host."""
        return here(self.values(coefficients))

    def correlate(self, beta: Any) -> np.ndarray:
        beta = as_outputs(beta, self.n)

        def sums(part, block):
            out = np.zeros((beta.shape[0], block.shape[1]))
            loops.correlate(block, beta[:, part], out)
            return out

        return sum(self.visit(sums, training=True))

    def gram(self, scale: Any, exact: bool = False) -> np.ndarray:
        """``V' diag(scale) V`` over the rows with a scale above zero, (r, r).

        In float64 if asked for, or if there are few of them: then it costs little.
        """
        used = np.flatnonzero(scale)
        shares = [used[part] for part in blocks(used.size)]
        dtype = np.float64 if exact or used.size <= ROWS_IN_DOUBLE else self.dtype

        def sums(mine):
            total = np.zeros((self.width, self.width))
            for rows in mine:
                block = self.factors[rows] * np.sqrt(scale[rows, None]).astype(dtype)
                total += block.T @ block
            return total

        count = max(1, min(self.threads.count, len(shares)))
        return sum(self.threads.map(sums, [shares[i::count] for i in range(count)]))

    def system(self, bends: Any, exact: bool = False, before: System | None = None) -> System:
        """The equations of Newton's method for second derivatives (n,) of the loss of an output.

        Those of other derivatives, `before`, may be changed to become these.
        """
        q = self.width
        change = bends if before is None else bends - before.curvatures
        if before is None or np.count_nonzero(change) > RENEWED_SHARE * np.count_nonzero(bends):
            H, change = np.zeros((q + 1, q + 1)), bends
        else:
            H = before.H
        H[:q, :q] += self.gram(np.maximum(change, 0.0), exact)
        if (change < 0.0).any():
            H[:q, :q] -= self.gram(np.maximum(-change, 0.0), exact)
        border = self.correlate(change[None])[0]
        H[q, :q] += border
        H[:q, q] = H[q, :q]
        H[q, q] = bends.sum()
        return System(H, bends)

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        count = self.n_rows if rows is None else len(rows)
        out = np.empty((count, self.n), self.dtype)
        self._combined(weights, rows, lambda part, block: np.copyto(out[part], block))
        return out

    def add_combined(self, weights: ArrayLike, rows: Indices | None, out: np.ndarray) -> None:
        """``out += combine(weights, rows)``, without a matrix of that size besides."""

        def add(part: slice, block: np.ndarray) -> None:
            out[part] += block

        self._combined(weights, rows, add)

    def _combined(
        self, weights: ArrayLike, rows: Indices | None, use: Callable[[slice, np.ndarray], None]
    ) -> None:
        """Call ``use(part, block)`` with blocks of rows of the combined kernel."""
        columns = self.column_weights(weights)
        columns[columns < NEGLIGIBLE * columns.max(initial=0.0)] = 0.0
        used: Any = np.flatnonzero(columns)
        columns = columns.astype(self.dtype)
        used_columns = used.size
        if used_columns > DENSE_SHARE * columns.size:  # else a copy pays
            used = slice(None)
        count = max(1, min(self.threads.count, used_columns * self.n**2 // PRODUCTS_PER_THREAD))
        if rows is None and self.symmetric and count <= 2 and self.n <= SYMMETRIC_POINTS:
            rooted = self.factors[:, used] * np.sqrt(columns[used])
            use(slice(None), rooted @ rooted.T)  # of which the matrix library computes one half
            return
        right = np.ascontiguousarray(self.right[:, used])
        left = self.factors[:, used] if rows is None else self.factors[rows][:, used]

        def fill(part: slice) -> None:
            use(part, (left[part] * columns[used]) @ right.T)

        step = min(COMBINED_ROWS, -(-len(left) // count))
        Threads(count).map(fill, blocks(len(left), max(1, step)))

    def combine_rooted(self, root: np.ndarray, rows: Indices | None = None) -> np.ndarray:
        """``V C C' V'`` for a matrix C, or the chosen rows of it."""
        root = root.astype(self.dtype)
        rotated = np.empty((self.n_rows, root.shape[1]), self.dtype)

        def fill(part, block):
            rotated[part] = block @ root

        self.visit(fill)
        return self.with_factors(rotated).combine(np.ones(1), rows)

    def products(self, beta: ArrayLike) -> np.ndarray:
        moments = self.correlate(as_outputs(beta, self.n))
        out = self.zeros((self.m, moments.shape[0], self.n_rows))
        self._multiply_each(moments, out.swapaxes(1, 2))
        return here(out if np.ndim(beta) == 2 else out[:, 0])

    def columns(self, chosen: Indices) -> np.ndarray:
        few = self.rows(chosen)
        out = self.zeros((self.m, self.n_rows, len(few)))
        self._multiply_each(few, out)
        return here(out)

    def _multiply_each(self, short: Any, out: Any) -> None:
        """``out[k] = V_k short_k'`` of every kernel, (m, n_rows, t), for short vectors (t, r)."""
        if self.width * len(short) <= NARROW_COLUMNS * self.m and isinstance(out, np.ndarray):
            self.visit(lambda part, block: loops.dot_each(block, self.offsets, short, out[:, part]))
            return
        short = self.multiplier(short)

        def fill(part, block):
            block = as_dtype_of(block, short)
            for k in range(self.m):
                out[k, part] = block[:, self._own(k)] @ short[:, self._own(k)].T

        self.visit(fill, 12 * self.width + 16 * len(short))

    def diagonal(self) -> np.ndarray:
        self._needs_square("diagonal")
        return here(self._diagonals).copy()

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        self._needs_square("combined_diagonal")
        return here(self._combined_diagonal(weights))

    def largest(self, weights: ArrayLike) -> float:
        self._needs_square("largest")
        return float(self._combined_diagonal(weights).max())

    def _combined_diagonal(self, weights: ArrayLike) -> Any:
        return self.to_device(np.asarray(weights, dtype=float)) @ self._diagonals

    @cached_property
    def _diagonals(self) -> Any:
        """Of the kernels, (m, n), where the bank computes; kept, because every certificate asks for
        their sum.
        """
        out = self.zeros((self.m, self.n_rows))

        def fill(part, block):
            if isinstance(out, np.ndarray):
                loops.square_each(block, self.offsets, out[:, part])
                return
            for k in range(self.m):
                out[k, part] = squared_lengths(block[:, self._own(k)])

        self.visit(fill, 20 * self.width)
        return out

    def decision(self, weights: ArrayLike, beta: Any) -> Any:
        scores = self.values(self.coefficients(weights, beta))
        if is_tensor(beta):
            return scores
        return here(scores if np.ndim(beta) == 2 else scores[0])

    # --- other points and kernels -----------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_wanted": {}}

    def cross(self, X_new: Any, support: Indices | None = None) -> "FactorBank":
        right = self.right if support is None else self.right[support]
        return FactorBank(
            self.features.transform(X_new), self.offsets, self.features, self.threads, right=right
        )

    def refined(self) -> "FactorBank | None":
        """The same factors in float64, for kernels of all pairs of points that are made of them;
        systems of equations in the space of factors have sums in float64 in any case.
        """
        is_plain = type(self) is FactorBank and self.symmetric
        if not is_plain or self.dtype == np.float64 or self.prefers_factor_space:
            return None
        return FactorBank(self.whole(), self.offsets, self.features, self.threads)

    def take_points(self, points: Indices) -> "FactorBank":
        return FactorBank(self.factors[points], self.offsets, self.features, self.threads)

    def scaled(self, factors: np.ndarray) -> "FactorBank":
        """The kernels of training points, each times a factor (m,)."""
        root = np.sqrt(np.repeat(factors, np.diff(self.offsets))).astype(self.dtype)
        return FactorBank(self.factors * root, self.offsets, self.features, self.threads)

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "FactorBank | None":
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


def blocks(count: int, step: int | None = None) -> list[slice]:
    """Slices of so many rows that are worked on together."""
    step = step or ROWS
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]
