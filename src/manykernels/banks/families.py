"""Families: kernels that are functions of one pairwise number, computed together.

What costs time is visiting pairs of points, not kernels, so a family computes the squared distance or dot product of a
pair once and then all its members. A family sees a tile of pairs at a time, given by the indices of its rows and columns;
values are already normalised (`scales`).
"""

from abc import ABC, abstractmethod
from functools import cached_property
from math import comb
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from .._loops import rbf
from ..kernels.vector import dense, dot_products, squared_norms
from .chains import Chains

LARGEST = 1e15  # exponents beyond are all the same, and its square is a float32


class Tile(NamedTuple):
    """A rectangle of pairs: indices of its points, and how much of it counts.

    ``first`` is the offset of the diagonal: row i counts the columns ``j <= first + i``; it is the width of a tile that counts
    as a whole.
    """

    rows: np.ndarray
    cols: np.ndarray
    first: int


def chosen_rows(A, chosen):
    """``A[chosen]``, without a copy where the rows follow each other."""
    if chosen.size and chosen[-1] - chosen[0] == chosen.size - 1 and (np.diff(chosen) == 1).all():
        return A[chosen[0] : chosen[-1] + 1]
    return A[chosen]


class Family(ABC):
    """Kernels that share their pairwise number; `members` are their places in the bank.

    Two methods are all that a family must have; the others have default forms in terms of `values`.
    """

    explicit = False  # True: quadratic forms and products do not need to visit pairs

    def __init__(self, members, dtype):
        self.members = np.asarray(members, dtype=np.intp)
        self.dtype = dtype

    @abstractmethod
    def values(self, tile):
        """Every member on the tile, (members, rows, cols)."""

    @abstractmethod
    def combine(self, weights, tile, out):
        """``out += sum_l weights[l] K_l`` on the tile; what lies above the diagonal of a triangle may hold anything."""

    def write(self, tile, out):
        """Every member on the tile into its place of ``out``, (rows, kernels of the bank, cols)."""
        out[:, self.members] = self.values(tile).transpose(1, 0, 2)

    def forms(self, B, tile):
        """``sum_ij B[i, j] K_l[i, j]`` for each member; B is zero outside the triangle."""
        return np.tensordot(self.values(tile), B, 2)

    def products(self, beta, tile):
        """``K_l beta`` for each member, (members, t, rows), with beta (t, cols)."""
        return (self.values(tile) @ beta.T).transpose(0, 2, 1)


class _Gaussians(Family):
    """Common part of the Gaussian families: subclasses give the pairwise numbers of a tile."""

    def __init__(self, members, scales, dtype):
        super().__init__(members, dtype)
        self.scales = scales

    @abstractmethod
    def pairs(self, tile):
        """The tile as `rbf.Pairs`."""

    def combine(self, weights, tile, out):
        rbf.combine(self.pairs(tile), self.chains.spread(weights * self.scales, self.dtype), tile.first, out)

    def forms(self, B, tile):
        table = np.zeros(self.chains.shape)
        rbf.forms(self.pairs(tile), B, tile.first, table)
        return self.chains.gather(table) * self.scales

    def products(self, beta, tile):
        pairs = self.pairs(tile)
        out = np.empty((self.members.size, beta.shape[0], len(tile.rows)))
        for output, b in enumerate(beta):
            table = np.zeros((*self.chains.shape, len(tile.rows)))
            rbf.products(pairs, np.ascontiguousarray(b, dtype=self.dtype), table)
            out[:, output] = self.chains.gather(table) * self.scales[:, None]
        return out

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
    """Kernels of one distance over several features: subclasses compute it, in units of the widest kernel."""

    def __init__(self, members, gammas, scales, dtype):
        super().__init__(members, scales, dtype)
        self.chains = Chains(gammas)
        self.widest = self.chains.base.min() * rbf.LOG2_E
        self.factors = (self.chains.base / self.chains.base.min()).astype(dtype)

    @abstractmethod
    def distances(self, tile):
        """Distances of the tile in float64, times gamma of the widest kernel, in base two."""

    def pairs(self, tile):
        distances = np.clip(self.distances(tile), 0.0, LARGEST)
        none = np.empty((0, 0), self.dtype)
        return rbf.Pairs(none, none, np.ascontiguousarray(distances, dtype=self.dtype), self.factors)


class DistanceGaussians(_Distances):
    """Gaussians ``exp(-gammas[l] |x - y|^2)``.

    Distances come from a matrix product in float64: in float32 near points would keep no digit, and narrow kernels live on
    those. Where even float64 would not do, because points lie very far apart, differences are taken directly.
    """

    def __init__(self, members, gammas, scales, left, right, dtype):
        super().__init__(members, gammas, scales, dtype)
        unit = np.sqrt(self.widest)
        centre = 0.0 if sparse.issparse(right) else np.median(right, axis=0)
        self.right = self._scaled(right, centre, unit)
        self.left = self.right if left is right else self._scaled(left, centre, unit)
        self.right_norms = squared_norms(self.right)
        self.left_norms = self.right_norms if left is right else squared_norms(self.left)
        largest = max(self.right_norms.max(initial=0.0), self.left_norms.max(initial=0.0))
        self.direct = largest * float(self.factors.max()) > 1e8  # float64 keeps sixteen digits, half of them are needed

    @staticmethod
    def _scaled(X, centre, unit):
        return X * unit if sparse.issparse(X) else (X - centre) * unit

    def distances(self, tile):
        a, b = chosen_rows(self.left, tile.rows), chosen_rows(self.right, tile.cols)
        if self.direct:
            return cdist(dense(a), dense(b), "sqeuclidean")
        distances = dot_products(a, b)
        distances *= -2.0
        distances += self.left_norms[tile.rows, None]
        distances += self.right_norms[tile.cols]
        if self.left is self.right:
            distances[tile.rows[:, None] == tile.cols] = 0.0
        return distances


class DistanceLaplacians(_Distances):
    """Laplacian kernels ``exp(-gammas[l] |x - y|_1)``: chains of the Manhattan distance."""

    def __init__(self, members, gammas, scales, left, right, dtype):
        super().__init__(members, gammas, scales, dtype)
        self.left, self.right = left, right

    def distances(self, tile):
        return self.widest * cdist(dense(self.left[tile.rows]), dense(self.right[tile.cols]), "cityblock")


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

    def combine(self, weights, tile, out):
        table = np.zeros((self.coefficients.shape[1], self.features.size))
        np.add.at(table.T, self.slot, weights[:, None] * self.coefficients)
        left = self.left[1:, :, tile.rows] * table[1:, :, None].astype(self.dtype)
        right = self.right[1:, :, tile.cols]
        out += left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2])
        out += self.dtype(table[0].sum())

    def values(self, tile):
        left, right = self.left[:, :, tile.rows], self.right[:, :, tile.cols]
        powers = left[..., :, None] * right[..., None, :]
        return np.einsum("lr,rlij->lij", self.coefficients, powers[:, self.slot])

    def products(self, beta, tile):
        moments = self.right[:, :, tile.cols].astype(float) @ beta.T
        left = self.left[:, :, tile.rows].astype(float)
        return np.einsum("lr,rlt,rli->lti", self.coefficients, moments[:, self.slot], left[:, self.slot], optimize=True)

    def quad(self, beta):
        """Quadratic forms of each member, summed over outputs; beta (t, n)."""
        moments = self.right.astype(float) @ beta.T
        return np.einsum("lr,rl->l", self.coefficients, np.square(moments).sum(axis=2)[:, self.slot])


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

    def combine(self, weights, tile, out):
        t = self._dots(tile)
        polynomial = (weights @ self.coefficients).astype(self.dtype)
        total = np.full_like(t, polynomial[-1])
        for coefficient in polynomial[-2::-1]:
            total *= t
            total += coefficient
        out += total

    def values(self, tile):
        t = self._dots(tile)
        powers = np.stack([t**r for r in range(self.coefficients.shape[1])])
        return np.tensordot(self.coefficients, powers, 1)

    def products(self, beta, tile):
        t, coefficients = self._dots(tile), beta.T.astype(self.dtype)
        power, moments = np.ones_like(t), []
        for _ in range(self.coefficients.shape[1]):
            moments.append(power @ coefficients)
            power *= t
        return np.tensordot(self.coefficients, np.stack(moments), 1).transpose(0, 2, 1)

    def forms(self, B, tile):
        t, moments = self._dots(tile), []
        B = B.astype(float)
        for _ in range(self.coefficients.shape[1]):
            moments.append(B.sum())
            B *= t
        return self.coefficients @ np.array(moments)


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

    def combine(self, weights, tile, out):
        out += (weights[0] * self._block(tile)).astype(self.dtype)
