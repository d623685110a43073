"""Kernels of single features on a device, all of a kind together."""

import numpy as np

from ...kernels.vector import dense
from ..families import power_coefficients
from . import single
from .exponentials import LOG2_E
from .families import DeviceFamily


class FeatureGaussians(DeviceFamily):
    """Gaussian kernels of single features, any number of them.

    Parameters
    ----------
    members, features, gammas, scales : (m,) arrays
    points : Points
    """

    by_products = lean = True

    def __init__(self, device, members, features, gammas, scales, dtype, points):
        order = np.argsort(features, kind="stable")
        super().__init__(device, np.asarray(members)[order], np.asarray(scales)[order], dtype)
        used, self.slot = np.unique(np.asarray(features)[order], return_inverse=True)
        self.rate = np.asarray(gammas, dtype=float)[order] * LOG2_E
        self.rates = single.Rates.of(device, self.slot, self.rate, dtype)
        # centered, so that float32 keeps the digits of features that lie far from zero
        center = np.median(dense(points.right[:, used]), axis=0)
        self.left, self.right = points.each(
            lambda X: device.put((dense(X[:, used]) - center).T, dtype)
        )

    def pairs(self, rows, cols):
        """The features of the points of both sides."""
        right = self.right if len(cols) == self.right.shape[1] else self.right[:, cols]
        return self.left[:, rows], right

    def value(self, pairs, place):
        left, right = (part[self.slot[place]] for part in pairs)
        difference = left[:, None] - right
        return difference.square_().mul_(-self.rate[place]).exp2_()

    def combine(self, pairs, weights, out, add=True):
        used = np.flatnonzero(weights)
        rates = self.rates
        if used.size < self.members.size:
            rates = single.Rates.of(self.device, self.slot[used], self.rate[used], self.dtype)
        scaled = self.device.put((weights * self.scales)[used], self.dtype)
        single.combine(self.device, pairs, rates, scaled, out, add)

    def products(self, pairs, coefficients):
        values = single.products(self.device, pairs, self.rates, coefficients)
        return values * self.device.put(self.scales, self.dtype)[:, None, None]


class FeaturePolynomials(DeviceFamily):
    """Linear and polynomial kernels of single features, by their monomials as
    `manykernels.banks.families.FeaturePolynomials`: products of matrices.
    """

    by_products = lean = True

    def __init__(self, device, members, features, kernels, scales, dtype, points):
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

    def pairs(self, rows, cols):
        """Powers 0, 1, ... of the features of both sides, (degree + 1, features, points) each."""
        return self.left[:, :, rows], self.right[:, :, cols]

    def value(self, pairs, place):
        left, right = (part[:, self.slot[place]] for part in pairs)
        powers = self.device.put(self.coefficients[place], self.dtype)[:, None]
        return (powers * left).T @ right

    def combine(self, pairs, weights, out, add=True):
        left, right = pairs
        table = np.zeros((left.shape[1], left.shape[0]))
        np.add.at(table, self.slot, weights[:, None] * self.coefficients)
        constant, scale = table[:, 0].sum(), self.device.put(table.T[1:, :, None], self.dtype)
        factors = (left[1:] * scale).flatten(0, 1), right[1:].flatten(0, 1)
        self.device.torch.addmm(
            out, factors[0].T, factors[1], beta=1.0 if add else 0.0, out=out
        ).add_(constant)

    def products(self, pairs, coefficients):
        (left, right), (slot, table) = pairs, self._there
        sums = (right @ coefficients)[:, slot]  # (degree + 1, members, outputs)
        return self.device.torch.einsum(
            "lr,rlt,rli->lit", table.to(sums.dtype), sums, left[:, slot]
        )
