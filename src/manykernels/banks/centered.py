"""Kernels centered in feature space."""

import warnings

import numpy as np

from .base import Bank, as_outputs


class CenteredBank(Bank):
    """A bank whose kernels have the (weighted) mean of the training points moved to the origin, and
    mean diagonal one.

    ``K_c[i, j] = f (K[i, j] - r[i] - r[j] + c)`` with ``r`` the mean over training points and ``c``
    the mean of r, and f such that the mean diagonal, which is then the variance in feature space,
    is one (Kloft et al., JMLR 2011).

    Parameters
    ----------
    bank : Bank
        The kernels before centering.
    shares : (n,) array
        Share of each training point in the mean, summing to one.
    origin : CenteredBank, optional
        That of the training points, for a bank of new points.
    """

    def __init__(self, bank, shares, origin=None):
        self._describe(bank, shares)
        self.row_means = bank.products(shares)
        origin = origin or self
        if origin is self:
            self.col_means = self.row_means
            self.means = self.col_means @ shares
            variance = bank.diagonal() @ shares - self.means
            # what centering leaves of a constant kernel is rounding
            self.factor = np.divide(
                1.0, variance, out=np.zeros(self.m), where=variance > 1e-9 * np.abs(self.means)
            )
            _warn_constant((self.factor == 0.0) & (self.means != 0.0))
        else:
            self.col_means, self.means, self.factor = origin.col_means, origin.means, origin.factor

    def _describe(self, bank, shares):
        self.bank, self.shares = bank, shares
        self.m, self.n, self.n_rows = bank.m, bank.n, bank.n_rows
        self.names, self.groups, self.dtype, self.normalize = (
            bank.names,
            bank.groups,
            bank.dtype,
            "center",
        )
        self.symmetric = bank.symmetric

    @classmethod
    def restored(cls, bank, shares, col_means, means, factor):
        """The bank of the training points from means that were computed before."""
        centered = cls.__new__(cls)
        centered._describe(bank, shares)
        centered.row_means = centered.col_means = col_means
        centered.means, centered.factor = means, factor
        return centered

    def combine(self, weights, rows=None):
        scaled = np.asarray(weights, dtype=float) * self.factor
        row_means = scaled @ (self.row_means if rows is None else self.row_means[:, rows])
        shift = scaled @ self.means
        out = self.bank.combine(scaled, rows)
        out -= (row_means - shift)[:, None].astype(self.dtype)
        out -= (scaled @ self.col_means).astype(self.dtype)
        return out

    def quadratic_forms(self, beta):
        beta = as_outputs(beta, self.n)
        totals = beta.sum(axis=1)
        correction = self.means * np.square(totals).sum() - 2.0 * (self.col_means @ beta.T) @ totals
        return (self.bank.quadratic_forms(beta) + correction) * self.factor

    def products(self, beta):
        beta = np.asarray(beta, dtype=float)
        totals = beta.sum(axis=-1, keepdims=True)
        constant = np.tensordot(self.col_means, beta, (1, -1))[..., None]
        if beta.ndim == 1:
            correction = (self.means[:, None] - self.row_means) * totals - constant
            return (self.bank.products(beta) + correction) * self.factor[:, None]
        correction = (self.means[:, None, None] - self.row_means[:, None, :]) * totals - constant
        return (self.bank.products(beta) + correction) * self.factor[:, None, None]

    def columns(self, chosen):
        shift = (
            self.means[:, None, None] - self.row_means[:, :, None] - self.col_means[:, None, chosen]
        )
        return (self.bank.columns(chosen) + shift) * self.factor[:, None, None]

    def diagonal(self):
        return (self.bank.diagonal() - 2.0 * self.col_means + self.means[:, None]) * self.factor[
            :, None
        ]

    def cross(self, X_new, support=None):
        rows = CenteredBank(self.bank.cross(X_new), self.shares, origin=self)
        return rows if support is None else _Chosen(rows, support)

    def same_data(self, X):
        return self.bank.same_data(X)


def _warn_constant(constant):
    if constant.any():
        listed = ", ".join(map(str, np.flatnonzero(constant)[:5])) + (
            " …" if constant.sum() > 5 else ""
        )
        warnings.warn(
            f"Nothing is left of {constant.sum()} kernels after centering (numbers {listed}): they "
            "are constant on the training "
            "data, or the data lie so far from zero that rounding ate them. They are left out; "
            "standardize the features.",
            stacklevel=7,
        )


class _Chosen(Bank):
    """Some columns of a bank of new points; the means of the others are still needed."""

    def __init__(self, bank, support):
        self.bank, self.support = bank, np.asarray(support)
        self.m, self.n_rows, self.n, self.symmetric = bank.m, bank.n_rows, self.support.size, False
        self.names, self.groups, self.dtype, self.normalize = (
            bank.names,
            bank.groups,
            bank.dtype,
            "center",
        )

    def _spread(self, beta):
        beta = np.asarray(beta, dtype=float)
        out = np.zeros((*beta.shape[:-1], self.bank.n))
        out[..., self.support] = beta
        return out

    def combine(self, weights, rows=None):
        return self.bank.combine(weights, rows)[:, self.support]

    def quadratic_forms(self, beta):
        return self._needs_square("quadratic_forms")

    def products(self, beta):
        return self.bank.products(self._spread(beta))

    def columns(self, chosen):
        return self.bank.columns(self.support[chosen])

    def diagonal(self):
        return self._needs_square("diagonal")

    def cross(self, X_new, support=None):
        return self.bank.cross(X_new, self.support if support is None else self.support[support])

    def same_data(self, X):
        return False
