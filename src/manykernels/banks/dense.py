"""A bank that holds every Gram matrix: the simplest, for small problems and as the measure of the
others.
"""

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._loops.sums import add_weighted
from .base import SumBank, as_outputs
from .kernel_set import Delegating, Indices

# Entries that are worth a thread: it takes as long to start as it takes to visit them.
ENTRIES_PER_THREAD = 2**20
# Share of the kernels up to which the sum of those that have weight is computed sooner alone than
# together with the sums of other weights. With a larger one fewer sums are computed together.
ALONE_SHARE = 0.05
# Share of the kernels up to which it is computed sooner than a product with all matrices. With a
# larger one more sums go matrix by matrix.
ONE_BY_ONE_SHARE = 0.4


class DenseBank(Delegating, SumBank):
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
        return cls(source.matrices(), source)

    @property
    def symmetric(self) -> bool:
        return True

    def nonnegative(self) -> bool | np.ndarray:
        return self.source.nonnegative()

    @property
    def persistent(self) -> Any:
        return self.source.persistent

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        source = self.source.take_kernels(kernels, factor)
        grams = self.grams[kernels]
        grams = grams if factor == 1.0 else grams * self.dtype.type(factor)
        return None if source is None else DenseBank(grams, source)

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        weights = np.asarray(weights, dtype=self.dtype)
        if rows is not None:
            return np.tensordot(weights, self.grams[:, rows], 1)
        flat, used = self.grams.reshape(self.m, -1), np.flatnonzero(weights)
        if used.size > ONE_BY_ONE_SHARE * self.m:
            return self._multiplied(weights[None], flat).reshape(self.n_rows, self.n)
        out = np.empty(flat.shape[1], self.dtype)
        entries = used.size * out.size
        self._share_out(
            out.size, lambda *part: add_weighted(flat, weights, used, *part, out), entries
        )
        return out.reshape(self.n_rows, self.n)

    def is_cheap(self, weights: np.ndarray) -> bool:
        """True if so few kernels have weight that their sum alone is cheaper than a share in that
        of many weights.
        """
        return bool(np.count_nonzero(weights) <= ALONE_SHARE * self.m)

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        self._needs_square("quadratic_forms")
        beta = as_outputs(beta, self.n)
        return np.tensordot(self.products(beta), beta, 2)

    def combine_each(self, weights: ArrayLike) -> np.ndarray:
        weights = np.asarray(weights, dtype=self.dtype)
        return self._multiplied(weights, self.grams.reshape(self.m, -1)).reshape(
            -1, self.n_rows, self.n
        )

    def products(self, beta: ArrayLike) -> np.ndarray:
        products = self.products_each(as_outputs(beta, self.n))
        products = products.swapaxes(0, 1).astype(float, order="C")
        return products if np.ndim(beta) == 2 else products[:, 0]

    def products_each(self, beta: Any) -> np.ndarray:
        flat = self._multiplied(beta.astype(self.dtype), self.grams.reshape(-1, self.n).T)
        return flat.reshape(-1, self.m, self.n_rows)

    def _multiplied(self, few: Any, many: Any) -> Any:
        """``few @ many``, the columns of the second shared out by hand: the matrix library listens
        only to the thread that first told it how many threads to use.
        """
        out = np.empty((len(few), many.shape[1]), self.dtype)

        def fill(start, stop):
            np.matmul(few, many[:, start:stop], out=out[:, start:stop])

        self._share_out(many.shape[1], fill, len(few) * many.size)
        return out

    def _share_out(self, count: int, work: Callable, entries: int) -> None:
        """``work(start, stop)`` for parts of a count, one for each thread or for as many as the
        entries that are visited are worth.
        """
        parts = max(1, min(self.threads.count, entries // ENTRIES_PER_THREAD))
        edges = np.linspace(0, count, parts + 1).astype(int)
        self.threads.map(lambda part: work(*part), pairwise(edges))

    def columns(self, chosen: Indices) -> np.ndarray:
        return self.grams[:, :, chosen].astype(float)

    def kernel_rows(self, chosen: Indices, points: Indices) -> np.ndarray:
        return np.ascontiguousarray(self.grams[:, chosen][:, :, points].swapaxes(0, 1))

    def diagonal(self) -> np.ndarray:
        return self._diagonal.copy()

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        return np.asarray(weights, dtype=float) @ self._diagonal

    @cached_property
    def _diagonal(self) -> Any:
        self._needs_square("diagonal")
        return np.diagonal(self.grams, axis1=1, axis2=2).astype(float, order="C")

    def refined(self) -> Any:
        source = self.source.refined()
        return None if source is None else DenseBank.from_bank(source)

    def cross(self, X_new: Any, support: Indices | None = None) -> "SumBank":
        return self.source.cross(X_new, support)

    def same_data(self, X: Any) -> bool:
        return self.source.same_data(X)
