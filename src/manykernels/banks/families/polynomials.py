"""Linear and polynomial kernels."""

from typing import Any

import numpy as np

from ..._loops.sums import write_polynomials
from ...kernels.vector import chosen_rows, dense, dot_products, squared_norms
from ..compute import Points
from ..kernel_set import Indices
from ..powers import power_coefficients
from .base import Family, Tile


class FeaturePolynomials(Family):
    """Linear and polynomial kernels on single features, through their few monomials ``x_f^r``.

    ``K_l(x, y) = sum_r c[l, r] (x_f y_f)^r`` has rank degree + 1, so quadratic forms cost O(n) per
    kernel and the combined kernel is one matrix product, whatever the number of kernels.
    """

    explicit = True

    def __init__(
        self,
        members: Indices,
        features: np.ndarray,
        kernels: Any,
        scales: np.ndarray,
        points: Points,
        dtype: Any,
    ) -> None:
        super().__init__(members, dtype)
        self.features, self.slot = np.unique(features, return_inverse=True)
        columns = dense(points.right[:, self.features])
        largest = np.abs(columns).max(axis=0)
        self.unit = np.where(largest > 0, largest, 1.0)
        self.coefficients = power_coefficients(kernels, scales, self.unit[self.slot] ** 2)
        self.left, self.right = points.each(self._monomials)

    def _monomials(self, X: Any) -> Any:
        """Powers 0 … degree of the scaled features, (degree + 1, features, n)."""
        z = (dense(X[:, self.features]) / self.unit).T
        return np.stack([z**r for r in range(self.coefficients.shape[1])]).astype(self.dtype)

    def prepared(self, weights: np.ndarray) -> Any:
        table = np.zeros((self.coefficients.shape[1], self.features.size))
        np.add.at(table.T, self.slot, weights[:, None] * self.coefficients)
        return table[1:, :, None].astype(self.dtype), self.dtype(table[0].sum())

    def combine(self, prepared: Any, tile: Tile, out: np.ndarray) -> None:
        table, constant = prepared
        left = self.left[1:, :, tile.rows] * table
        right = self.right[1:, :, tile.cols]
        out += left.reshape(-1, left.shape[2]).T @ right.reshape(-1, right.shape[2])
        out += constant

    def values(self, tile: Tile) -> np.ndarray:
        out = np.empty((tile.rows.size, self.members.size, tile.cols.size), self.dtype)
        self._write(tile, np.arange(self.members.size), out)
        return out.transpose(1, 0, 2)

    def write(self, tile: Tile, out: np.ndarray) -> None:
        self._write(tile, self.members, out)

    def _write(self, tile: Tile, places: Any, out: np.ndarray) -> None:
        rows, cols = self.left[1][:, tile.rows], self.right[1][:, tile.cols]
        coefficients = self.coefficients.astype(self.dtype)
        write_polynomials(rows[self.slot], cols[self.slot], coefficients, places, out)

    def add_products(self, beta: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        sums = self.right[:, :, tile.cols].astype(float) @ beta.T
        left = self.left[:, :, tile.rows].astype(float)
        moments += np.einsum(
            "lr,rlt,rli->lti",
            self.coefficients,
            sums[:, self.slot],
            left[:, self.slot],
            optimize=True,
        )

    def forms(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """``sum_c a_c' K_l b_c`` of each member; a and b (t, n)."""
        left, right = (self.right.astype(float) @ beta.T for beta in (a, b))
        return np.einsum("lr,rl->l", self.coefficients, (left * right).sum(axis=2)[:, self.slot])


class DotPolynomials(Family):
    """Linear and polynomial kernels of the dot product over several features, up to degree 3."""

    def __init__(
        self, members: Indices, kernels: Any, scales: np.ndarray, points: Points, dtype: Any
    ) -> None:
        super().__init__(members, dtype)
        largest = squared_norms(points.right).max()
        self.unit = largest if largest > 0 else 1.0
        self.coefficients = power_coefficients(kernels, scales, np.full(len(kernels), self.unit))
        self.left, self.right = points

    def _dots(self, tile: Tile) -> Any:
        return (
            dot_products(chosen_rows(self.left, tile.rows), chosen_rows(self.right, tile.cols))
            / self.unit
        ).astype(self.dtype)

    def prepared(self, weights: np.ndarray) -> Any:
        return (weights @ self.coefficients).astype(self.dtype)

    def combine(self, prepared: Any, tile: Tile, out: np.ndarray) -> None:
        t = self._dots(tile)
        total = np.full_like(t, prepared[-1])
        for coefficient in prepared[-2::-1]:
            total *= t
            total += coefficient
        out += total

    def values(self, tile: Tile) -> np.ndarray:
        t, coefficients = self._dots(tile), self.coefficients.astype(self.dtype)
        out, power = np.empty((len(coefficients), *t.shape), self.dtype), t
        out[...] = coefficients[:, 0, None, None]
        for column in coefficients[:, 1:].T:
            for values, coefficient in zip(out, column, strict=True):
                values += coefficient * power
            power = power * t
        return out

    def moments(self, *shape: int) -> np.ndarray:
        return np.zeros((self.coefficients.shape[1], *shape))

    def add_products(self, beta: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        t, coefficients = self._dots(tile), beta.astype(self.dtype)
        power = np.ones_like(t)
        for sums in moments:
            sums += coefficients @ power.T
            power *= t

    def add_forms(self, B: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        t, B = self._dots(tile), B.astype(float)
        for r in range(moments.size):
            moments[r] += B.sum()
            B *= t

    def gathered(self, moments: np.ndarray) -> np.ndarray:
        return np.tensordot(self.coefficients, moments, 1)
