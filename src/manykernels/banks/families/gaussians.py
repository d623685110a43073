"""Gaussians, of a feature or of a distance, and Laplacians."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..._loops import rbf, tables
from ..._loops.tables import BITS, Grid
from ..._threads import Threads
from ...kernels.vector import dense
from ..compute import Points
from ..kernel_set import Indices
from .base import Family, Tile
from .distances import TOLERANCES, Chains, Manhattan, make_distances

# Most chains that are summed one by one. More of them cost more than looking the sum up in a table.
MOST_CHAINS = 2


class _Gaussians(Family):
    """Common part of the Gaussian families: subclasses give the pairwise numbers of a tile and the
    chains of the widths.
    """

    chains: Chains

    def __init__(self, members: Indices, scales: np.ndarray, dtype: Any) -> None:
        super().__init__(members, dtype)
        self.scales = scales

    @abstractmethod
    def pairs(self, tile: Tile) -> Any:
        """The tile as `rbf.Pairs`."""

    def prepared(self, weights: Any) -> Any:
        return self.chains.tabulate(weights * self.scales, self.dtype)

    def combine(self, prepared: Any, tile: Tile, out: np.ndarray) -> None:
        rbf.combine(self.pairs(tile), prepared, tile.first, out)

    def moments(self, *shape: int) -> np.ndarray:
        return np.zeros((*shape[:1], *self.chains.shape, *shape[1:]))

    def add_forms(self, B: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        rbf.forms(self.pairs(tile), B, tile.first, moments)

    def add_products(self, beta: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        pairs = self.pairs(tile)
        for b, of_output in zip(beta, moments, strict=True):
            rbf.products(pairs, np.ascontiguousarray(b, dtype=self.dtype), of_output)

    def gathered(self, moments: Any) -> np.ndarray:
        if moments.ndim == 2:
            return self.chains.gather(moments) * self.scales
        return (
            np.stack([self.chains.gather(of_output) for of_output in moments], axis=1)
            * self.scales[:, None, None]
        )

    def write(self, tile: Tile, out: np.ndarray) -> None:
        for members, scales in self._places:
            rbf.values(self.pairs(tile), members, scales, out)

    @cached_property
    def _places(self) -> Any:
        """Tables of member numbers and scales by chain and place; more than one where members are
        equal.
        """
        tables, left = [], np.arange(self.members.size)
        while left.size:
            _, first = np.unique(
                np.stack([self.chains.row[left], self.chains.place[left]]),
                axis=1,
                return_index=True,
            )
            chosen = left[first]
            members, scales = (
                np.full(self.chains.shape, -1),
                np.zeros(self.chains.shape, dtype=self.dtype),
            )
            at = self.chains.row[chosen], self.chains.place[chosen]
            members[at], scales[at] = self.members[chosen], self.scales[chosen]
            tables.append((members, scales))
            left = np.delete(left, first)
        return tables

    def values(self, tile: Any) -> np.ndarray:
        pairs = self.pairs(tile)
        exponents = (
            np.exp2(self.chains.place)[:, None, None]
            * self._first_exponents(pairs)[self.chains.row]
        )
        return np.exp2(-exponents) * self.scales[:, None, None]

    @staticmethod
    def _first_exponents(pairs: Any) -> Any:
        if pairs.factors.size:
            return pairs.factors[:, None, None] * pairs.distances
        return np.square(pairs.rows[:, :, None] - pairs.cols[:, None, :])


class FeatureGaussians(_Gaussians):
    """Gaussians on single features, any number of them: ``exp(-gammas[l] (x_f - y_f)^2)``, ``f =
    features[l]``.
    """

    def __init__(
        self,
        members: Indices,
        features: np.ndarray,
        gammas: np.ndarray,
        scales: np.ndarray,
        points: Points,
        dtype: Any,
    ) -> None:
        super().__init__(members, scales, dtype)
        self.chains = Chains(gammas, features)
        # centered, so that float32 keeps the digits of features that lie far from zero
        center = np.median(dense(points.right[:, self.chains.group]), axis=0)
        widths = np.sqrt(self.chains.base * rbf.LOG2_E)
        self.left, self.right = points.each(lambda X: self._columns(X, center, widths))

    def _columns(self, X: Any, center: Any, widths: Any) -> Any:
        scaled = (dense(X[:, self.chains.group]) - center) * widths
        largest = TOLERANCES.largest_exponent
        return np.ascontiguousarray(np.clip(scaled, -largest, largest).T, dtype=self.dtype)

    def pairs(self, tile: Tile) -> Any:
        rows = np.ascontiguousarray(self.left[:, tile.rows])
        cols = np.ascontiguousarray(self.right[:, tile.cols])
        return rbf.Pairs(rows, cols, np.empty((0, 0), self.dtype), np.empty(0, self.dtype))


class _Distances(_Gaussians):
    """Kernels of one distance over several features, in units of the widest kernel.

    A few chains of widths are computed as such; if there are more, the sum of the kernels is looked
    up in a table.

    Parameters
    ----------
    distances : callable
        What has ``tile(tile)``, from the smallest and the largest factor of the distances, in base
        two.
    """

    def __init__(
        self,
        members: Indices,
        gammas: np.ndarray,
        scales: np.ndarray,
        dtype: Any,
        distances: Any,
    ) -> None:
        super().__init__(members, scales, dtype)
        self.chains = Chains(gammas)
        self.factors = (self.chains.base / self.chains.base.min()).astype(dtype)
        self._distances = distances(gammas.min() * rbf.LOG2_E, gammas.max() * rbf.LOG2_E)
        factors = gammas / gammas.min()
        tabulated = self.chains.base.size > MOST_CHAINS and GaussianTable.covers(factors, dtype)
        self._table = GaussianTable(factors, dtype) if tabulated else None

    def pairs(self, tile: Tile) -> Any:
        none = np.empty((0, 0), self.dtype)
        return rbf.Pairs(none, none, self._distances.tile(tile), self.factors)

    def prepared(self, weights: np.ndarray) -> Any:
        if self._table is None:
            return super().prepared(weights)
        return self._table.table(weights * self.scales)

    def combine(self, prepared: Any, tile: Tile, out: np.ndarray) -> None:
        if self._table is None:
            super().combine(prepared, tile, out)
        else:
            tables.look_up(self._distances.tile(tile), prepared, self._table.grid, tile.first, out)

    def moments(self, *shape: int) -> np.ndarray:
        return (
            super().moments(*shape)
            if self._table is None
            else np.zeros((*shape, *self._table.nodes.shape))
        )

    def add_forms(self, B: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        if self._table is None:
            super().add_forms(B, tile, moments)
        else:
            tables.deposit(self._distances.tile(tile), B, self._table.grid, tile.first, moments)

    def add_products(self, beta: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        if self._table is None:
            super().add_products(beta, tile, moments)
        else:
            tables.deposit_rows(
                self._distances.tile(tile),
                np.ascontiguousarray(beta, self.dtype),
                self._table.grid,
                moments,
            )

    @property
    def tabulated(self) -> bool:  # type: ignore[override]
        return self._table is not None

    def swept(self, moments, diagonal, vector, threads):
        """Sums over the members as in `Sums`, from the cells and sums of all points that
        `TiledBank.newton_sums` collects.
        """
        return self._table.swept(
            *moments, diagonal * np.square(self.scales), vector * self.scales, threads
        )

    def gathered(self, moments: np.ndarray) -> np.ndarray:
        if self._table is None:
            return super().gathered(moments)
        return self._table.gather(moments) * self.scales.reshape(-1, *[1] * (moments.ndim - 2))


class DistanceGaussians(_Distances):
    """Gaussians ``exp(-gammas[l] |x - y|^2)``."""

    def __init__(
        self,
        members: Indices,
        gammas: np.ndarray,
        scales: np.ndarray,
        points: Points,
        dtype: Any,
    ) -> None:
        super().__init__(
            members, gammas, scales, dtype, partial(make_distances, *points, dtype=dtype)
        )


class DistanceLaplacians(_Distances):
    """Laplacian kernels ``exp(-gammas[l] |x - y|_1)``: Gaussians of the root of the Manhattan
    distance.
    """

    def __init__(
        self,
        members: Indices,
        gammas: np.ndarray,
        scales: np.ndarray,
        points: Points,
        dtype: Any,
    ) -> None:
        super().__init__(
            members, gammas, scales, dtype, lambda unit, _: Manhattan(*points, unit, dtype)
        )


# --- tables of Gaussians of one distance ----------------------------------------------------------


# Degree of the polynomials, by precision: errors of 2e-8 and 2e-16. Higher ones take longer.
DEGREES = {np.dtype(np.float32): 3, np.dtype(np.float64): 7}
# log2 of the exponents that are as good as zero, and of those whose kernel is.
LOWEST_EXPONENTS = {np.dtype(np.float32): -31, np.dtype(np.float64): -56}
HIGHEST_EXPONENTS = {np.dtype(np.float32): 8, np.dtype(np.float64): 11}


@dataclass(frozen=True)
class Sizes:
    """Numbers of the tables.

    Attributes
    ----------
    negligible : float
        Coefficients of a polynomial, relative to the sum of the weights, that are taken for zero:
        arithmetic with denormal numbers is slow. With a larger one sums lose digits.
    held_entries : int
        Entries of the members' tables that are kept. More of them take more memory.
    entries_at_once : int
        Entries that are computed at a time, which take memory, too.
    rows_at_once : int
        Rows of a matrix that a thread fills at a time. With more of them there is less to share
        out.
    """

    negligible: float = 1e-25
    held_entries: int = 2**23
    entries_at_once: int = 2**21
    rows_at_once: int = 256


SIZES = Sizes()


class GaussianTable:
    """Gaussians ``2^-(factors[l] t)`` of one number t as polynomials on the cells of a table.

    Parameters
    ----------
    factors : (members,) array, at least one
    dtype : float32 or float64
    """

    def __init__(self, factors: np.ndarray, dtype: Any) -> None:
        dtype = np.dtype(dtype)
        self.factors, self.dtype, self.degree = (
            np.asarray(factors, dtype=float),
            dtype,
            DEGREES[dtype],
        )
        start = np.floor(LOWEST_EXPONENTS[dtype] - np.log2(self.factors.max()))
        stop = HIGHEST_EXPONENTS[dtype]
        ends = np.nextafter(np.exp2([start, stop]).astype(dtype), dtype.type(0.0))
        ends[0] = np.exp2(start)
        whole, mantissa = (np.int32, 23) if dtype == np.float32 else (np.int64, 52)
        first, last = (ends.view(whole) >> (mantissa - BITS)).tolist()
        self.grid = Grid(first, ends[0], ends[1])
        self.cells = last - first + 1
        octaves, steps = np.divmod(np.arange(self.cells), 2**BITS)
        left = np.exp2(start + octaves) * (1.0 + steps / 2**BITS)
        widths = np.exp2(start + octaves - BITS)
        places = -0.5 * np.cos(np.pi * (np.arange(self.degree + 1) + 0.5) / (self.degree + 1))
        self.nodes = left[:, None] + widths[:, None] * (0.5 + places)
        self._calls = 0
        self._rates = -np.log(2.0) * self.factors  # numpy's exp is vectorized, its exp2 is not
        # values at the nodes of a cell to coefficients
        self._to_powers = np.linalg.inv(np.vander(places, increasing=True))

    @staticmethod
    def covers(factors: np.ndarray, dtype: Any) -> bool:
        """True if the range of the factors leaves room for the cells: below the normal numbers
        there are none.
        """
        return (
            LOWEST_EXPONENTS[np.dtype(dtype)] - np.log2(factors.max()) > np.finfo(dtype).minexp + 1
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_held"}

    def table(self, weights: np.ndarray) -> Any:
        """The table of ``sum_l weights[l] 2^-(factors[l] t)``."""
        used = np.flatnonzero(weights)
        self._calls += 1
        if self._calls > 1 and self._held is not None:
            values = weights @ self._held
        # the first time, and for prediction there is no other, it does not pay to hold anything
        else:
            values = sum(
                (weights[used[part]] @ some for part, some in self._values(self.nodes, used)),
                np.zeros(self.nodes.size),
            )
        table = values.reshape(self.nodes.shape) @ self._to_powers.T
        table[np.abs(table) < SIZES.negligible * np.abs(weights).sum()] = (
            0.0  # denormal numbers make the loops five times slower
        )
        return np.ascontiguousarray(table, dtype=self.dtype)

    def gather(self, moments: np.ndarray) -> Any:
        """The sums for each member, (members, ...), of those that `deposit` made, (..., cells,
        degree + 1).
        """
        used = np.flatnonzero(moments.any(axis=(*range(moments.ndim - 2), moments.ndim - 1)))
        at_nodes = (moments[..., used, :] @ self._to_powers).reshape(*moments.shape[:-2], -1)
        out = np.empty((self.factors.size, *moments.shape[:-2]))
        for part, values in self._values(self.nodes[used]):
            out[part] = np.tensordot(values, at_nodes, (1, -1))
        return out

    def swept(
        self,
        cells: Any,
        moments: np.ndarray,
        diagonal: np.ndarray,
        vector: np.ndarray,
        threads: Threads,
    ) -> Any:
        """``sum_l diagonal[l] outer(M_lc, M_le)``, (t, t, n, n), and ``sum_l vector[l] M_lc``, (t,
        n), over the members.

        M_lc are what `gather` would give of the moments (t, n, cells, degree + 1), of some cells;
        the first sum is in the table's precision.
        """
        at_nodes = (moments @ self._to_powers).reshape(*moments.shape[:2], -1)
        inner, mixed = 0.0, 0.0
        for part, values in self._values(self.nodes[cells]):
            inner = inner + (values.T * diagonal[part]) @ values
            mixed = mixed + vector[part] @ values
        half, whole = ((at_nodes @ inner).astype(self.dtype), at_nodes.astype(self.dtype))
        t, n = whole.shape[:2]
        squares = np.empty((t, t, n, n), self.dtype)

        def fill(start):
            for c in range(t):
                for e in range(t):
                    np.matmul(
                        half[c, start : start + SIZES.rows_at_once],
                        whole[e].T,
                        out=squares[c, e, start : start + SIZES.rows_at_once],
                    )

        threads.map(fill, range(0, n, SIZES.rows_at_once))
        return squares, at_nodes @ mixed

    def _values(self, nodes: Any, members: Any = slice(None)) -> Iterator[Any]:
        """Some of the members at a time, with their values at some nodes."""
        t, rates = nodes.ravel(), self._rates[members]
        step = max(1, SIZES.entries_at_once // max(t.size, 1))
        for start in range(0, rates.size, step):
            part = slice(start, start + step)
            yield part, np.exp(rates[part, None] * t)

    @cached_property
    def _held(self) -> Any:
        if self.factors.size * self.nodes.size > SIZES.held_entries:
            return None
        return np.exp(self._rates[:, None] * self.nodes.ravel())
