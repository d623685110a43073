"""Random Fourier features of a product of Gaussians, whose weights are learned.

With frequencies W that are drawn once, (n_features, F), and weights d, one per feature or group,

    z(x) = [cos(x' W_d), sin(x' W_d)] / sqrt(F),    W_d = diag(sqrt(2 d)) W,

``z(x)' z(y)`` estimates ``exp(-sum_k d_k D_k(x, y))`` (A. Rahimi and B. Recht, Random features for
large-scale kernel machines, NIPS 2007). It is a kernel for every d, with a gradient of its own:
nothing else is approximate. For fixed weights the features are low-rank factors of one kernel.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..._arrays import as_dtype_of, here
from ..base import as_outputs
from ..combination import CombinationBank
from ..kernel_set import Indices, KernelSet
from .factors import FactorBank, blocks

# Distance of a point from the center of the training points: its angles must be numbers. New points
# farther away are moved there.
LARGEST_COORDINATE = 1e15


class ProductMap(KernelSet):
    """From points to random features of a product, for any weights.

    Parameters
    ----------
    names : sequence of str
        Of the weights.
    group : (n_features,) int
        The weight of every feature.
    center : (n_features,) array
        Where numbers are small: features that are moved have the same products.
    frequencies : (n_features, F) array
        For weights of one half.
    dtype : dtype of the features
    """

    def __init__(
        self,
        names: Sequence[str],
        group: np.ndarray,
        center: np.ndarray,
        frequencies: np.ndarray,
        dtype: DTypeLike,
    ) -> None:
        self._names, self.group, self.center = list(names), group, center
        self.frequencies, self.dtype = frequencies, np.dtype(dtype)

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def groups(self) -> Sequence[str]:
        """Every weight is a group by itself."""
        return self._names

    @property
    def normalize(self) -> None:
        return None

    @property
    def kernels(self) -> Sequence:
        return ()

    @property
    def scales(self) -> np.ndarray:
        return np.ones(len(self._names))

    @property
    def is_sum(self) -> bool:
        return False

    def collection(self) -> None:
        return None

    @property
    def width(self) -> int:
        """The number of features of a point."""
        return 2 * self.frequencies.shape[1]

    def moved(self, X: np.ndarray) -> np.ndarray:
        """Points as frequencies take them."""
        return np.clip(X - self.center, -LARGEST_COORDINATE, LARGEST_COORDINATE)

    def roots(self, weights: ArrayLike) -> np.ndarray:
        """Factors on the frequencies of all features, (n_features,)."""
        return np.sqrt(2.0 * np.asarray(weights, dtype=float))[self.group]

    def fill(self, points: np.ndarray, roots: np.ndarray, out: np.ndarray) -> None:
        """Write the features of points that were `moved`, (n, width)."""
        half = self.width // 2
        scaled = (roots[:, None] * self.frequencies).astype(self.dtype)
        angles = points.astype(self.dtype) @ scaled
        np.cos(angles, out=out[:, :half])
        np.sin(angles, out=out[:, half:])
        out *= self.dtype.type(half**-0.5)

    def block(self, X: np.ndarray, weights: ArrayLike) -> np.ndarray:
        """The features of a few points at some weights, (len(X), width)."""
        out = np.empty((len(X), self.width), self.dtype)
        self.fill(self.moved(X), self.roots(weights), out)
        return out


class ProductFeatureBank(CombinationBank):
    """Random features of `manykernels.combinations.Product` on the training points.

    Parameters
    ----------
    combination : fitted Product
    features : ProductMap
    feature_names, n_jobs
        See `CombinationBank`.
    """

    smooth_in_roots = True
    reads_kernel = False

    def __init__(
        self,
        combination: Any,
        features: ProductMap,
        feature_names: Sequence[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(combination, None, None, feature_names, n_jobs, features.dtype)
        self.features = features
        self._last: tuple[Any, Any] = None, None  # weights, and the factors there

    @property
    def width(self) -> int:
        return self.features.width

    @property
    def points(self) -> "ProductFeatureBank":
        """The bank whose width is that of systems of equations."""
        return self

    @property
    def prefers_factor_space(self) -> bool:
        return 2 * self.width < self.n

    def factors(self, weights: ArrayLike) -> FactorBank:
        """The features at some weights, as the factors of one kernel; the last ones are kept."""
        known, made = self._last
        if known is not None and np.array_equal(known, weights):
            return made
        self._last = None, None  # two do not fit where one does
        del made
        made = self._made(self.features.roots(weights))
        self._last = np.array(weights, dtype=float), made
        return made

    def _made(self, roots: np.ndarray) -> FactorBank:
        out = np.empty((self.n, self.width), self.dtype)

        def fill(part: slice) -> None:
            self.features.fill(self._rows(part), roots, out[part])

        self.threads.map(fill, blocks(self.n))
        return FactorBank(out, [0, self.width], self.features, self.threads)

    def _rows(self, part: slice) -> Any:
        """Training points as frequencies take them, where the factors are."""
        return self.features.moved(self.right[part])

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        return self.factors(weights).combine(np.ones(1), rows)

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        factors = self.factors(weights)
        scores = factors.dot(factors.correlate(as_outputs(beta, self.n)))
        return scores if np.ndim(beta) == 2 else scores[0]

    def coefficients(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        """The primal solution, (t, width): all that predictions need besides the map."""
        return self.factors(weights).correlate(as_outputs(beta, self.n))

    def weight_gradient(  # type: ignore[override]
        self, weights: ArrayLike, beta: ArrayLike, some: Indices | None = None
    ) -> np.ndarray:
        """As `Bank.weight_gradient`, for all weights: zero for those that are zero, along whose
        roots the kernel has no slope in the mean.
        """
        factors, features = self.factors(weights), self.features
        outputs = as_outputs(beta, self.n)
        half, coefficients = self.width // 2, factors.to_device(outputs).T
        short = [factors.to_device(one) for one in np.split(factors.correlate(outputs), 2, axis=1)]

        def scatter(part: slice, block: Any) -> Any:
            """Slopes of ``beta' z(x)`` by the angles of points, times the points."""
            beta, cosines, sines = (as_dtype_of(one, block) for one in (coefficients[part], *short))
            slopes = block[:, :half] * (beta @ sines) - block[:, half:] * (beta @ cosines)
            points = self._rows(part)
            return points.T @ as_dtype_of(slopes, points)

        row_bytes = 24 * self.width + 8 * len(features.group)
        total = here(sum(factors.visit(scatter, row_bytes)))
        slopes = 2.0 * np.sum(features.frequencies * total, axis=1)  # by roots
        slopes = np.bincount(features.group, weights=slopes, minlength=self.m)
        roots = np.sqrt(2.0 * np.asarray(weights, dtype=float))
        return np.divide(slopes, roots, out=np.zeros(self.m), where=roots > 0.0)

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        return np.ones(self.n)

    def refined(self) -> "ProductFeatureBank | None":
        if self.dtype == np.float64:
            return None
        of = self.features
        finer = ProductMap(of.names, of.group, of.center, of.frequencies, np.float64)
        return self._twin(self.combination, finer)

    def take_points(self, points: Indices) -> "ProductFeatureBank":
        return self._twin(self.combination.fit(self.right[points]), self.features)

    def _twin(self, combination: Any, features: ProductMap) -> "ProductFeatureBank":
        return ProductFeatureBank(combination, features, self.feature_names, self.threads.count)

    def cross(self, X_new: Any, support: Indices | None = None) -> CombinationBank:
        raise NotImplementedError("New points have random features: ask `ProductMap.block`.")
