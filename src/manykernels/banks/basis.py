"""Factors of many kernels in the small space in which they lie.

Kernels of neighbouring widths are nearly functions of each other, so the factors of all of them together, ``V`` with r columns,
have a much smaller rank than r, to the last digit of float32: ``V = Q P'`` with q columns. Fifty Gaussians of rank 100 on
data of ten features, 3340 columns, lie in a space of 700. With weights D on the columns of V the combined kernel is ``Q S Q'``
with ``S = P' D P``: memory, passes over the points and systems of equations are those of q columns.
"""

from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, eigh, qr

from .base import as_outputs
from .factors import FactorBank

LEAST = 256  # columns that are worth it
GAIN = 0.6  # largest part of the columns that a smaller space may have
ROUNDING = 2e-7  # of float32, relative to the largest singular value
HELD = 2**29  # bytes of small matrices that are kept
SAMPLE, ENOUGH = 1024, 0.7  # points whose factors show the space, at first, and directions per point that they may show


class ReducedBank(FactorBank):
    """Kernels ``K_k = Q P_k' P_k Q'``.

    Parameters
    ----------
    points : FactorBank
        With the factors Q.
    P : (r, q) array
        Orthonormal columns; rows as the columns of the factors that it stands for.
    offsets : (m + 1,) int
        Kernel k has the rows ``offsets[k]`` to ``offsets[k + 1]`` of P.
    """

    def __init__(self, points, P, offsets):
        super().__init__(points.factors, offsets, points.features, points.threads)
        self._points, self.P = points, P

    @property
    def points(self):
        return self._points

    @property
    def width(self):
        return self.P.shape[0]

    def whole(self):
        return self.points.whole() @ self.P.T

    def parts(self):
        """``P_k`` of every kernel."""
        return (self.P[self.offsets[k] : self.offsets[k + 1]] for k in range(self.m))

    def dot(self, coefficients):
        return self.points.dot(self.reduced(np.atleast_2d(coefficients)))

    def correlate(self, beta):
        return self.points.correlate(beta) @ self.P.T

    def gram(self, scale, exact=False):
        return self.P @ self.points.gram(scale, exact) @ self.P.T

    def combine(self, weights, rows=None):
        root = self.root(weights).astype(self.dtype)
        rotated = FactorBank(self._rotated(root), [0, root.shape[1]], self.features, self.threads)
        return rotated.combine(np.ones(1), rows)

    def products(self, beta):
        moments = self.points.correlate(as_outputs(beta, self.n))
        out = np.stack([self.points.dot(moments @ part.T @ part) for part in self.parts()])
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        few = self.factors[chosen].astype(float)
        return np.stack([self.points.dot(few @ part.T @ part).T for part in self.parts()])

    def diagonal(self):
        self._needs_square("diagonal")
        return np.stack([np.square(self._rotated(part.T), dtype=float).sum(axis=1) for part in self.parts()])

    def combined_diagonal(self, weights):
        self._needs_square("combined_diagonal")
        return np.square(self._rotated(self.root(weights)), dtype=float).sum(axis=1)

    def cross(self, X_new, support=None):
        right = self.right if support is None else self.right[support]
        new = FactorBank(self.features.transform(X_new), self.offsets, self.features, self.threads)
        return FactorBank(new.factors @ self.P @ self.P.T, self.offsets, self.features, self.threads, right=right @ self.P.T)

    def among(self, points):
        return ReducedBank(self.points.among(points), self.P, self.offsets)

    def lasting(self, coefficients):
        return self.reduced(coefficients) @ self.P.T

    def _rotated(self, matrix):
        """``Q matrix``, in the precision of Q."""
        out = np.empty((self.n_rows, matrix.shape[1]), self.dtype)

        def fill(part):
            out[part] = self.factors[part] @ matrix

        self.threads.map(fill, self.blocks())
        return out

    # what solvers on factors ask of a space

    @cached_property
    def _squares(self):
        """``P_k' P_k`` of every kernel, if they do not take too much memory, (m, q, q)."""
        if 8 * self.m * self.P.shape[1] ** 2 > HELD:
            return None
        return np.stack([part.T @ part for part in self.parts()])

    def root(self, weights):
        """A triangular root of S."""
        if self._squares is not None:
            return _lower(np.tensordot(np.asarray(weights, dtype=float), self._squares, 1))
        scaled = np.sqrt(self.spread(weights))[:, None] * self.P
        return _lower(scaled.T @ scaled)

    def spread_moments(self, weights, moments):
        """``D P moments``, (t, r), for moments ``Q' beta``, (t, q)."""
        return self.spread(weights) * (moments @ self.P.T)

    def reduced(self, v):
        """``P' v``, (t, q)."""
        return v @ self.P


def _lower(S):
    """The Cholesky factor of a matrix that may be singular to rounding."""
    shift = 1e-15 * np.trace(S)
    for _ in range(15):
        np.einsum("ii->i", S)[:] += shift
        try:
            return cholesky(S, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            shift *= 10.0
    raise FloatingPointError("The factors hold values that are not numbers: check the data, their scale and the kernels.")


def reduced(bank):
    """The same kernels in the smallest space that holds their factors; the bank itself if that is not much smaller.

    In float64, which is asked for where digits count, nothing is left out.
    """
    if type(bank) is not FactorBank or bank.dtype != np.float32 or bank.width < LEAST:
        return bank
    found = _directions(bank, int(min(GAIN * bank.width, bank.n)))
    if found is None:
        return bank
    P = qr(found, mode="economic", check_finite=False)[0]
    Q = np.empty((bank.n, P.shape[1]), bank.dtype)

    def fill(part):
        Q[part] = bank.factors[part].astype(float) @ P

    bank.threads.map(fill, bank.blocks())
    return ReducedBank(FactorBank(Q, [0, P.shape[1]], bank.features, bank.threads), P, bank.offsets)


def _directions(bank, most):
    """Columns that span the rows of the factors, (r, q), as a sample of the points shows them; None if they are too many.

    There must be clearly fewer of them than points in the sample: else other points, and new ones, would have more directions.
    """
    size = min(SAMPLE, bank.n)
    while True:
        rows = np.sort(np.random.default_rng(0).choice(bank.n, size, replace=False))
        V = bank.factors[rows].astype(float)
        values, vectors = eigh(V @ V.T, check_finite=False)
        kept = values > ROUNDING**2 * values[-1]
        if kept.sum() <= ENOUGH * size:
            return V.T @ (vectors[:, kept] / np.sqrt(values[kept])) if kept.sum() <= most else None
        if ENOUGH * size >= most or size == bank.n:
            return None
        size = min(2 * size, bank.n)
