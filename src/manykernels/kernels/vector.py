"""Kernels of feature vectors."""

import numbers
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from .base import Features, Kernel
from .points import is_sparse

FEW = 8  # rows that are made dense for a product with a sparse matrix


def dense(A: Any) -> np.ndarray:
    """A as a float64 array."""
    return A.toarray().astype(float) if is_sparse(A) else np.asarray(A, dtype=float)


def dot_products(A: Any, B: Any) -> np.ndarray:
    """``A @ B.T`` as a dense float array, for dense or sparse arguments."""
    # through a dense block: a product of sparse matrices would sort B first
    if is_sparse(B) and A.shape[0] <= FEW:
        return (_floats(B) @ dense(A).T).T
    product = _floats(A) @ _floats(B).T
    return product.toarray() if is_sparse(product) else product


def chosen_rows(A: Any, chosen: np.ndarray) -> Any:
    """``A[chosen]``, without a copy where the rows follow each other."""
    if chosen.size and chosen[-1] - chosen[0] == chosen.size - 1 and (np.diff(chosen) == 1).all():
        return A[chosen[0] : chosen[-1] + 1]
    return A[chosen]


def _floats(A):
    """A with floating-point entries: products of small integers would overflow."""
    return A if A.dtype.kind == "f" else A.astype(float)


def squared_norms(A: Any) -> np.ndarray:
    """Squared length of each row."""
    A = _floats(A)
    squares = A.multiply(A) if is_sparse(A) else np.square(A)
    return np.asarray(squares.sum(axis=1), dtype=float).ravel()


def weighted_variance(A: Any, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Variance of each column, each row counted `sample_weight` times; exactly zero for a constant
    column.
    """
    weights = (
        np.ones(A.shape[0]) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    )
    weights = weights / weights.sum()
    mean = np.asarray(weights @ A).ravel()
    if is_sparse(A):
        A = sparse.csr_array(A)
        shifted = sparse.csr_array(
            (np.square(A.data - mean[A.indices]), A.indices, A.indptr), shape=A.shape
        )
        stored = sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
        empty = 1.0 - weights @ stored
        variance = weights @ shifted + np.where(empty > 1e-12, empty, 0.0) * mean**2
    else:
        with np.errstate(over="ignore"):  # whoever uses the variance judges whether it is in range
            variance = weights @ np.square(A - mean)
    return np.where(np.sqrt(variance) > 1e-12 * np.abs(mean), variance, 0.0)


def check_number(kernel: Kernel, value: Any, what: str, positive: bool = True) -> None:
    """Raise unless a parameter of a kernel is a finite number above (or at least) zero."""
    if (
        not isinstance(value, numbers.Real)
        or not np.isfinite(float(value))
        or value < 0
        or (positive and value == 0)
    ):
        raise ValueError(
            f"{type(kernel).__name__} needs {what} {'>' if positive else '>='} 0, got {value!r}."
        )


@dataclass(frozen=True)
class _Scaled(Kernel):
    """A kernel with a factor `gamma` on its pairwise number; ``"scale"`` is one over the summed
    variance of its features.

    What gamma is gets multiplied by `factor`: ``RBF(factor=4)`` is half as wide as ``RBF()``.
    """

    gamma: float | str = "scale"
    features: Features = None
    factor: float = 1.0

    @property
    def needs_data(self) -> bool:
        return isinstance(self.gamma, str) and self.gamma == "scale"

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> Self:
        check_number(self, self.factor, "factor")
        if not self.needs_data:
            check_number(self, self.gamma, "gamma")
            return (
                self
                if self.factor == 1.0
                else replace(self, gamma=float(self._number()), factor=1.0)
            )
        with np.errstate(over="ignore", divide="ignore"):
            variance = weighted_variance(A, sample_weight).sum()
            gamma = self.factor / variance if variance > 0 else self.factor
        if not (np.isfinite(gamma) and gamma > 0):
            raise ValueError(
                "gamma='scale' is out of range: the variance of the features is too large or "
                "small; rescale them."
            )
        return replace(self, gamma=float(gamma), factor=1.0)

    def _number(self) -> float:
        if isinstance(self.gamma, str):
            raise ValueError(
                f"gamma={self.gamma!r} is known only once the kernel is fitted to data, in a bank "
                "or an estimator."
            )
        return self.gamma * self.factor

    @property
    def label(self) -> str:
        if isinstance(self.gamma, numbers.Real):
            gamma = f"{self._number():.4g}"
        else:
            gamma = self.gamma if self.factor == 1.0 else f"{self.factor:.4g} {self.gamma}"
        return f"{type(self).__name__}(gamma={gamma})"


@dataclass(frozen=True)
class RBF(_Scaled):
    """Gaussian kernel ``exp(-gamma |x - y|^2)``.

    Parameters
    ----------
    gamma : float or "scale"
        ``"scale"`` is one over the summed variance of its features.
    features : as for `Kernel`
    factor : float
        What gamma is gets multiplied by it: ``RBF(factor=4)`` is half as wide as ``RBF()``.
    """

    unit_diagonal = True

    def block(self, A: Any, B: Any) -> np.ndarray:
        distances = cdist(dense(A), dense(B), "sqeuclidean")
        return np.exp(-self._number() * distances)


@dataclass(frozen=True)
class Laplacian(_Scaled):
    """Laplacian kernel ``exp(-gamma |x - y|_1)``.

    Parameters
    ----------
    gamma, features, factor : as for `RBF`
    """

    unit_diagonal = True

    def block(self, A: Any, B: Any) -> np.ndarray:
        return np.exp(-self._number() * cdist(dense(A), dense(B), "cityblock"))


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel ``x . y``.

    Parameters
    ----------
    features : as for `Kernel`
    """

    features: Features = None

    def block(self, A: Any, B: Any) -> np.ndarray:
        return dot_products(A, B)

    def diagonal(self, A: Any) -> np.ndarray:
        return squared_norms(A)


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Polynomial kernel ``(gamma x . y + coef0)^degree``.

    Parameters
    ----------
    degree : int
        At least one.
    gamma : float
        Above zero.
    coef0 : float
        At least zero.
    features : as for `Kernel`
    """

    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    features: Features = None

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> Self:
        check_number(self, self.gamma, "gamma")
        check_number(self, self.coef0, "coef0", positive=False)
        check_number(self, self.degree, "degree")
        if self.degree != int(self.degree):
            raise ValueError(f"Polynomial needs a whole degree of at least 1, got {self.degree!r}.")
        return replace(self, degree=int(self.degree))

    def block(self, A: Any, B: Any) -> np.ndarray:
        return (self.gamma * dot_products(A, B) + self.coef0) ** self.degree

    def diagonal(self, A: Any) -> np.ndarray:
        with np.errstate(over="ignore"):  # the bank judges values that are not finite
            return (self.gamma * squared_norms(A) + self.coef0) ** self.degree

    @property
    def label(self) -> str:
        others = [
            f", {name}={value:.4g}"
            for name, value in (("gamma", self.gamma), ("coef0", self.coef0))
            if value != 1.0
        ]
        return f"Polynomial(degree={self.degree}{''.join(others)})"
