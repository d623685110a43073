"""Gaussians, of a feature or of a distance, and Laplacians."""

from abc import abstractmethod
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..._loops import rbf, tables
from ...kernels.vector import dense
from ..compute import Points
from ..kernel_set import Indices
from .base import Family, Tile
from .distances import TOLERANCES, Chains, Manhattan, make_distances
from .tables import GaussianTable

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
