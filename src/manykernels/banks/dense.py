"""A bank that holds every Gram matrix: the simplest, for small problems and as the measure of the
others.
"""

from typing import Self

import numpy as np

from .base import SumBank, as_outputs
from .holder import Forwards

AT_ONCE = 2**24  # entries that are computed together


class DenseBank(Forwards, SumBank):
    """Kernels as one stack of matrices.

    Parameters
    ----------
    grams : array of shape (m, n_rows, n)
        Already normalized.
    source : SumBank
        The bank that the stack was computed from; it serves new points.
    """

    inner, shares_passes = "source", True

    def __init__(self, grams: np.ndarray, source: SumBank) -> None:
        self.grams, self.source = grams, source
        _, self.n_rows, self.n = grams.shape
        self.dtype = grams.dtype
        self.threads = source.threads

    @classmethod
    def from_bank(cls, source: SumBank) -> Self:
        """The stack of all matrices of a bank of training points."""
        grams, points = np.empty((source.m, source.n, source.n), source.dtype), np.arange(source.n)
        step = max(AT_ONCE // (source.m * source.n), 16)
        for start in range(0, source.n, step):
            part = slice(start, start + step)
            grams[:, part] = source.kernel_rows(points[part], points).swapaxes(0, 1)
        return cls(grams, source)

    @property
    def symmetric(self):
        return True

    def subset(self, kernels, factor=1.0):
        source = self.source.subset(kernels, factor)
        grams = self.grams[kernels] * self.dtype.type(factor)
        return None if source is None else DenseBank(grams, source)

    def combine(self, weights, rows=None):
        grams = self.grams if rows is None else self.grams[:, rows]
        return np.tensordot(np.asarray(weights, dtype=self.dtype), grams, 1)

    def quadratic_forms(self, beta):
        self._needs_square("quadratic_forms")
        beta = as_outputs(beta, self.n)
        return np.tensordot(self.products(beta), beta, 2)

    def combine_each(self, weights):
        weights = np.asarray(weights, dtype=self.dtype)
        with self.threads.algebra():
            flat = weights @ self.grams.reshape(self.m, -1)
        return flat.reshape(-1, self.n_rows, self.n)

    def products(self, beta):
        outputs = as_outputs(beta, self.n)
        with self.threads.algebra():
            flat = outputs.astype(self.dtype) @ self.grams.reshape(-1, self.n).T
        products = flat.reshape(-1, self.m, self.n_rows).swapaxes(0, 1).astype(float, order="C")
        return products if np.ndim(beta) == 2 else products[:, 0]

    def columns(self, chosen):
        return self.grams[:, :, chosen].astype(float)

    def kernel_rows(self, chosen, points):
        return np.ascontiguousarray(self.grams[:, chosen][:, :, points].swapaxes(0, 1))

    def diagonal(self):
        self._needs_square("diagonal")
        return np.diagonal(self.grams, axis1=1, axis2=2).astype(float)

    def refined(self):
        source = self.source.refined()
        return None if source is None else DenseBank.from_bank(source)

    def cross(self, X_new, support=None):
        return self.source.cross(X_new, support)

    def same_data(self, X):
        return self.source.same_data(X)
