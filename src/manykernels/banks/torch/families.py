"""Families of kernels on a device: a matrix of pairwise numbers, and all their members from it."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ...kernels.overlaps import Tanimoto, similarities
from ...kernels.vector import dense, middle
from ..compute import Points
from ..families import Tile
from ..kernel_set import Indices
from ..powers import polynomial_parameters, power_coefficients
from .device import Device
from .exponentials import (
    LOG2_E,
    Rates,
    Split,
    combine,
    combine_features,
    combine_split,
    decide_split,
    forms,
    multiply_features,
    multiply_split,
    precise_enough,
    unit_of,
)


class DeviceFamily(ABC):
    """Kernels that share their pairwise number; `members` are their places in the bank, `scales`
    normalize them.

    Rows and columns of a tile are tensors of indices.
    """

    by_products = False  # True: quadratic forms are had from products, `forms` is not asked for
    lean = False  # True: `combine_at` needs no memory for the pairs of a tile
    without_tiles = False  # True: `products_at` is there, and quicker than tiles

    def __init__(
        self, device: Device, members: Indices, scales: np.ndarray, dtype: DTypeLike
    ) -> None:
        self.device, self.members, self.dtype = device, np.asarray(members), dtype
        self.scales = np.asarray(scales, dtype=float)

    @abstractmethod
    def pairs(self, rows: Any, cols: Any) -> Any:
        """The pairwise numbers of a tile, as `value` and the other methods take them."""

    @abstractmethod
    def value(self, pairs: Any, place: int) -> Any:
        """Member number `place` on a tile, before it is scaled."""

    def combine(self, pairs: Any, weights: Any, out: Any, add: Any = True) -> None:
        """``out += sum_l weights[l] K_l``, or ``=``."""
        if not add:
            out.zero_()
        for place in map(int, np.flatnonzero(weights)):
            out.add_(self.value(pairs, place), alpha=float(weights[place] * self.scales[place]))

    def products_at(self, cols: Any, coefficients: Any) -> Any:
        """The `products` of all members at all rows, (members, rows, t) in float64, if that works
        `without_tiles`.
        """
        raise NotImplementedError

    def decision_at(self, cols: Any, coefficients: Any, weights: np.ndarray) -> Any:
        """The weighted sum of the `products` at all rows, (rows, t) in float64, if that works
        `without_tiles`.
        """
        raise NotImplementedError

    def combine_at(
        self, rows: Any, cols: Any, weights: ArrayLike, out: Any, add: bool = True
    ) -> None:
        """``out += sum_l weights[l] K_l``, or ``=``, for a tile of rows and columns."""
        self.combine(self.pairs(rows, cols), weights, out, add)

    def forms(self, pairs: Any, B: Any) -> Any:
        """``sum_ij B_ij K_l,ij`` for every member, float64 tensor."""
        torch = self.device.torch
        sums = [
            (self.value(pairs, place) * B).sum(dim=1).sum(dtype=torch.float64)
            for place in range(self.members.size)
        ]
        return torch.stack(sums) * self.device.put(self.scales)

    def products(self, pairs: Any, coefficients: Any) -> Any:
        """``K_l coefficients`` for coefficients (cols, t), (members, rows, t)."""
        torch = self.device.torch
        rows = [self.value(pairs, place) @ coefficients for place in range(self.members.size)]
        return torch.stack(rows).double() * self.device.put(self.scales)[:, None, None]


def squared_distances(a: Any, b: Any) -> Any:
    """Squared distances between the rows of two tensors, which rounding must not make negative."""
    distances = a.square().sum(dim=1)[:, None] + b.square().sum(dim=1)
    return distances.addmm_(a, b.T, alpha=-2.0).clamp_(min=0.0)


class _Points(DeviceFamily):
    """A family of kernels of feature vectors."""

    def __init__(
        self, device: Device, members: Indices, scales: np.ndarray, dtype: DTypeLike, points: Points
    ) -> None:
        super().__init__(device, members, scales, dtype)
        # distances do not mind, and numbers get smaller
        center = device.put(middle(dense(points.right))) if self.centered else 0.0
        self.left, self.right = points.each(lambda X: device.put(dense(X)) - center)

    centered = True


class _Exponentials(_Points):
    """Kernels ``exp(-gamma D)`` of a distance D."""

    def __init__(self, device: Device, members: Indices, gammas: np.ndarray, *of: Any) -> None:
        super().__init__(device, members, *of)
        self.gammas = np.asarray(gammas, dtype=float)

    def value(self, pairs: Any, place: int) -> Any:
        return self.device.torch.exp(-self.gammas[place] * self._rounded(pairs))

    def combine(self, pairs: Any, weights: Any, out: Any, add: Any = True) -> None:
        gammas, scaled = self._in_use(weights)
        combine(self.device, pairs, gammas, scaled, out, add)

    def _in_use(self, weights: ArrayLike) -> Any:
        """Factors and scaled weights of the kernels that have weight."""
        used = np.flatnonzero(weights)
        values = self.gammas[used], (weights * self.scales)[used]
        return tuple(self.device.put(value, self.dtype) for value in values)

    def forms(self, pairs: Any, B: Any) -> Any:
        return forms(
            self.device, pairs, B, self.device.put(self.gammas, self.dtype)
        ) * self.device.put(self.scales)

    def _rounded(self, distances: Any) -> Any:
        return distances.to(self.device.entry(self.dtype))


class Gaussians(_Exponentials):
    """Gaussian kernels, by products of matrices in float64: in float32 near points would lose their
    distance.
    """

    def pairs(self, rows: Any, cols: Any) -> Any:
        """Squared distances in float64; those that rounding made negative are so by next to
        nothing.
        """
        left, right = self._longer
        return left[rows] @ (right if len(cols) == len(right) else right[cols]).T

    def combine_at(
        self, rows: Any, cols: Any, weights: ArrayLike, out: Any, add: bool = True
    ) -> None:
        if self._split is None:
            super().combine_at(rows, cols, weights, out, add)
            return
        gammas, weights = self._in_use(weights)
        left, right = self._split
        same = rows is cols and left is right
        right = right if len(cols) == len(self.right) else right.chosen(cols)
        left = right if same else left.chosen(rows)
        combine_split(left, right, gammas * LOG2_E, weights, out, add)

    def products_at(self, cols: Any, coefficients: Any) -> Any:
        rates = self.device.put(self.gammas * LOG2_E, self.dtype)
        left, right = self._split
        out = multiply_split(left, right.chosen(cols), rates, coefficients.T)
        return out.transpose(1, 2).mul_(self.device.put(self.scales)[:, None, None])

    def decision_at(self, cols: Any, coefficients: Any, weights: np.ndarray) -> Any:
        (gammas, scaled), (left, right) = self._in_use(weights), self._split
        rates = gammas * LOG2_E
        return decide_split(left, right.chosen(cols), rates, scaled, coefficients.T).T

    @property
    def lean(self) -> bool:  # type: ignore[override]
        return self._split is not None

    without_tiles = lean

    @cached_property
    def _split(self) -> Any:
        """Points in two parts, for a GPU that works in float32 where that is precise enough."""
        points, device = (self.left, self.right), self.device
        if not device.fused or self.dtype != np.float32:
            return None
        if not precise_enough(points, self.gammas.max()):
            return None
        unit = unit_of(points)
        right = Split.of(device.torch, self.right, unit)
        left = right if self.left is self.right else Split.of(device.torch, self.left, unit)
        return left, right

    @cached_property
    def _longer(self) -> Any:
        """Points with two more features each, so that a product is a squared distance."""
        torch = self.device.torch
        norms = [points.square().sum(dim=1, keepdim=True) for points in (self.left, self.right)]
        ones = [torch.ones_like(norm) for norm in norms]
        left = torch.cat([self.left, norms[0], ones[0]], dim=1)
        return left, torch.cat([-2.0 * self.right, ones[1], norms[1]], dim=1)


class Laplacians(_Exponentials):
    """Laplacian kernels."""

    def pairs(self, rows: Any, cols: Any) -> Any:
        return self._rounded(self.device.torch.cdist(self.left[rows], self.right[cols], p=1.0))


class Polynomials(_Points):
    """Powers of a dot product; linear kernels are the first power."""

    centered = False

    def __init__(self, device: Device, members: Indices, kernels: Any, *of: Any) -> None:
        super().__init__(device, members, *of)
        self.parameters = [polynomial_parameters(kernel) for kernel in kernels]

    def pairs(self, rows: Any, cols: Any) -> Any:
        return self.left[rows] @ self.right[cols].T

    def value(self, pairs: Any, place: int) -> Any:
        gamma, coef0, degree = self.parameters[place]
        values = (gamma * pairs).add_(coef0)
        return (values if degree == 1 else values.pow_(degree)).to(self.device.entry(self.dtype))


class Overlaps(_Points):
    """A kernel of what bits or counts share."""

    centered = False

    def __init__(self, device: Device, members: Indices, kernel: Any, *of: Any) -> None:
        super().__init__(device, members, *of)
        self.of_bits = type(kernel) is Tanimoto
        of[-1].each(kernel.laid_out)  # which refuses what it is not for

    def pairs(self, rows: Any, cols: Any) -> Any:
        """The kernel itself, in float64."""
        left, right = self.left[rows], self.right[cols]
        both = left.sum(dim=1)[:, None] + right.sum(dim=1)
        if self.of_bits:
            return similarities(both, both - 2.0 * (left @ right.T))
        return similarities(both, self.device.torch.cdist(left, right, p=1.0))

    def value(self, pairs: Any, place: int) -> Any:
        return pairs.to(self.device.entry(self.dtype))


class FromHost(DeviceFamily):
    """Kernels that only the host can compute; matrices of all pairs stay on the device if they fit.

    Parameters
    ----------
    family : Family
    shape : (rows, columns) of the whole
    budget : int
        Bytes for matrices that stay.
    """

    def __init__(
        self, device: Device, family: Any, dtype: DTypeLike, shape: tuple[int, int], budget: float
    ) -> None:
        super().__init__(device, family.members, np.ones(family.members.size), dtype)
        self.family, self.held = family, None
        if family.members.size * shape[0] * shape[1] * np.dtype(dtype).itemsize <= budget:
            self.held = self._computed(np.arange(shape[0]), np.arange(shape[1]))

    def _computed(self, rows: Any, cols: Any) -> Any:
        return self.device.put(self.family.values(Tile(rows, cols, cols.size)), self.dtype)

    def pairs(self, rows: Any, cols: Any) -> Any:
        if self.held is not None:
            return self.held[:, rows][:, :, cols]
        return self._computed(rows.cpu().numpy(), cols.cpu().numpy())

    def value(self, pairs: Any, place: int) -> Any:
        return pairs[place]


# --- kernels of single features, all of a kind together ------------------------------------------


class FeatureGaussians(DeviceFamily):
    """Gaussian kernels of single features, any number of them.

    Parameters
    ----------
    members, features, gammas, scales : (m,) arrays
    points : Points
    """

    by_products = lean = True

    def __init__(
        self,
        device: Device,
        members: Indices,
        features: np.ndarray,
        gammas: np.ndarray,
        scales: np.ndarray,
        dtype: DTypeLike,
        points: Points,
    ) -> None:
        order = np.argsort(features, kind="stable")
        super().__init__(device, np.asarray(members)[order], np.asarray(scales)[order], dtype)
        used, self.slot = np.unique(np.asarray(features)[order], return_inverse=True)
        self.rate = np.asarray(gammas, dtype=float)[order] * LOG2_E
        self.rates = Rates.of(device, self.slot, self.rate, dtype)
        # centered, so that float32 keeps the digits of features that lie far from zero
        center = np.median(dense(points.right[:, used]), axis=0)
        self.left, self.right = points.each(
            lambda X: device.put((dense(X[:, used]) - center).T, dtype)
        )

    def pairs(self, rows: Any, cols: Any) -> Any:
        """The features of the points of both sides."""
        right = self.right if len(cols) == self.right.shape[1] else self.right[:, cols]
        return self.left[:, rows], right

    def value(self, pairs: Any, place: int) -> Any:
        left, right = (part[self.slot[place]] for part in pairs)
        difference = left[:, None] - right
        return difference.square_().mul_(-self.rate[place]).exp2_()

    def combine(self, pairs: Any, weights: ArrayLike, out: Any, add: bool = True) -> None:
        used = np.flatnonzero(weights)
        rates = self.rates
        if used.size < self.members.size:
            rates = Rates.of(self.device, self.slot[used], self.rate[used], self.dtype)
        scaled = self.device.put((weights * self.scales)[used], self.dtype)
        combine_features(self.device, pairs, rates, scaled, out, add)

    def products(self, pairs: Any, coefficients: Any) -> Any:
        values = multiply_features(self.device, pairs, self.rates, coefficients)
        return values * self.device.put(self.scales, self.dtype)[:, None, None]


class FeaturePolynomials(DeviceFamily):
    """Linear and polynomial kernels of single features, by their monomials as
    `manykernels.banks.families.FeaturePolynomials`: products of matrices.
    """

    by_products = lean = True

    def __init__(
        self,
        device: Device,
        members: Indices,
        features: np.ndarray,
        kernels: Any,
        scales: np.ndarray,
        dtype: DTypeLike,
        points: Points,
    ) -> None:
        super().__init__(device, members, np.ones(len(members)), dtype)
        used, self.slot = np.unique(features, return_inverse=True)
        largest = np.abs(dense(points.right[:, used])).max(axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        self.coefficients = power_coefficients(kernels, scales, unit[self.slot] ** 2)
        degrees, torch = range(self.coefficients.shape[1]), device.torch

        def monomials(X):
            z = device.put((dense(X[:, used]) / unit).T)
            return torch.stack([z**r for r in degrees]).to(device.entry(dtype))

        self.left, self.right = points.each(monomials)
        # of a member: which feature it has, and its coefficients
        self._there = device.indices(self.slot), device.put(self.coefficients)

    def pairs(self, rows: Any, cols: Any) -> Any:
        """Powers 0, 1, ... of the features of both sides, (degree + 1, features, points) each."""
        return self.left[:, :, rows], self.right[:, :, cols]

    def value(self, pairs: Any, place: int) -> Any:
        left, right = (part[:, self.slot[place]] for part in pairs)
        powers = self.device.put(self.coefficients[place], self.dtype)[:, None]
        return (powers * left).T @ right

    def combine(self, pairs: Any, weights: Any, out: Any, add: Any = True) -> None:
        left, right = pairs
        table = np.zeros((left.shape[1], left.shape[0]))
        np.add.at(table, self.slot, weights[:, None] * self.coefficients)
        constant, scale = table[:, 0].sum(), self.device.put(table.T[1:, :, None], self.dtype)
        factors = (left[1:] * scale).flatten(0, 1), right[1:].flatten(0, 1)
        self.device.torch.addmm(
            out, factors[0].T, factors[1], beta=1.0 if add else 0.0, out=out
        ).add_(constant)

    def products(self, pairs: Any, coefficients: Any) -> Any:
        (left, right), (slot, table) = pairs, self._there
        sums = (right @ coefficients)[:, slot]  # (degree + 1, members, outputs)
        return self.device.torch.einsum(
            "lr,rlt,rli->lit", table.to(sums.dtype), sums, left[:, slot]
        )
