"""Squared distances of tiles of points, by the fastest way that keeps their digits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from ..._loops.rbf import GROUP, differing_bits, packed, squared_distances
from ...kernels.vector import chosen_rows, dense, dot_products, middle, squared_norms
from .base import Tile


@dataclass(frozen=True)
class Tolerances:
    """Numbers of distances and of chains.

    Attributes
    ----------
    largest_exponent : float
        Exponents beyond are all the same; its square is a float32, that of a larger one need not
        be.
    farthest : float
        Squared norm, in units of the narrowest kernel, up to which distances are had of dot
        products: float64 has sixteen digits, and half of them are needed. With a larger one near
        points lose their distance.
    dense_entries : int
        Entries of sparse points that are made dense. More of them take more memory.
    dense_ratio : int
        Entries of dense points for each that is not zero, up to which they are made dense: a
        product of sparse rows takes as long per entry as one of dense rows for so many.
    negligible_weight : float
        Weight relative to the largest that is taken for zero: even a million of these are below
        the rounding of the sum. With a larger one sums lose digits.
    longest_jump : int
        Places of a chain that may stay unused between two members. With more of them there are
        fewer chains, which take longer.
    """

    largest_exponent: float = 1e15
    farthest: float = 1e8
    dense_entries: int = 2**24
    dense_ratio: int = 60
    negligible_weight: float = 1e-18
    longest_jump: int = 4


TOLERANCES = Tolerances()


def make_distances(left: Any, right: Any, unit: float, narrowest: float, dtype: Any) -> Any:
    """An object whose ``tile(tile)`` is ``unit |x - y|^2``, at most the largest exponent, in a new
    array of the dtype.

    Parameters
    ----------
    left, right : points, dense or sparse; the same object for the training points
    unit, narrowest : float
        Factors of the widest and of the narrowest kernel.
    """
    same = left is right
    if all(_faster_dense(X) for X in (left, right)):
        right = dense(right)
        left = right if same else dense(left)
    elif not sparse.issparse(right):  # dense points are moved, and sparse ones are not
        left = dense(left)
    if (
        not any(map(sparse.issparse, (left, right)))
        and _is_binary(right)
        and (same or _is_binary(left))
    ):
        return Bits(left, right, unit, dtype)
    distances = Dots(left, right, unit, dtype)
    if distances.farthest * narrowest > TOLERANCES.farthest:
        return Differences(left, right, unit, dtype)
    return distances


class Bits:
    """Of points whose features are 0 or 1."""

    def __init__(self, left: Any, right: Any, unit: float, dtype: Any) -> None:
        self.unit, self.dtype = min(unit, TOLERANCES.largest_exponent / right.shape[1]), dtype
        rows = packed(right)
        self.right = np.ascontiguousarray(rows.T)
        self.left = rows if left is right else packed(left)

    def tile(self, tile: Tile) -> np.ndarray:
        out = np.empty((tile.rows.size, tile.cols.size), self.dtype)
        rows = np.ascontiguousarray(chosen_rows(self.left, tile.rows))
        differing_bits(rows, np.ascontiguousarray(self.right[:, tile.cols]), self.unit, out)
        return out


class Dots:
    """From a matrix product in float64: in float32 near points would keep no digit, and narrow
    kernels live on those.
    """

    def __init__(self, left: Any, right: Any, unit: float, dtype: Any) -> None:
        self.same, self.unit, self.dtype = left is right, unit, dtype
        center = 0.0 if sparse.issparse(right) else middle(right)
        self.right = _moved(right, center)
        self.left = self.right if self.same else _moved(left, center)
        with np.errstate(over="ignore"):  # then they are too far apart for this
            self.right_norms = squared_norms(self.right)
            self.left_norms = self.right_norms if self.same else squared_norms(self.left)
        self.farthest = max(self.right_norms.max(initial=0.0), self.left_norms.max(initial=0.0))

    def tile(self, tile: Tile) -> np.ndarray:
        dots = dot_products(chosen_rows(self.left, tile.rows), chosen_rows(self.right, tile.cols))
        cols = tile.cols if self.same else np.full_like(tile.cols, -1)
        out = np.empty(dots.shape, self.dtype)
        norms = self.left_norms[tile.rows], self.right_norms[tile.cols]
        squared_distances(
            dots, tile.rows, norms[0], cols, norms[1], self.unit, TOLERANCES.largest_exponent, out
        )
        return out


class Differences:
    """Feature by feature, where the points lie so far apart that even a product in float64 would
    not do.
    """

    metric = "sqeuclidean"

    def __init__(self, left: Any, right: Any, unit: float, dtype: Any) -> None:
        self.left, self.right, self.unit, self.dtype = left, right, unit, dtype

    def tile(self, tile: Tile) -> np.ndarray:
        a, b = chosen_rows(self.left, tile.rows), chosen_rows(self.right, tile.cols)
        return np.minimum(
            self.unit * cdist(dense(a), dense(b), self.metric), TOLERANCES.largest_exponent
        ).astype(self.dtype)


class Manhattan(Differences):
    """Sums of absolute differences."""

    metric = "cityblock"


def _faster_dense(X: Any) -> Any:
    """True if products of the points are faster as an array, and it is not large."""
    return not sparse.issparse(X) or X.shape[0] * X.shape[1] <= min(
        TOLERANCES.dense_entries, TOLERANCES.dense_ratio * X.nnz
    )


def _moved(X: Any, center: Any) -> Any:
    """Points as floats around a center; sparse points stay where they are."""
    return X.astype(float) if sparse.issparse(X) else X - center


def _is_binary(X: Any) -> bool:
    return bool(((X == 0) | (X == 1)).all())


# --- sorting Gaussian widths into chains of ratio two (see `manykernels._loops.rbf`) --------------


class Chains:
    """Gaussians ``exp(-gammas[l] D)`` as members of chains: member l is at ``(row[l], place[l])``.

    Attributes
    ----------
    base : (chains,) array
        The smallest gamma of each chain; the member at place j has ``base * 2^j``.
    group : (chains,) array
        Which distance the chain belongs to: members of different groups never share a chain.
    """

    def __init__(self, gammas: np.ndarray, groups: Any = None) -> None:
        gammas = np.asarray(gammas, dtype=float)
        groups = np.zeros(gammas.size, dtype=np.intp) if groups is None else np.asarray(groups)
        logs = np.log2(gammas)
        octave = np.floor(logs + 1e-10)
        residue = np.round(logs - octave, 9)
        order = np.lexsort((octave, residue, groups))
        starts = np.ones(order.size, dtype=bool)
        starts[1:] = (
            (np.diff(groups[order]) != 0)
            | (np.diff(residue[order]) != 0)
            | (np.diff(octave[order]) > TOLERANCES.longest_jump)
        )
        row = np.cumsum(starts) - 1
        self.base, self.group = gammas[order][starts], groups[order][starts]
        self.row, self.place = np.empty((2, order.size), dtype=np.intp)
        self.row[order] = row
        self.place[order] = octave[order] - octave[order][starts][row]
        length = -(-(self.place.max() + 1) // GROUP) * GROUP
        self.shape = (self.base.size, int(length))

    def tabulate(self, weights: np.ndarray, dtype: Any) -> Any:
        """Weights of the members as a (chains, length) table; zero where they are too small."""
        table = np.zeros(self.shape)
        np.add.at(table, (self.row, self.place), weights)
        # a weight of 1e-40, common when p is near 1, is a denormal float32 and makes the loops
        # twelve times slower
        table[np.abs(table) < TOLERANCES.negligible_weight * np.abs(table).max(initial=0.0)] = 0.0
        return table.astype(dtype)

    def gather(self, table: np.ndarray) -> Any:
        """The entries of a (chains, length, ...) table that belong to the members."""
        return table[self.row, self.place]
