"""Kernels centered in feature space."""

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from ..._callers import user_stacklevel
from ..base import SumBank, as_outputs
from ..kernel_set import Indices
from .delegating import DelegatingBank


class Centering(NamedTuple):
    """The new origin and unit of each kernel's feature space.

    Attributes
    ----------
    shares : (n,) array
        Share of each training point in the mean, summing to one.
    col_means : (m, n) array
        Mean of every kernel over the training points, at each of them.
    means : (m,) array
        The mean of those.
    factor : (m,) array
        One over what is then the mean diagonal.
    """

    shares: np.ndarray
    col_means: np.ndarray
    means: np.ndarray
    factor: np.ndarray

    def at(self, points: Any) -> "Centering":
        """The centering of some of the training points as columns."""
        return self._replace(col_means=self.col_means[:, points])

    def of(self, kernels: Indices, factor: float) -> "Centering":
        """The centering of some of the kernels, each times a factor."""
        return Centering(
            self.shares, self.col_means[kernels], self.means[kernels], factor * self.factor[kernels]
        )


class CenteredBank(DelegatingBank):
    """A bank whose kernels have the (weighted) mean of the training points moved to the origin, and
    mean diagonal one.

    ``K_c[i, j] = f (K[i, j] - r[i] - r[j] + c)`` with ``r`` the mean over training points and ``c``
    the mean of r, and f such that the mean diagonal, which is then the variance in feature space,
    is one (Kloft et al., JMLR 2011).

    Parameters
    ----------
    bank : SumBank
        The kernels before centering.
    centering : Centering
        `from_shares` computes it.
    row_means : (m, n_rows) array, optional
        Mean of every kernel over all training points at the points of the rows, where these are
        others.
    """

    inner = "bank"

    def __init__(
        self, bank: SumBank, centering: Centering, row_means: np.ndarray | None = None
    ) -> None:
        self.bank, self.centering = bank, centering
        self.row_means = centering.col_means if row_means is None else row_means

    @classmethod
    def from_shares(
        cls, bank: SumBank, shares: np.ndarray, numbers: np.ndarray | None = None
    ) -> Self:
        """The kernels of a bank of training points, centered.

        Parameters
        ----------
        bank : SumBank
        shares : (n,) array
            Share of each point in the mean, summing to one.
        numbers : (m,) int, optional
            What a warning calls the kernels.
        """
        col_means = bank.products(shares)
        means = col_means @ shares
        variance = bank.diagonal() @ shares - means
        # what centering leaves of a constant kernel is rounding
        factor = np.divide(
            1.0, variance, out=np.zeros(bank.m), where=variance > 1e-9 * np.abs(means)
        )
        constant = np.flatnonzero((factor == 0.0) & (means != 0.0))
        _warn_constant(constant if numbers is None else numbers[constant])
        return cls(bank, Centering(shares, col_means, means, factor))

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return self.bank.shares_passes

    @property
    def cheap_subsets(self) -> bool:  # type: ignore[override]
        return self.bank.cheap_subsets

    @property
    def normalize(self) -> str | None:
        return "center"

    @property
    def scales(self) -> np.ndarray:
        return self.bank.scales * self.centering.factor

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        bank = self.bank.take_kernels(kernels)
        if bank is None:
            return None
        return CenteredBank(bank, self.centering.of(kernels, factor), self.row_means[kernels])

    def take_points(self, points: Any) -> "SumBank | None":
        # the mean stays that of all training points
        bank = self.bank.take_points(points)
        if bank is None:
            return None
        return CenteredBank(bank, self.centering.at(points), self.row_means[:, points])

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        scaled = np.asarray(weights, dtype=float) * self.centering.factor
        out = self.bank.combine(scaled, rows)
        self._shift(scaled, out, self.row_means if rows is None else self.row_means[:, rows])
        return out

    def combine_each(self, weights: ArrayLike) -> np.ndarray:
        scaled = np.asarray(weights, dtype=float) * self.centering.factor
        out = self.bank.combine_each(scaled)
        for row, K in zip(scaled, out, strict=True):
            self._shift(row, K, self.row_means)
        return out

    def _shift(self, scaled: Any, K: np.ndarray, row_means: Any) -> None:
        """Center the weighted sum K of the kernels, whose rows have these means."""
        _, col_means, means, _ = self.centering
        K -= (scaled @ row_means - scaled @ means)[:, None].astype(self.dtype)
        K -= (scaled @ col_means).astype(self.dtype)

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        self._needs_square("quadratic_forms")
        _, col_means, means, factor = self.centering
        beta = as_outputs(beta, self.n)
        totals = beta.sum(axis=1)
        correction = means * np.square(totals).sum() - 2.0 * (col_means @ beta.T) @ totals
        return (self.bank.quadratic_forms(beta) + correction) * factor

    def products(self, beta: ArrayLike) -> np.ndarray:
        _, col_means, means, factor = self.centering
        beta = np.asarray(beta, dtype=float)
        totals = beta.sum(axis=-1, keepdims=True)
        constant = np.tensordot(col_means, beta, (1, -1))[..., None]
        if beta.ndim == 1:
            correction = (means[:, None] - self.row_means) * totals - constant
            return (self.bank.products(beta) + correction) * factor[:, None]
        correction = (means[:, None, None] - self.row_means[:, None, :]) * totals - constant
        return (self.bank.products(beta) + correction) * factor[:, None, None]

    def columns(self, chosen: Indices) -> np.ndarray:
        _, col_means, means, factor = self.centering
        shift = means[:, None, None] - self.row_means[:, :, None] - col_means[:, None, chosen]
        return (self.bank.columns(chosen) + shift) * factor[:, None, None]

    def diagonal(self) -> np.ndarray:
        _, col_means, means, factor = self.centering
        return (self.bank.diagonal() - 2.0 * col_means + means[:, None]) * factor[:, None]

    def cross(self, X_new: Any, support: Any = None) -> "SumBank":
        # the means are over all training points, whichever of them are columns
        if self.n != self.centering.shares.size:
            raise ValueError(
                f"cross needs a bank of all {self.centering.shares.size} training points, this one "
                f"has {self.n} of them as columns."
            )
        everything = self.bank.cross(X_new)
        row_means = everything.products(self.centering.shares)
        if support is None:
            return CenteredBank(everything, self.centering, row_means)
        some = self.bank.cross(X_new, support)
        return CenteredBank(some, self.centering.at(support), row_means)


def _warn_constant(constant: Any) -> None:
    if constant.size:
        listed = ", ".join(map(str, constant[:5])) + (" …" if constant.size > 5 else "")
        warnings.warn(
            f"Nothing is left of {constant.size} kernels after centering (numbers {listed}): they "
            "are constant on the training "
            "data, or the data lie so far from zero that rounding ate them. They are left out; "
            "standardize the features.",
            stacklevel=user_stacklevel(),
        )
