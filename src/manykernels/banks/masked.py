"""A bank of Gaussian kernels on arbitrary feature subsets, a million of them as easily as ten."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._loops.exponentials import add_rows, combine_rows, multiply_rows, sweep_rows, take_powers
from .._loops.rbf import LOG2_E
from ..kernels.points import as_points
from ..kernels.vector import dense
from .base import SumBank, Sums, as_outputs, mirror, support_of
from .compute import Compute, Points
from .kernel_set import Delegating, Indices
from .spec import MaskedSpec

# Kernels of a chunk: its exponents on a block of pairs (1 MB in float32) stay in the second-level
# cache. Those of a larger one do not.
KERNELS = 512
# Largest square of a feature difference: a larger one would not be a number in float32.
LARGEST_SQUARE = 1e30


@dataclass(frozen=True)
class Sizes:
    """Numbers of the blocks.

    Attributes
    ----------
    negligible_weight : float
        Weight relative to the largest, up to which a kernel is left out of a sum. With a larger one
        sums lose digits.
    held_chunks : int
        Chunks whose factors are held at a time where blocks of pairs are shared out among the
        threads. More of them take more memory, and fewer passes over the pairs.
    block_pairs : int
        Pairs of points of a block. The exponents of larger ones do not stay in cache.
    held_bytes : int
        Bytes of arrays about pairs that are kept. If they are more, they are computed whenever
        their block is asked for.
    """

    negligible_weight: float = 1e-20
    held_chunks: int = 32
    block_pairs: int = 512
    held_bytes: int = 2**26


SIZES = Sizes()


class MaskedBank(Delegating, SumBank):
    """Gaussians ``exp(-gamma_k sum_f mask_kf (x_f - y_f)^2)``, from two arrays.

    The exponents of a chunk of kernels on a block of pairs are one matrix product, ``D @ (gammas *
    masks)'``, where D holds the squared feature differences of the pairs. Among the training points
    each pair is visited once.

    Parameters
    ----------
    spec : MaskedSpec
        The kernels and their scale.
    points : Points
        Dense; the same object as rows and columns for the training bank.
    compute : Compute
    """

    inner = "spec"
    streams = True
    cheap_subsets = True

    def __init__(self, spec: MaskedSpec, points: Points, compute: Compute) -> None:
        self.spec, self.compute = spec, compute
        self.left, self.right = points
        self.n_rows, self.n = self.left.shape[0], self.right.shape[0]
        self.dtype, self.threads = compute.dtype, compute.threads

    def _like(self, spec: Any = None, points: Any = None, dtype: DTypeLike | None = None) -> Self:
        """A copy of the bank, but for the parts that are given."""
        return type(self)(
            spec or self.spec,
            points or Points(self.left, self.right),
            self.compute if dtype is None else replace(self.compute, dtype=dtype),
        )

    @property
    def symmetric(self) -> bool:
        return self.left is self.right

    @property
    def masked(self) -> Any:
        """The kernels as arrays of widths and masks."""
        return self.spec.masked

    @property
    def scale(self) -> Any:
        """The factor of all kernels."""
        return self.spec.scale

    def nonnegative(self) -> bool:
        return True

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Any:
        return self._like(self.spec.take_kernels(kernels, factor))

    def combine(self, weights: Any, rows: Any = None) -> np.ndarray:
        weights = self._scaled(weights)
        active = np.flatnonzero(weights)
        triangle = rows is None and self.symmetric
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        parts = _slices(active.size, SIZES.held_chunks * KERNELS)
        pairs = Pairs(
            rows.size, self.n, triangle, lambda i, j: (self._differences(rows[i], j),), len(parts)
        )
        totals = np.full(pairs.size, weights.sum())
        for some in parts:
            chunks = [active[some][part] for part in _slices(active[some].size)]
            factors = [
                (self._factors(kernels), weights[kernels].astype(self.dtype)) for kernels in chunks
            ]

            def add(number, factors=factors):
                block, buffer = pairs[number], self._buffer()
                for one, w in factors:
                    combine_rows(_exponents(block, one, buffer), w, totals[block.place])

            self.threads.map(add, range(len(pairs)))
        if triangle:
            return _square(totals, weights.sum(), self.n, self.dtype)
        return totals.astype(self.dtype).reshape(rows.size, self.n)

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        beta = as_outputs(beta, self.n)
        return self._bilinear_forms([(beta, beta)])[0]

    def directional_forms(self, beta: ArrayLike, change: ArrayLike) -> tuple[np.ndarray, ...]:
        beta, change = as_outputs(beta, self.n), as_outputs(change, self.n)
        return tuple(self._bilinear_forms([(beta, change), (change, change)]))

    def _bilinear_forms(self, couples: list) -> np.ndarray:
        """``sum_c a_c' K_k b_c`` of every kernel for some couples (a, b), (len(couples), m)."""
        self._needs_square("quadratic_forms")
        support = support_of(np.concatenate([part for couple in couples for part in couple]))
        couples = [(a[:, support], b[:, support]) for a, b in couples]

        def describe(i, j):
            both = [(a[:, i] * b[:, j] + a[:, j] * b[:, i]).sum(axis=0) for a, b in couples]
            return self._differences(support[i], support[j]), np.stack(both).astype(self.dtype)

        pairs = Pairs(support.size, support.size, True, describe, len(self._chunks))
        out = np.empty((len(couples), self.m))
        out[...] = np.array([a.sum(axis=1) @ b.sum(axis=1) for a, b in couples])[:, None]

        def add(kernels):
            for block, exponents in self._tables(kernels, pairs):
                part = np.zeros((len(couples), exponents.shape[1]), dtype=self.dtype)
                add_rows(exponents, block.arrays[1], part)
                out[:, kernels] += part

        self.threads.map(add, self._chunks)
        return out * self.scale

    def products(self, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        points = np.arange(self.n) if self.symmetric else support_of(outputs)
        coefficients = np.ascontiguousarray(outputs[:, points])
        chunks = self._chunks
        pairs = Pairs(
            self.n_rows,
            points.size,
            self.symmetric,
            lambda i, j: (self._differences(i, points[j]),),
            len(chunks),
        )
        out = np.empty((self.m, outputs.shape[0], self.n_rows))
        out[...] = outputs.sum(axis=1)[None, :, None]

        def multiply(kernels):
            part = np.zeros((outputs.shape[0], self.n_rows, kernels.stop - kernels.start))
            for block, exponents in self._tables(kernels, pairs):
                multiply_rows(exponents, block.rows, block.cols, coefficients, self.symmetric, part)
            out[kernels] += part.transpose(2, 0, 1)

        self.threads.map(multiply, chunks)
        out *= self.scale
        return out if np.ndim(beta) == 2 else out[:, 0]

    def newton_sums(self, weights: Any, beta: Any, J: Any) -> Any:
        self._needs_square("newton_sums")
        beta, weights = as_outputs(beta, self.n), self._scaled(weights)
        pairs = Pairs(
            self.n, self.n, True, lambda i, j: (self._differences(i, j),), len(self._chunks)
        )
        totals, coefficients = beta.sum(axis=1).astype(self.dtype), beta.astype(self.dtype)

        def visit(chunks):
            share = _Share(beta, pairs.size)
            for kernels in chunks:
                w = weights[kernels].astype(self.dtype)
                products = np.empty((*beta.shape, w.size), dtype=self.dtype)
                products[...] = totals[:, None, None]
                for block, exponents in self._tables(kernels, pairs):
                    sweep_rows(
                        exponents,
                        block.rows,
                        block.cols,
                        w,
                        coefficients,
                        share.combined[block.place],
                        products,
                    )
                share.add(products, J.diagonal[kernels], J.vector[kernels])
            return share

        # whose part a chunk is must not depend on which thread is faster: sums are rounded
        chunks = self._chunks
        count = min(self.threads.count, len(chunks))
        shares = self.threads.map(visit, [chunks[first::count] for first in range(count)])
        total = weights.sum()
        K = _square(total + sum(share.combined for share in shares), total, self.n, np.float64)
        squares = self.scale**2 * sum(share.squares for share in shares)
        for c in range(len(beta)):
            squares[c, :c] = squares[:c, c].transpose(0, 2, 1)
        return Sums(K, squares, self.scale * sum(share.mixed for share in shares))

    def columns(self, chosen: Indices) -> np.ndarray:
        chosen = np.asarray(chosen)
        i, j = (
            index.ravel() for index in np.meshgrid(np.arange(self.n_rows), chosen, indexing="ij")
        )
        out = np.empty((self.m, self.n_rows, chosen.size))
        for kernels in _slices(self.m):
            exponents = self._factors(kernels) @ self._differences(i, j).T
            out[kernels] = np.exp2(-exponents).reshape(-1, self.n_rows, chosen.size)
        return out * self.scale

    def kernel_rows(self, chosen: Indices, points: Indices) -> np.ndarray:
        self._needs_square("kernel_rows")
        out = np.empty((len(chosen), self.m, len(points)), dtype=self.dtype)

        def fill(kernels, rows, first):
            out[:, kernels] = rows[:, first : first + kernels.stop - kernels.start]

        self._visit(chosen, points, fill)
        return out

    def visit_kernel_rows(self, chosen: Indices, visitor: Callable) -> None:
        self._visit(chosen, np.arange(self.n), visitor)

    def _visit(self, chosen: Indices, points: Any, visitor: Callable) -> None:
        """`visit_kernel_rows` over some points."""
        differences = [np.ascontiguousarray(self._differences([i], points).T) for i in chosen]

        def fill(kernels):
            factors = self._factors(kernels)
            rows = np.empty((len(differences), factors.shape[0], len(points)), dtype=self.dtype)
            for row, squares in zip(rows, differences, strict=True):
                np.matmul(factors, squares, out=row)
            take_powers(rows.reshape(-1, len(points)), self.scale)
            visitor(kernels, rows, 0)

        self.threads.map(
            fill,
            _slices(
                self.m,
                max(KERNELS, KERNELS * SIZES.block_pairs // max(len(chosen) * len(points), 1)),
            ),
        )

    def diagonal(self) -> np.ndarray:
        self._needs_square("diagonal")
        return np.broadcast_to(self.scale, (self.m, self.n))

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        return np.full(self.n, self.scale * np.sum(weights))

    def refined(self) -> Any:
        return None if self.dtype == np.float64 else self._like(dtype=np.float64)

    def cross(self, X_new: Any, support: Indices | None = None) -> "SumBank":
        X_new = as_points(X_new, like=self.right)
        right = self.right if support is None else self.right[support]
        return self._like(points=Points(X_new, right), dtype=np.float64)

    def same_data(self, X: Any) -> bool:
        return np.array_equal(dense(X), self.right)

    def _scaled(self, weights: ArrayLike) -> Any:
        """Weights times the scale, without those that cannot matter: denormal numbers would make
        the loops slow.
        """
        weights = np.asarray(weights, dtype=float) * self.scale
        return np.where(
            np.abs(weights) > SIZES.negligible_weight * np.abs(weights).max(initial=0.0),
            weights,
            0.0,
        )

    def _factors(self, kernels: Indices) -> Any:
        """Exponent per squared feature difference, (kernels, n_features), in base two."""
        gammas = (self.masked.gammas[kernels] * LOG2_E).astype(self.dtype)
        return self.masked.masks(kernels) * gammas[:, None]

    def _differences(self, rows: Any, cols: Any) -> Any:
        """Squared feature differences of pairs, (pairs, n_features)."""
        differences = self.left[rows] - self.right[cols]
        # bounded, since an infinite difference in a feature that a mask leaves out would make 0
        # times infinity of it
        return np.minimum(
            np.square(differences, out=differences), LARGEST_SQUARE, out=differences
        ).astype(self.dtype)

    @property
    def _chunks(self) -> Any:
        """Slices of the kernels, enough of them for all threads unless that makes them short."""
        return _slices(self.m, min(KERNELS, max(KERNELS // 4, -(-self.m // self.threads.count))))

    def _tables(self, kernels: Indices, pairs: Any) -> Any:
        """Blocks of pairs, each with its table of exponents, (pairs, kernels), in one buffer."""
        factors, buffer = self._factors(kernels), self._buffer()
        return ((block, _exponents(block, factors, buffer)) for block in pairs)

    def _buffer(self) -> Any:
        """Room for a table."""
        return np.empty(SIZES.block_pairs * KERNELS, dtype=self.dtype)


class _Share:
    """The sums that a thread has added up in a sweep."""

    def __init__(self, beta: Any, pairs: Any) -> None:
        (t, n), self.combined = beta.shape, np.zeros(pairs)
        self.squares, self.mixed = np.zeros((t, t, n, n)), np.zeros((t, n))

    def add(self, products: Any, diagonal: np.ndarray, vector: np.ndarray) -> None:
        """The part of some kernels, from their products (t, n, kernels)."""
        rows = products * np.sqrt(diagonal).astype(products.dtype)
        for c in range(len(rows)):
            for other in range(c, len(rows)):
                self.squares[c, other] += rows[c] @ rows[other].T
        self.mixed += products @ vector.astype(products.dtype)


def _exponents(block: Any, factors: np.ndarray, buffer: Any) -> Any:
    """The table of a block of pairs and a chunk of kernels."""
    shape = block.rows.size, len(factors)
    return np.matmul(block.arrays[0], factors.T, out=buffer[: shape[0] * shape[1]].reshape(shape))


def _square(below: Any, diagonal: np.ndarray, n: int, dtype: DTypeLike) -> Any:
    """A symmetric matrix from its entries below the diagonal, line by line, and the one on it."""
    out = np.full((n, n), diagonal, dtype=dtype)
    for i in range(1, n):
        out[i, :i] = below[i * (i - 1) // 2 : i * (i + 1) // 2]
    mirror(out)
    return out


def _slices(size: int, step: Any = None) -> Any:
    step = step or KERNELS
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


# --- pairs of points in blocks --------------------------------------------------------------------


class Block(NamedTuple):
    """Some pairs ``(rows[p], cols[p])``, their place among all, and arrays that describe them."""

    place: slice
    rows: np.ndarray
    cols: np.ndarray
    arrays: tuple


class Pairs:
    """All pairs (i, j) of so many rows and columns, or those below the diagonal, in blocks.

    Parameters
    ----------
    n_rows, n_cols : int
    triangle : bool
        Only pairs with ``i > j``, line by line as `numpy.tril_indices` has them.
    describe : callable
        ``describe(i, j)`` returns a tuple of arrays about the pairs of a block.
    uses : int
        How often every block is asked for; after the first time, if there is room, it is not
        computed again.
    """

    def __init__(
        self, n_rows: Any, n_cols: Any, triangle: Any, describe: Any, uses: Any = 2
    ) -> None:
        self.triangle, self.n_cols, self.describe = triangle, n_cols, describe
        self.size = n_rows * (n_rows - 1) // 2 if triangle else n_rows * n_cols
        self._held = None
        if (
            uses > 1
            and self.size
            and sum(array.nbytes for array in self[0].arrays) * len(self) <= SIZES.held_bytes
        ):
            self._held = [self[number] for number in range(len(self))]

    def __len__(self) -> int:
        return -(-self.size // SIZES.block_pairs)

    def __iter__(self) -> Any:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: Any) -> Any:
        if self._held is not None:
            return self._held[number]
        place = slice(number * SIZES.block_pairs, min((number + 1) * SIZES.block_pairs, self.size))
        i, j = self._indices(np.arange(place.start, place.stop))
        return Block(place, i, j, self.describe(i, j))

    def _indices(self, places: Any) -> Any:
        if not self.triangle:
            return np.divmod(places, self.n_cols)
        i = ((1.0 + np.sqrt(1.0 + 8.0 * places)) / 2.0).astype(np.intp)
        i -= i * (i - 1) // 2 > places  # rounding of the root
        return i, places - i * (i - 1) // 2
