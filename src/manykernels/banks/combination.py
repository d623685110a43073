"""A bank for kernels that are not sums (`manykernels.combinations`)."""

import numpy as np

from .._threads import Threads, thread_count
from ..kernels.vector import dense
from .base import CACHED, FEWEST, Bank, as_outputs


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
    """

    is_sum = False
    normalize = None
    dtype = np.dtype(np.float64)

    def __init__(self, combination, left=None, support=None, feature_names=None, n_jobs=None):
        self.combination, self.threads = combination, Threads(thread_count(n_jobs))
        combination.threads = self.threads
        self.right = combination.X if support is None else combination.X[support]
        self.left = self.right if left is None else left
        self.m, self.n, self.n_rows = combination.m, len(self.right), len(self.left)
        self.names = combination.names(feature_names)
        self.groups = self.names
        self._feature_names = feature_names

    @property
    def starts(self):
        return self.combination.starts

    @property
    def symmetric(self):
        return self.left is self.right

    def start(self, regularizer):
        return regularizer.project(self.combination.start(self.m))

    def combine(self, weights, rows=None):
        left, weights = (
            self.left if rows is None else self.left[rows],
            np.asarray(weights, dtype=float),
        )
        step = max(FEWEST, CACHED // self.n)
        if len(left) <= step:
            return np.ascontiguousarray(self.combination.gram(weights, left, self.right))
        out = np.empty((len(left), self.n))

        def fill(start):
            out[start : start + step] = self.combination.gram(
                weights, left[start : start + step], self.right
            )

        self.threads.map(fill, range(0, len(left), step))
        if left is self.right:  # a block does not know which of its points are the same
            out[np.diag_indices_from(out)] = self.combination.diagonal(weights, left)
        return out

    def weight_gradient(self, weights, beta):
        self._needs_square("weight_gradient")
        return np.asarray(
            self.combination.gradient(np.asarray(weights, dtype=float), as_outputs(beta, self.n)),
            dtype=float,
        )

    def combined_diagonal(self, weights):
        self._needs_square("combined_diagonal")
        return np.asarray(
            self.combination.diagonal(np.asarray(weights, dtype=float), self.right), dtype=float
        )

    def cross(self, X_new, support=None):
        return CombinationBank(
            self.combination, dense(X_new), support, self._feature_names, self.threads.count
        )

    def same_data(self, X):
        return X.shape == self.right.shape and np.array_equal(dense(X), self.right)

    def quadratic_forms(self, beta):
        return self._not_a_sum()

    def products(self, beta):
        return self._not_a_sum()

    def columns(self, chosen):
        return self._not_a_sum()

    def diagonal(self):
        return self._not_a_sum()

    def _not_a_sum(self):
        raise ValueError(
            f"{self.combination!r} is not a sum, so there is no quadratic form per kernel: use "
            "solver='spg'."
        )
