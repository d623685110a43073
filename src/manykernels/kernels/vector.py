"""Kernels of feature vectors."""

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from .._threads import Threads, thread_count
from .base import Features, Kernel
from .points import is_sparse

# Rows that are made dense for a product with a sparse matrix: more go through a sparse product.
DENSE_ROWS = 8
# Rows whose distances gamma="median" looks at: more make it slower and hardly more exact.
MEDIAN_SAMPLE = 300
# Share of all distances that count as near, and least near distance in units of the median.
NEAR_LEVEL, NEAR_SHARE = 0.1, 0.25
FROM_DATA = ("scale", "median", "near")  # values of gamma that come from the training points
# Rows of a table that are worked on together: more do not stay in cache.
ROWS_PER_TASK = 4096


def dense(A: Any) -> np.ndarray:
    """A as a float64 array."""
    return A.toarray().astype(float) if is_sparse(A) else np.asarray(A, dtype=float)


def dot_products(A: Any, B: Any) -> np.ndarray:
    """``A @ B.T`` as a dense float array, for dense or sparse arguments."""
    # through a dense block: a product of sparse matrices would sort B first
    if is_sparse(B) and A.shape[0] <= DENSE_ROWS:
        return (_floats(B) @ dense(A).T).T
    product = _floats(A) @ _floats(B).T
    return product.toarray() if is_sparse(product) else product


def chosen_rows(A: Any, chosen: np.ndarray) -> Any:
    """``A[chosen]``, without a copy where the rows follow each other."""
    if chosen.size and chosen[-1] - chosen[0] == chosen.size - 1 and (np.diff(chosen) == 1).all():
        return A[chosen[0] : chosen[-1] + 1]
    return A[chosen]


def _floats(A: Any) -> Any:
    """A with floating-point entries: products of small integers would overflow."""
    return A if A.dtype.kind == "f" else A.astype(float)


def squared_norms(A: Any) -> np.ndarray:
    """Squared length of each row."""
    A = _floats(A)
    if not is_sparse(A):
        return np.einsum("ij,ij->i", A, A, dtype=float)
    return np.asarray(A.multiply(A).sum(axis=1), dtype=float).ravel()


def pair_distances(A: Any, B: Any, metric: str, **options: Any) -> np.ndarray:
    """Distances between two sets of rows, by SciPy's name of the metric."""
    from scipy.spatial.distance import cdist

    return cdist(dense(A), dense(B), metric, **options)


def middle(A: np.ndarray) -> np.ndarray:
    """About the median of each column: that of some rows, evenly spread."""
    return np.median(A[:: max(1, A.shape[0] // ROWS_PER_TASK)], axis=0)


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
        from scipy import sparse

        A = sparse.csr_array(A)
        shifted = sparse.csr_array(
            (np.square(A.data - mean[A.indices]), A.indices, A.indptr), shape=A.shape
        )
        stored = sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
        empty = 1.0 - weights @ stored
        variance = weights @ shifted + np.where(empty > 1e-12, empty, 0.0) * mean**2
    else:

        def squares(start: int) -> np.ndarray:
            part = slice(start, start + ROWS_PER_TASK)
            with np.errstate(over="ignore"):  # whoever uses the variance judges it
                return weights[part] @ np.square(A[part] - mean)

        variance = sum(Threads(thread_count()).map(squares, range(0, A.shape[0], ROWS_PER_TASK)))
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


def distance_quantiles(
    A: Any, sample_weight: np.ndarray | None, metric: Any, levels: Sequence[float]
) -> list[float]:
    """Quantiles of the distances between rows that differ, over at most 300 rows chosen once for
    all; zeros if none differ.

    Rows that are equal are left out: half of all pairs of cells may have none of a few genes. Each
    pair counts as often as its rows do together, so that a row that comes twice and one of weight
    two are the same.
    """
    from scipy.spatial.distance import pdist

    n = A.shape[0]
    chosen = np.sort(np.random.default_rng(0).permutation(n)[:MEDIAN_SAMPLE])
    distances = pdist(dense(A[chosen]), metric)
    counts = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    counts, differ = counts[chosen], distances > 0.0
    distances = distances[differ]
    if not distances.size:
        return [0.0] * len(levels)
    if (counts == counts[0]).all():  # no need to sort, which would be most of the time
        places = np.ceil(np.asarray(levels) * distances.size).astype(int) - 1
        return np.partition(distances, places)[places].tolist()
    first, second = np.triu_indices(chosen.size, 1)
    pairs = (counts[first] * counts[second])[differ]
    order = np.argsort(distances, kind="stable")
    below = np.cumsum(pairs[order])
    places = np.searchsorted(below, np.asarray(levels) * below[-1])
    return distances[order[places]].tolist()


@dataclass(frozen=True)
class _Scaled(Kernel):
    """A kernel with a factor `gamma` on its pairwise number, which may come from the training
    points.

    What gamma is gets multiplied by `factor`: ``RBF(factor=4)`` is half as wide as ``RBF()``.
    """

    metric: ClassVar[Any] = ""  # the pairwise number, by SciPy's name

    gamma: float | str = "scale"
    features: Features = None
    factor: float = 1.0

    @property
    def needs_data(self) -> bool:
        return isinstance(self.gamma, str) and self.gamma in FROM_DATA

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> Self:
        check_number(self, self.factor, "factor")
        if not self.needs_data:
            if isinstance(self.gamma, str):
                raise ValueError(
                    f"{type(self).__name__} needs gamma > 0, 'scale', 'median' or 'near', got "
                    f"{self.gamma!r}."
                )
            check_number(self, self.gamma, "gamma")
            return (
                self
                if self.factor == 1.0
                else replace(self, gamma=float(self._number()), factor=1.0)
            )
        return replace(self, gamma=self.gammas(A, sample_weight)[str(self.gamma)]).resolved(
            None, None
        )

    def gammas(self, A: Any, sample_weight: np.ndarray | None) -> dict[str, float]:
        """What gamma is on these training points, and what other names for it are that come with
        it.
        """
        check_number(self, self.factor, "factor")
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            if self.gamma == "scale":
                units = {"scale": float(weighted_variance(A, sample_weight).sum())}
            else:
                near, median = distance_quantiles(A, sample_weight, self.metric, (NEAR_LEVEL, 0.5))
                units = {"median": median, "near": max(near, NEAR_SHARE * median)}
            gammas = {name: 1.0 / unit if unit > 0 else 1.0 for name, unit in units.items()}
        largest = max(gammas.values()) * self.factor
        if not (np.isfinite(list(units.values())).all() and 0.0 < largest < np.inf):
            raise ValueError(
                f"gamma={self.gamma!r} is out of range: the variance of the features is too large "
                "or small; rescale them."
            )
        return gammas

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
    gamma : float, "scale", "median" or "near"
        ``"scale"`` is one over the summed variance of its features, ``"median"`` one over the
        median of the squared distances between training points that differ (over 300 of them),
        which a few far points do not change. Between points of a normal distribution ``"median"``
        is about half of ``"scale"``. ``"near"`` is one over their tenth percentile, or over a
        quarter of the median where that is larger: with many columns, where all distances are
        about the same, hardly more than ``"median"``, with few columns four times as much.
    features : as for `Kernel`
    factor : float
        What gamma is gets multiplied by it: ``RBF(factor=4)`` is half as wide as ``RBF()``.
    """

    unit_diagonal = True
    metric: ClassVar[Any] = "sqeuclidean"

    def block(self, A: Any, B: Any) -> np.ndarray:
        return np.exp(-self._number() * pair_distances(A, B, self.metric))


@dataclass(frozen=True)
class Laplacian(_Scaled):
    """Laplacian kernel ``exp(-gamma |x - y|_1)``.

    Parameters
    ----------
    gamma, features, factor : as for `RBF`
        ``gamma="median"`` and ``"near"`` are of ``|x - y|_1``.
    """

    unit_diagonal = True
    metric: ClassVar[Any] = "cityblock"

    def block(self, A: Any, B: Any) -> np.ndarray:
        return np.exp(-self._number() * pair_distances(A, B, self.metric))


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel ``<x, y>``.

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
    """Polynomial kernel ``(gamma <x, y> + coef0)^degree``.

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
