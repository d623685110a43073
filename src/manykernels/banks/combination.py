"""A bank for kernels that are not sums (`manykernels.combinations`)."""

import copy
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._threads import Threads, rows_at_once, thread_count
from ..combinations import Combination, check_range
from ..kernels.base import Kernel
from ..kernels.vector import dense
from .base import Bank, as_outputs
from .kernel_set import Indices


class CombinationBank(Bank):
    """A combination between n_rows points and n training points; its m weights are those of the
    combination.

    Parameters
    ----------
    combination : fitted Combination
    left : (n_rows, d) array, optional
        Other points as rows; the training points by default.
    support : indices, optional
        Some of the training points as columns; all by default.
    feature_names : sequence of str, optional
    n_jobs : int, optional
        Threads, all cores by default.
    dtype : dtype
        Of kernels; float64 where float32 does not hold them.
    """

    def __init__(
        self,
        combination: Combination,
        left: np.ndarray | None = None,
        support: Indices | None = None,
        feature_names: Sequence[str] | None = None,
        n_jobs: int | None = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.combination, self.threads = combination, Threads(thread_count(n_jobs))
        self.by_roots = combination.by_roots
        self.dtype = np.dtype(dtype if combination.fits_single_precision else np.float64)
        combination.threads = self.threads
        self.right = combination.X if support is None else combination.X[support]
        self.left = self.right if left is None else left
        self.n, self.n_rows = len(self.right), len(self.left)
        self.feature_names = feature_names

    @property
    def names(self) -> Sequence[str]:
        return self.combination.names(self.feature_names)

    @property
    def groups(self) -> Sequence[str]:
        """Every weight is a group by itself."""
        return self.names

    @property
    def normalize(self) -> str | None:
        return None

    @property
    def kernels(self) -> Sequence[Kernel]:
        return ()

    @property
    def m(self) -> int:
        return self.combination.m

    @property
    def scales(self) -> np.ndarray:
        return np.ones(self.m)

    @property
    def is_sum(self) -> bool:
        return False

    @property
    def reads_kernel(self) -> bool:  # type: ignore[override]
        return self.combination.reads_kernel

    def collection(self) -> None:
        return None

    @property
    def starts(self) -> int:
        return self.combination.starts

    @property
    def symmetric(self) -> bool:
        return self.left is self.right

    def start(self, regularizer: Any) -> np.ndarray:
        return regularizer.project(self.combination.start(self.m))

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        left, weights = (
            self.left if rows is None else self.left[rows],
            np.asarray(weights, dtype=float),
        )
        out, step = np.empty((len(left), self.n), self.dtype), rows_at_once(self.n)
        fill = self.combination.filler(weights, left, self.right)
        parts = [slice(start, start + step) for start in range(0, len(left), step)]
        self.threads.map(lambda part: fill(part, out[part]), parts)
        if left is self.right:  # a block does not know which of its points are the same
            out[np.diag_indices_from(out)] = self.combination.diagonal(weights, left)
        return out

    def refined(self) -> Self | None:
        if self.dtype == np.float64:
            return None
        finer = copy.copy(self)
        finer.dtype = np.dtype(np.float64)
        return finer

    def take_points(self, points: Indices) -> "CombinationBank":
        return CombinationBank(
            self.combination.fit(self.right[points]),
            feature_names=self.feature_names,
            n_jobs=self.threads.count,
            dtype=self.dtype,
        )

    def weight_gradient(
        self,
        weights: ArrayLike,
        beta: ArrayLike,
        some: Indices | None = None,
        **known: np.ndarray,
    ) -> np.ndarray:
        """As `Bank.weight_gradient`; where some weights are given, zero for all others. The
        ``kernel`` at these weights may be given where the bank `reads_kernel`.
        """
        self._needs_square("weight_gradient")
        weights, beta = np.asarray(weights, dtype=float), as_outputs(beta, self.n)
        if some is None and not known:
            slopes = np.asarray(self.combination.gradient(weights, beta), dtype=float)
        else:
            slopes, some = np.zeros(self.m), np.arange(self.m) if some is None else np.asarray(some)
            slopes[some] = self.combination.partial_gradient(weights, beta, some, **known)
        check_range(self.combination, np.abs(slopes).max(initial=0.0))
        return slopes

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        self._needs_square("combined_diagonal")
        return np.asarray(
            self.combination.diagonal(np.asarray(weights, dtype=float), self.right), dtype=float
        )

    def cross(self, X_new: Any, support: Indices | None = None) -> "CombinationBank":
        return CombinationBank(
            self.combination, dense(X_new), support, self.feature_names, self.threads.count
        )

    def same_data(self, X: Any) -> bool:
        return X.shape == self.right.shape and np.array_equal(dense(X), self.right)
