"""Kernels of feature vectors."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from .base import Kernel


def dense(A):
    """A as a float64 array."""
    return A.toarray().astype(float) if sparse.issparse(A) else np.asarray(A, dtype=float)


def dot_products(A, B):
    """``A @ B.T`` as a dense array, for dense or sparse arguments."""
    product = A @ B.T
    return product.toarray() if sparse.issparse(product) else product


def squared_norms(A):
    """Squared length of each row."""
    squares = A.multiply(A) if sparse.issparse(A) else np.square(A)
    return np.asarray(squares.sum(axis=1), dtype=float).ravel()


def weighted_variance(A, sample_weight=None):
    """Variance of each column, each row counted `sample_weight` times; exactly zero for a constant column."""
    weights = np.ones(A.shape[0]) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    weights = weights / weights.sum()
    mean = np.asarray(weights @ A).ravel()
    if sparse.issparse(A):
        A = sparse.csr_array(A)
        shifted = sparse.csr_array((np.square(A.data - mean[A.indices]), A.indices, A.indptr), shape=A.shape)
        stored = sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
        empty = 1.0 - weights @ stored
        variance = weights @ shifted + np.where(empty > 1e-12, empty, 0.0) * mean**2
    else:
        variance = weights @ np.square(A - mean)
    return np.where(variance > 1e-24 * mean**2, variance, 0.0)


def check_positive(kernel, value, what):
    """Raise unless a parameter of a kernel is a finite number above zero."""
    if isinstance(value, str) or not np.isfinite(value) or value <= 0:
        raise ValueError(f"{type(kernel).__name__} needs {what} > 0, got {value!r}.")


@dataclass(frozen=True)
class _Scaled(Kernel):
    """A kernel with a factor `gamma` on its pairwise number; ``"scale"`` is one over the summed variance of its features."""

    gamma: float | str = "scale"
    features: object = None

    def resolved(self, A, sample_weight):
        if self.gamma != "scale":
            check_positive(self, self.gamma, "gamma")
            return self
        spread = weighted_variance(A, sample_weight).sum()
        return replace(self, gamma=1.0 / spread if spread > 0 else 1.0)

    @property
    def label(self):
        gamma = self.gamma if isinstance(self.gamma, str) else f"{self.gamma:.4g}"
        return f"{type(self).__name__}(gamma={gamma})"


@dataclass(frozen=True)
class RBF(_Scaled):
    """Gaussian kernel ``exp(-gamma |x - y|^2)``."""

    unit_diagonal = True

    def block(self, A, B):
        distances = cdist(dense(A), dense(B), "sqeuclidean")
        return np.exp(-self.gamma * distances)


@dataclass(frozen=True)
class Laplacian(_Scaled):
    """Laplacian kernel ``exp(-gamma |x - y|_1)``."""

    unit_diagonal = True

    def block(self, A, B):
        return np.exp(-self.gamma * cdist(dense(A), dense(B), "cityblock"))


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel ``x . y``."""

    features: object = None

    def block(self, A, B):
        return dot_products(A, B)

    def diagonal(self, A):
        return squared_norms(A)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel ``(gamma x . y + coef0)^degree``, of integer degree and with ``gamma > 0``, ``coef0 >= 0``."""

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    features: object = None

    def resolved(self, A, sample_weight):
        check_positive(self, self.gamma, "gamma")
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"Polynomial needs coef0 >= 0, else it is not a kernel; got {self.coef0!r}.")
        if self.degree != int(self.degree) or self.degree < 1:
            raise ValueError(f"Polynomial needs a whole degree of at least 1, got {self.degree!r}.")
        return self

    def block(self, A, B):
        return (self.gamma * dot_products(A, B) + self.coef0) ** self.degree

    def diagonal(self, A):
        with np.errstate(over="ignore"):  # the bank judges values that are not finite
            return (self.gamma * squared_norms(A) + self.coef0) ** self.degree

    @property
    def label(self):
        return f"Polynomial(degree={self.degree})"
