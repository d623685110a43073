"""Families: kernels that are functions of one pairwise number, computed together.

What costs time is visiting pairs of points, not kernels, so a family computes the squared distance or dot product of a
pair once and then all its members. A family sees a tile of pairs at a time, given by the indices of its rows and columns;
values are already normalised (`scales`).
"""

from abc import ABC, abstractmethod
from functools import cached_property, partial
from math import comb
from typing import NamedTuple

import numpy as np

from .._loops import rbf, tables
from ..kernels.vector import chosen_rows, dense, dot_products, squared_norms
from .chains import Chains
from .distances import LARGEST, Manhattan, make_distances
from .tables import GaussianTable

MANY_CHAINS = 2  # more cost more than looking the sum up in a table


class Tile(NamedTuple):
    """A rectangle of pairs: indices of its points, and how much of it counts.

    ``first`` is the offset of the diagonal: row i counts the columns ``j <= first + i``; it is the width of a tile that counts
    as a whole.
    """

    rows: np.ndarray
    cols: np.ndarray
    first: int


class Family(ABC):
    """Kernels that share their pairwise number; `members` are their places in the bank.

    Two methods are all that a family must have; the others have default forms in terms of `values`.
    """

    explicit = False  # True: `forms(a, b)` gives quadratic forms without visiting pairs
    tabulated = False  # True: `swept` sums over the members at the price of a few

    def __init__(self, members, dtype):
        self.members = np.asarray(members, dtype=np.intp)
        self.dtype = dtype

    @abstractmethod
    def values(self, tile):
        """Every member on the tile, (members, rows, cols)."""

    def prepared(self, weights):
        """What `combine` needs to know of the weights (members,): computed once for many tiles."""
        return weights

    @abstractmethod
    def combine(self, prepared, tile, out):
        """``out += sum_l weights[l] K_l`` on the tile; what lies above the diagonal of a triangle may hold anything."""

    def write(self, tile, out):
        """Every member on the tile into its place of ``out``, (rows, kernels of the bank, cols)."""
        out[:, self.members] = self.values(tile).transpose(1, 0, 2)

    def moments(self, *shape):
        """An array of zeros for sums over tiles: `add_forms` for no shape, `add_products` for the shape (t, rows)."""
        return np.zeros((self.members.size, *shape))

    def add_forms(self, B, tile, moments):
        """Add ``sum_ij B[i, j] K_l[i, j]``, in the family's own terms; B is zero outside the triangle."""
        moments += np.tensordot(self.values(tile), B, 2)

    def add_products(self, beta, tile, moments):
        """Add ``K_l beta``, in the family's own terms, with beta (t, cols)."""
        moments += (self.values(tile) @ beta.T).transpose(0, 2, 1)

    def gathered(self, moments):
        """The sums for each member, (members, ...)."""
        return moments


class _Gaussians(Family):
    """Common part of the Gaussian families: subclasses give the pairwise numbers of a tile."""

    def __init__(self, members, scales, dtype):
        super().__init__(members, dtype)
        self.scales = scales

    @abstractmethod
    def pairs(self, tile):
        """The tile as `rbf.Pairs`."""

    def prepared(self, weights):
        return self.chains.spread(weights * self.scales, self.dtype)

    def combine(self, prepared, tile, out):
        rbf.combine(self.pairs(tile), prepared, tile.first, out)

    def moments(self, *shape):
        return np.zeros((*shape[:1], *self.chains.shape, *shape[1:]))

    def add_forms(self, B, tile, moments):
        rbf.forms(self.pairs(tile), B, tile.first, moments)

    def add_products(self, beta, tile, moments):
        pairs = self.pairs(tile)
        for b, of_output in zip(beta, moments, strict=True):
            rbf.products(pairs, np.ascontiguousarray(b, dtype=self.dtype), of_output)

    def gathered(self, moments):
        if moments.ndim == 2:
            return self.chains.gather(moments) * self.scales
        return np.stack([self.chains.gather(of_output) for of_output in moments], axis=1) * self.scales[:, None, None]

    def write(self, tile, out):
        for members, scales in self._places:
            rbf.values(self.pairs(tile), members, scales, out)

    @cached_property
    def _places(self):
        """Tables of member numbers and scales by chain and place; more than one where members are equal."""
        tables, left = [], np.arange(self.members.size)
        while left.size:
            _, first = np.unique(np.stack([self.chains.row[left], self.chains.place[left]]), axis=1, return_index=True)
            chosen = left[first]
            members, scales = np.full(self.chains.shape, -1), np.zeros(self.chains.shape, dtype=self.dtype)
            at = self.chains.row[chosen], self.chains.place[chosen]
            members[at], scales[at] = self.members[chosen], self.scales[chosen]
            tables.append((members, scales))
            left = np.delete(left, first)
        return tables

    def values(self, tile):
        pairs = self.pairs(tile)
        exponents = np.exp2(self.chains.place)[:, None, None] * self._first_exponents(pairs)[self.chains.row]
        return np.exp2(-exponents) * self.scales[:, None, None]

    @staticmethod
    def _first_exponents(pairs):
        if pairs.factors.size:
            return pairs.factors[:, None, None] * pairs.distances
        return np.square(pairs.rows[:, :, None] - pairs.cols[:, None, :])


class FeatureGaussians(_Gaussians):
    """Gaussians on single features, any number of them: ``exp(-gammas[l] (x_f - y_f)^2)``, ``f = features[l]``."""

    def __init__(self, members, features, gammas, scales, left, right, dtype):
        super().__init__(members, scales, dtype)
        self.chains = Chains(gammas, features)
        # centred, so that float32 keeps the digits of features that lie far from zero
        centre = np.median(dense(right[:, self.chains.group]), axis=0)
        widths = np.sqrt(self.chains.base * rbf.LOG2_E)
        self.right = self._columns(right, centre, widths)
        self.left = self.right if left is right else self._columns(left, centre, widths)

    def _columns(self, X, centre, widths):
        scaled = (dense(X[:, self.chains.group]) - centre) * widths
        return np.ascontiguousarray(np.clip(scaled, -LARGEST, LARGEST).T, dtype=self.dtype)

    def pairs(self, tile):
        rows = np.ascontiguousarray(self.left[:, tile.rows])
        cols = np.ascontiguousarray(self.right[:, tile.cols])
        return rbf.Pairs(rows, cols, np.empty((0, 0), self.dtype), np.empty(0, self.dtype))


class _Distances(_Gaussians):
    """Kernels of one distance over several features, in units of the widest kernel.

    A few chains of widths are computed as such; if there are more, the sum of the kernels is looked up in a table.

    Parameters
    ----------
    distances : callable
        What has ``tile(tile)``, from the smallest and the largest factor of the distances, in base two.
    """

    def __init__(self, members, gammas, scales, dtype, distances):
        super().__init__(members, scales, dtype)
        self.chains = Chains(gammas)
        self.factors = (self.chains.base / self.chains.base.min()).astype(dtype)
        self._distances = distances(gammas.min() * rbf.LOG2_E, gammas.max() * rbf.LOG2_E)
        factors = gammas / gammas.min()
        tabulated = self.chains.base.size > MANY_CHAINS and GaussianTable.covers(factors, dtype)
        self._table = GaussianTable(factors, dtype) if tabulated else None

    def pairs(self, tile):
        none = np.empty((0, 0), self.dtype)
        return rbf.Pairs(none, none, self._distances.tile(tile), self.factors)

    def prepared(self, weights):
        if self._table is None:
            return super().prepared(weights)
        return self._table.table(weights * self.scales)

    def combine(self, prepared, tile, out):
        if self._table is None:
            super().combine(prepared, tile, out)
        else:
            tables.look_up(self._distances.tile(tile), prepared, self._table.grid, tile.first, out)

    def moments(self, *shape):
        return super().moments(*shape) if self._table is None else np.zeros((*shape, *self._table.nodes.shape))

    def add_forms(self, B, tile, moments):
        if self._table is None:
            super().add_forms(B, tile, moments)
        else:
            tables.deposit(self._distances.tile(tile), B, self._table.grid, tile.first, moments)

    def add_products(self, beta, tile, moments):
        if self._table is None:
            super().add_products(beta, tile, moments)
        else:
            tables.deposit_rows(self._distances.tile(tile), np.ascontiguousarray(beta, self.dtype), self._table.grid, moments)

    @property
    def tabulated(self):
        return self._table is not None

    def swept(self, moments, diagonal, vector, threads):
        """Sums over the members as in `Sums`, from the cells and sums of all points that `TiledBank.sweep` collects."""
        return self._table.swept(*moments, diagonal * np.square(self.scales), vector * self.scales, threads)

    def gathered(self, moments):
        if self._table is None:
            return super().gathered(moments)
        return self._table.gather(moments) * self.scales.reshape(-1, *[1] * (moments.ndim - 2))


class DistanceGaussians(_Distances):
    """Gaussians ``exp(-gammas[l] |x - y|^2)``."""

    def __init__(self, members, gammas, scales, left, right, dtype):
        super().__init__(members, gammas, scales, dtype, partial(make_distances, left, right, dtype=dtype))


class DistanceLaplacians(_Distances):
    """Laplacian kernels ``exp(-gammas[l] |x - y|_1)``: Gaussians of the root of the Manhattan distance."""

    def __init__(self, members, gammas, scales, left, right, dtype):
        super().__init__(members, gammas, scales, dtype, lambda unit, _: Manhattan(left, right, unit, dtype))


def power_coefficients(kernels, scales, units):
    """Coefficients c[l, r] of ``K_l = sum_r c[l, r] (t / units[l])^r`` for polynomial kernels of the dot product t."""
    degrees = [getattr(kernel, "degree", 1) for kernel in kernels]
    table = np.zeros((len(kernels), max(degrees) + 1))
    for row, kernel, degree, scale, unit in zip(table, kernels, degrees, scales, units, strict=True):
        gamma, coef0 = getattr(kernel, "gamma", 1.0), getattr(kernel, "coef0", 0.0)
        # the scale goes inside the power: outside, both factors may be out of range though their product is not
        root = scale ** (1.0 / degree)
        for r in range(degree + 1):
            row[r] = comb(degree, r) * (gamma * unit * root) ** r * (coef0 * root) ** (degree - r)
    return table


class FeaturePolynomials(Family):
    """Linear and polynomial kernels on single features, through their few monomials ``x_f^r``.

    ``K_l(x, y) = sum_r c[l, r] (x_f y_f)^r`` has rank degree + 1, so quadratic forms cost O(n) per kernel and the combined
    kernel is one matrix product, whatever the number of kernels.
    """

    explicit = True

    def __init__(self, members, features, kernels, scales, left, right, dtype):
        super().__init__(members, dtype)
        self.features, self.slot = np.unique(features, return_inverse=True)
        columns = dense(right[:, self.features])
        largest = np.abs(columns).max(axis=0)
        self.unit = np.where(largest > 0, largest, 1.0)
        self.coefficients = power_coefficients(kernels, scales, self.unit[self.slot] ** 2)
        self.right = self._monomials(right)
        self.left = self.right if left is right else self._monomials(left)

    def _monomials(self, X):
        """Powers 0 … degree of the scaled features, (degree + 1, features, n)."""
        z = (dense(X[:, self.features]) / self.unit).T
        return np.stack([z**r for r in range(self.coefficients.shape[1])]).astype(self.dtype)

    def prepared(self, weights):
        table = np.zeros((self.coefficients.shape[1], self.features.size))
        np.add.at(table.T, self.slot, weights[:, None] * self.coefficients)
        return table[1:, :, None].astype(self.dtype), self.dtype(table[0].sum())

    def combine(self, prepared, tile, out):
        powers, constant = prepared
        left = self.left[1:, :, tile.rows] * powers
        right = self.right[1:, :, tile.cols]
        out += left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2])
        out += constant

    def values(self, tile):
        left, right = self.left[:, :, tile.rows], self.right[:, :, tile.cols]
        powers = left[..., :, None] * right[..., None, :]
        return np.einsum("lr,rlij->lij", self.coefficients, powers[:, self.slot])

    def add_products(self, beta, tile, moments):
        sums = self.right[:, :, tile.cols].astype(float) @ beta.T
        left = self.left[:, :, tile.rows].astype(float)
        moments += np.einsum("lr,rlt,rli->lti", self.coefficients, sums[:, self.slot], left[:, self.slot], optimize=True)

    def forms(self, a, b):
        """``sum_c a_c' K_l b_c`` of each member; a and b (t, n)."""
        left, right = (self.right.astype(float) @ beta.T for beta in (a, b))
        return np.einsum("lr,rl->l", self.coefficients, (left * right).sum(axis=2)[:, self.slot])


class DotPolynomials(Family):
    """Linear and polynomial kernels of the dot product over several features, of degree at most 3."""

    def __init__(self, members, kernels, scales, left, right, dtype):
        super().__init__(members, dtype)
        largest = squared_norms(right).max()
        self.unit = largest if largest > 0 else 1.0
        self.coefficients = power_coefficients(kernels, scales, np.full(len(kernels), self.unit))
        self.left, self.right = left, right

    def _dots(self, tile):
        return (dot_products(chosen_rows(self.left, tile.rows), chosen_rows(self.right, tile.cols)) / self.unit).astype(
            self.dtype
        )

    def prepared(self, weights):
        return (weights @ self.coefficients).astype(self.dtype)

    def combine(self, prepared, tile, out):
        t = self._dots(tile)
        total = np.full_like(t, prepared[-1])
        for coefficient in prepared[-2::-1]:
            total *= t
            total += coefficient
        out += total

    def values(self, tile):
        t = self._dots(tile)
        powers = np.stack([t**r for r in range(self.coefficients.shape[1])])
        return np.tensordot(self.coefficients, powers, 1)

    def moments(self, *shape):
        return np.zeros((self.coefficients.shape[1], *shape))

    def add_products(self, beta, tile, moments):
        t, coefficients = self._dots(tile), beta.astype(self.dtype)
        power = np.ones_like(t)
        for sums in moments:
            sums += coefficients @ power.T
            power *= t

    def add_forms(self, B, tile, moments):
        t, B = self._dots(tile), B.astype(float)
        for r in range(moments.size):
            moments[r] += B.sum()
            B *= t

    def gathered(self, moments):
        return np.tensordot(self.coefficients, moments, 1)


class OneKernel(Family):
    """Any kernel object by itself, through its `block`; ``factors`` multiply rows and columns (cosine normalisation)."""

    def __init__(self, member, kernel, scale, left, right, dtype, factors=None):
        super().__init__([member], dtype)
        self.kernel, self.scale, self.factors = kernel, scale, factors
        self.left, self.right = left, right

    def _block(self, tile):
        block = self.kernel.block(self.left[tile.rows], self.right[tile.cols]) * self.scale
        if self.factors is not None:
            left, right = self.factors
            block = block * left[tile.rows, None] * right[tile.cols]
        return block

    def values(self, tile):
        return self._block(tile)[None]

    def combine(self, prepared, tile, out):
        out += (prepared[0] * self._block(tile)).astype(self.dtype)
