"""A bank that computes its kernels on the fly, tile by tile.

Nothing of size m×n×n is held for the library's own kernels; of kernels that a user's code computes,
as many Gram matrices are kept as the memory budget allows, since that code may be slow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from ..kernels import RBF, Hamming, Laplacian, Precomputed
from ..kernels.overlaps import Overlap
from ..kernels.points import as_points
from .base import SumBank, Sums, as_outputs, mirror, support_of
from .compute import Compute, Points
from .families import (
    DistanceGaussians,
    DistanceLaplacians,
    DotPolynomials,
    FeatureGaussians,
    FeaturePolynomials,
    OneKernel,
    Tile,
)
from .kernel_set import Delegating, Indices
from .spec import SINGLE, BankSpec, grouped

NONNEGATIVE = RBF, Laplacian, Overlap, Hamming
# Rows and columns of a tile: a line of float32 columns stays in the first-level cache. Longer ones
# do not.
ROWS, COLS = 64, 1024
# Rows of a tile of a large combined kernel: longer products of matrices are faster. With more of
# them there are fewer tiles to share out.
TALL = 256
# Columns of a block that is written to both triangles of all matrices, and rows at most. Larger
# blocks do not stay in cache.
SQUARE = 256
# Outputs from which on the values of kernels are written down to be multiplied. With a larger
# number more outputs are multiplied one by one.
MANY = 6
# Values of all kernels that are written down at a time. More of them do not stay in cache.
BLOCK = 2**18
# Tasks per thread, or strips per task if that makes more. With more of them threads wait less for
# the last one, and sums are added up more often.
TASKS_PER_THREAD = 8
# Rows of every kernel that one task computes, or a share of many. With more of them there are fewer
# tasks.
ROWS_PER_TASK = 4


class TiledBank(Delegating, SumBank):
    """Kernels on the fly, grouped into families (see `manykernels.banks.families`).

    Parameters
    ----------
    spec : BankSpec
        The kernels, their features and their normalization.
    points : Points
        Arrays or CSR matrices; the same object as rows and columns for the training bank.
    compute : Compute
    held : mapping
        Gram matrices of kernels that are too dear to compute more than once, by kernel number.
    """

    inner, shares_passes = "spec", True
    _latest: tuple[np.ndarray, list] = np.empty(0), []

    def __init__(
        self,
        spec: BankSpec,
        points: Points,
        compute: Compute,
        held: Mapping[int, Precomputed] | None = None,
    ) -> None:
        self.spec, self.compute, self.held = spec, compute, held or {}
        self.left, self.right = points
        self.n_rows, self.n = self.left.shape[0], self.right.shape[0]
        self.dtype, self.threads = compute.dtype, compute.threads

    @cached_property
    def families(self) -> list:
        """The kernels by families, made when the host first needs them."""
        return assemble(self.spec, Points(self.left, self.right), self.dtype.type, self.held)

    def _like(self, points: Any = None, dtype: DTypeLike | None = None, held: Any = None) -> Self:
        """A copy of the bank, but for the parts that are given."""
        return type(self)(
            self.spec,
            points or Points(self.left, self.right),
            self.compute if dtype is None else replace(self.compute, dtype=dtype),
            held,
        )

    def forgetful(self) -> Self:
        """The bank without the Gram matrices that it holds."""
        return self._like()

    @property
    def symmetric(self) -> bool:
        return self.left is self.right

    def nonnegative(self) -> np.ndarray:
        return np.array([isinstance(kernel, NONNEGATIVE) for kernel in self.spec.kernels])

    def combine(self, weights: Any, rows: Any = None) -> np.ndarray:
        active = self._prepared(np.asarray(weights, dtype=float))
        triangle = rows is None and self.symmetric
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        out = np.zeros((rows.size, self.n), dtype=self.dtype)

        def fill(part):
            for cols, tile in _tiles(
                rows[part], np.arange(self.n), part.start if triangle else None
            ):
                block = np.zeros((tile.rows.size, tile.cols.size), dtype=self.dtype)
                for family, prepared in active:
                    family.combine(prepared, tile, block)
                out[part, cols] = block

        self.threads.map(
            fill, _strips(rows.size, TALL if rows.size >= TALL * self.threads.count else ROWS)
        )
        if triangle:
            mirror(out)
        return out

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {k: v for k, v in state.items() if k not in ("families", "_latest")}  # made anew

    def _prepared(self, weights: Any) -> Any:
        """Families with a weight above zero, and the weights as they want them; those of the last
        call are kept.
        """
        last, prepared = self._latest
        if not np.array_equal(weights, last):
            used = [family for family in self.families if weights[family.members].any()]
            prepared = [(family, family.prepared(weights[family.members])) for family in used]
            self._latest = weights.copy(), prepared
        return prepared

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        beta = as_outputs(beta, self.n)
        return self._bilinear_forms([(beta, beta)])[0]

    def _bilinear_forms(self, couples: list) -> np.ndarray:
        """``sum_c a_c' K_k b_c`` of every kernel for some couples (a, b), (len(couples), m)."""
        self._needs_square("quadratic_forms")
        support = support_of(np.concatenate([part for couple in couples for part in couple]))
        out = np.zeros((len(couples), self.m))
        for family in self.families:
            if family.explicit:
                for row, (a, b) in zip(out, couples, strict=True):
                    row[family.members] = family.forms(a, b)
        pairwise = [family for family in self.families if not family.explicit]
        couples = [((some := a[:, support]), some if b is a else b[:, support]) for a, b in couples]

        def sums(parts):
            totals = [[family.moments() for family in pairwise] for _ in couples]
            for part in parts:
                for cols, tile in _tiles(support[part], support, part.start):
                    for (a, b), total in zip(couples, totals, strict=True):
                        B = _pair_weights(a, b, part, cols, tile.first).astype(self.dtype)
                        for family, moments in zip(pairwise, total, strict=True):
                            family.add_forms(B, tile, moments)
            return totals

        strips = _strips(support.size) if pairwise else []
        count = max(TASKS_PER_THREAD * self.threads.count, len(strips) // TASKS_PER_THREAD)
        shares = self.threads.map(sums, [strips[i::count] for i in range(min(count, len(strips)))])
        for place, row in enumerate(out):
            for number, family in enumerate(pairwise):
                row[family.members] = family.gathered(
                    sum((share[place][number] for share in shares), family.moments())
                )
        return out

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.cheap_sweeps

    @property
    def cheap_sweeps(self) -> bool:  # type: ignore[override]
        # those of other pairs of points are never looked up in tables
        alone, groups = grouped(self.spec, self.held)
        if alone or any(kind == "dot" or columns == SINGLE for kind, columns in groups):
            return False
        return bool(self.families) and all(family.tabulated for family in self.families)

    def directional_forms(self, beta: ArrayLike, change: ArrayLike) -> tuple[np.ndarray, ...]:
        if not self.streams:
            return super().directional_forms(beta, change)
        beta, change = as_outputs(beta, self.n), as_outputs(change, self.n)
        return tuple(self._bilinear_forms([(beta, change), (change, change)]))

    def newton_sums(self, weights: ArrayLike, beta: ArrayLike, J: Any) -> Any:
        if not self.streams:
            return super().newton_sums(weights, beta, J)
        outputs, sums = as_outputs(beta, self.n), []
        for family in self.families:
            moments = self._moments(family, outputs)
            sums.append(
                family.swept(
                    moments, J.diagonal[family.members], J.vector[family.members], self.threads
                )
            )
        (squares, mixed), *others = sums
        for more, mixed_more in others:
            squares += more
            mixed += mixed_more
        return Sums(self.combine(weights), squares, mixed)

    def _moments(self, family: Any, outputs: np.ndarray) -> Any:
        """The sums of `add_products` for all points at once, (t, n, cells, degree + 1), without the
        cells that no pair is in.
        """
        support = support_of(outputs)

        def fill(part):
            moments = family.moments(outputs.shape[0], part.stop - part.start)
            for _, tile in _tiles(np.arange(self.n)[part], support, None):
                family.add_products(outputs[:, tile.cols], tile, moments)
            used = np.flatnonzero(moments.any(axis=(0, 1, 3)))
            return part, used, moments[:, :, used]

        parts = self.threads.map(fill, _strips(self.n))
        cells = np.unique(np.concatenate([used for _, used, _ in parts]))
        out = np.zeros((outputs.shape[0], self.n, cells.size, parts[0][2].shape[-1]))
        for part, used, moments in parts:
            out[:, part, np.searchsorted(cells, used)] = moments
        return cells, out

    def products(self, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        if len(outputs) >= MANY:
            out = self._many_products(outputs)
            return out if np.ndim(beta) == 2 else out[:, 0]
        support = support_of(outputs)
        out = np.zeros((self.m, outputs.shape[0], self.n_rows))

        def multiply(part):
            totals = [
                family.moments(outputs.shape[0], part.stop - part.start) for family in self.families
            ]
            for _, tile in _tiles(np.arange(self.n_rows)[part], support, None):
                for family, moments in zip(self.families, totals, strict=True):
                    family.add_products(outputs[:, tile.cols], tile, moments)
            for family, moments in zip(self.families, totals, strict=True):
                out[family.members, :, part] = family.gathered(moments)

        self.threads.map(multiply, _strips(self.n_rows))
        return out if np.ndim(beta) == 2 else out[:, 0]

    def _many_products(self, outputs: np.ndarray) -> Any:
        """Products with so many outputs that it is cheaper to write the values of all kernels down,
        block by block, and to multiply matrices.
        """
        support = support_of(outputs)
        beta = np.ascontiguousarray(outputs[:, support].T, dtype=self.dtype)
        out = np.zeros((self.m, len(outputs), self.n_rows))

        def multiply(part):
            total = np.zeros((part.stop - part.start, self.m, len(outputs)))
            for places, block in self._blocks(part, support):
                flat = block.reshape(-1, block.shape[2])
                total += (flat @ beta[places]).reshape(total.shape)
            out[:, :, part] = total.transpose(1, 2, 0)

        self.threads.map(multiply, self._thin_strips(support.size))
        return out

    def combine_each(self, weights: ArrayLike) -> np.ndarray:
        weights = np.ascontiguousarray(weights, dtype=self.dtype)
        if len(weights) < MANY:
            return super().combine_each(weights)
        out = np.zeros((len(weights), self.n_rows, self.n), dtype=self.dtype)

        def fill(part):
            cols = np.arange(part.stop if self.symmetric else self.n)
            for places, block in self._blocks(part, cols):
                out[:, part, places] = np.matmul(weights, block).transpose(1, 0, 2)

        self.threads.map(fill, self._thin_strips(self.n))
        if self.symmetric:
            for kernel in out:
                mirror(kernel)
        return out

    def _thin_strips(self, columns: Any) -> Any:
        """Strips of so few rows that the values of all kernels in them stay in cache."""
        entries = self.m * min(max(columns, 1), COLS)
        return _strips(self.n_rows, max(1, BLOCK // max(entries, 1)))

    def _blocks(self, part: slice, points: Any) -> Iterator[Any]:
        """Places among some points, and the values of all kernels at them, (rows, m, points)."""
        rows = np.arange(self.n_rows)[part]
        for start in range(0, points.size, COLS):
            places = slice(start, min(start + COLS, points.size))
            block = np.zeros((rows.size, self.m, places.stop - start), dtype=self.dtype)
            tile = Tile(rows, points[places], points.size)
            for family in self.families:
                family.write(tile, block)
            yield places, block

    def matrices(self) -> np.ndarray:
        """All matrices: every pair once, in blocks that stay in cache and are written to both
        triangles.
        """
        self._needs_square("matrices")
        out, points = np.empty((self.m, self.n, self.n), self.dtype), np.arange(self.n)
        height = max(8, min(SQUARE, BLOCK // (self.m * SQUARE)))

        def fill(rows: slice) -> None:
            for cols in _strips(rows.stop, SQUARE):
                shape = rows.stop - rows.start, self.m, cols.stop - cols.start
                block = np.zeros(shape, out.dtype)
                for family in self.families:
                    family.write(Tile(points[rows], points[cols], COLS), block)
                for k in range(self.m):
                    out[k, cols, rows] = block[:, k].T
                    out[k, rows, cols] = block[:, k]  # the last word on the diagonal

        self.threads.map(fill, _strips(self.n, height), entries=out.size)
        return out

    def columns(self, chosen: Indices) -> np.ndarray:
        chosen = np.asarray(chosen)
        out = np.zeros((self.m, self.n_rows, chosen.size))
        for part in _strips(self.n_rows):
            tile = Tile(np.arange(self.n_rows)[part], chosen, chosen.size)
            for family in self.families:
                out[family.members, part] = family.values(tile)
        return out

    def kernel_rows(self, chosen: Indices, points: Indices) -> np.ndarray:
        self._needs_square("kernel_rows")
        chosen, points = np.asarray(chosen), np.asarray(points)
        out = np.zeros((chosen.size, self.m, points.size), dtype=self.dtype)

        step = min(max(ROWS_PER_TASK, -(-chosen.size // (4 * self.threads.count))), ROWS)

        def fill(row):
            part = slice(row, row + step)
            for family in self.families:
                family.write(Tile(chosen[part], points, points.size), out[part])

        def fill_some(part):  # the loops want contiguous arrays
            block = np.zeros((chosen.size, self.m, part.stop - part.start), dtype=self.dtype)
            for family in self.families:
                family.write(Tile(chosen, points[part], points.size), block)
            out[:, :, part] = block

        if chosen.size <= ROWS_PER_TASK and points.size > self.threads.count * ROWS:
            size = -(-points.size // self.threads.count)
            self.threads.map(
                fill_some,
                [slice(at, min(at + size, points.size)) for at in range(0, points.size, size)],
            )
        else:
            self.threads.map(fill, range(0, chosen.size, step))
        return out

    def diagonal(self) -> np.ndarray:
        self._needs_square("diagonal")
        out = np.zeros((self.m, self.n))
        for k in self.spec.alive:
            out[k] = self._diagonal(k)
        return out

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        self._needs_square("combined_diagonal")
        weights = np.asarray(weights, dtype=float)
        chosen, diagonals = self._other_diagonals
        return weights[chosen] @ diagonals + float(
            weights[self._constant] @ self.spec.scales[self._constant]
        )

    @cached_property
    def _constant(self) -> Any:
        """Kernels whose diagonal is constant."""
        return np.array(
            [k for k in self.spec.alive if self.spec.kernels[k].unit_diagonal], dtype=np.intp
        )

    @cached_property
    def _other_diagonals(self) -> Any:
        """The other kernels, and their diagonals."""
        chosen = np.setdiff1d(self.spec.alive, self._constant)
        return chosen, np.array([self._diagonal(k) for k in chosen]).reshape(chosen.size, self.n)

    def _diagonal(self, k: int) -> Any:
        if k in self.held:
            return self.spec.scales[k] * np.diagonal(self.held[k].K)
        return self.spec.diagonal(k, self.right)

    def refined(self) -> Any:
        if self.dtype == np.float64:
            return None
        return self._like(dtype=np.float64, held=self.held)

    def cross(self, X_new: Any, support: Indices | None = None) -> "SumBank":
        X_new = as_points(X_new, like=self.right)
        right = self.right if support is None else self.right[support]
        return self._like(Points(X_new, right), np.float64)

    def take_points(self, points: Any) -> "SumBank | None":
        held = {k: Precomputed(kernel.K[np.ix_(points, points)]) for k, kernel in self.held.items()}
        return self._like(Points.square(self.right[points]), held=held)

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        chosen = np.arange(self.m)[kernels]
        held = {place: self.held[k] for place, k in enumerate(chosen) if k in self.held}
        points = Points(self.left, self.right)
        return type(self)(self.spec.take_kernels(chosen, factor), points, self.compute, held)

    def same_data(self, X: Any) -> bool:
        if X.shape != self.right.shape:
            return False
        X = as_points(X, like=self.right, missing=True)
        return (X != self.right).nnz == 0 if sparse.issparse(X) else np.array_equal(X, self.right)


def assemble(spec: Any, points: Any, dtype: DTypeLike, held: Any) -> Any:
    """The families of a bank: kernels of the same pairwise number together, every other kernel by
    itself.
    """
    alone, groups = grouped(spec, held)
    return [one_kernel(spec, k, points, dtype, held) for k in alone] + [
        _family(spec, key, np.array(members), points, dtype) for key, members in groups.items()
    ]


def one_kernel(spec: Any, k: int, points: Any, dtype: DTypeLike, held: Any) -> Any:
    """The family of a kernel by itself."""
    if k in held:
        index = Points.square(np.arange(points.right.shape[0])[:, None])
        return OneKernel(k, held[k], spec.scales[k], index, dtype)
    seen = spec.points(k, points)
    kernel, factors = spec.kernels[k], spec.factors(k, seen)
    return OneKernel(k, kernel, spec.scales[k], seen.each(kernel.laid_out), dtype, factors)


def _family(spec: Any, key: Any, members: Indices, points: Any, dtype: DTypeLike) -> Any:
    (kind, columns), scales = key, spec.scales[members]
    kernels = [spec.kernels[k] for k in members]
    if columns == SINGLE:
        features = np.array([spec.columns[k][0] for k in members])
        if kind == "distance":
            gammas = np.array([kernel.gamma for kernel in kernels])
            return FeatureGaussians(members, features, gammas, scales, points, dtype)
        return FeaturePolynomials(members, features, kernels, scales, points, dtype)
    seen = spec.points(members[0], points)
    if kind != "dot":
        family = DistanceGaussians if kind == "distance" else DistanceLaplacians
        return family(members, np.array([kernel.gamma for kernel in kernels]), scales, seen, dtype)
    return DotPolynomials(members, kernels, scales, seen, dtype)


def _strips(size: Any, rows: Any = ROWS) -> Any:
    """Strips of rows, the last first: in a triangle those are the longest, and the shortest should
    end the queue.
    """
    return [slice(start, min(start + rows, size)) for start in range(0, size, rows)][::-1]


def _tiles(rows: Any, cols: Any, diagonal: Any) -> Iterator[Any]:
    """Places of the columns and tile, column block by column block of a strip of rows.

    Where only the lower triangle counts, ``diagonal`` is the place of the strip's first row among
    the columns.
    """
    stop = cols.size if diagonal is None else diagonal + rows.size
    for start in range(0, stop, COLS):
        places = slice(start, min(start + COLS, stop))
        yield places, Tile(rows, cols[places], COLS if diagonal is None else diagonal - start)


def _pair_weights(a: np.ndarray, b: np.ndarray, rows: Any, cols: Any, first: Any) -> Any:
    """Weight of each pair in ``sum_c a_c' K b_c`` when the lower triangle only is visited; a and b
    (t, points).
    """
    B = a[:, rows].T @ b[:, cols]
    B += B if a is b else b[:, rows].T @ a[:, cols]
    i, j = np.arange(B.shape[0])[:, None], np.arange(B.shape[1])
    B[j > first + i] = 0.0
    B[j == first + i] *= 0.5
    return B
