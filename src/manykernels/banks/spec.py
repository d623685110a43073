"""What a bank knows of its kernels apart from the points: features, normalization, names."""

import warnings

import numpy as np

from ..kernels import RBF, Precomputed
from ..kernels.base import resolve_features
from ..kernels.precomputed import check_gram
from .codes import check_readable, decoded
from .tiled import HIGHEST_FUSED_DEGREE, PAIRWISE


class BankSpec:
    """Resolved kernels with their features and scales.

    Attributes
    ----------
    kernels : list of Kernel, with numbers for all parameters
    columns : list of index arrays, or None for all columns
    scales : (m,) array
        Factor that normalizes each kernel; zero for a kernel that is left out.
    categories : dict
        For columns that hold codes of strings or categories, the list of entries that the codes
        point to.
    """

    def __init__(self, collection, X, normalize, sample_weight, feature_names, categories=None):
        self.normalize = normalize
        self.groups = list(collection.groups)
        self.categories = categories or {}
        self.kernels = list(collection.kernels)
        self.columns = [
            self._resolved_features(k, X.shape[1], feature_names) for k in range(self.m)
        ]
        self._check_readable(X.shape[1], feature_names)
        self.kernels = [
            self._resolved(k, kernel, X, sample_weight) for k, kernel in enumerate(self.kernels)
        ]
        self.names = self._names(feature_names)
        for k, kernel in enumerate(self.kernels):
            if isinstance(kernel, Precomputed):
                check_gram(kernel.K, f"Gram matrix {k}")
        self.scales = self._scales(X, sample_weight)

    def _resolved_features(self, k, n_features, feature_names):
        try:
            return resolve_features(self.kernels[k].features, n_features, feature_names)
        except ValueError as error:
            raise ValueError(
                f"Group {self.groups[k]!r}: {error}" if self.groups[k] else str(error)
            ) from None

    def _check_readable(self, n_features, feature_names):
        names = (
            [f"x{f}" for f in range(n_features)]
            if feature_names is None
            else list(map(str, feature_names))
        )
        for kernel, group, columns in zip(self.kernels, self.groups, self.columns, strict=True):
            check_readable(
                kernel,
                group,
                range(n_features) if columns is None else columns,
                names,
                self.categories,
            )

    @classmethod
    def restored(
        cls, kernels, groups, normalize, scales, n_features, feature_names, categories=None
    ):
        """A spec from kernels that were resolved, and scales that were computed, on the training
        data before.
        """
        spec = cls.__new__(cls)
        spec.kernels, spec.groups, spec.normalize, spec.scales = kernels, groups, normalize, scales
        spec.categories = categories or {}
        spec.columns = [
            resolve_features(kernel.features, n_features, feature_names) for kernel in kernels
        ]
        spec.names = spec._names(feature_names)
        return spec

    def _names(self, feature_names):
        return [
            (f"{group}: " if group else "") + kernel.name(feature_names, columns)
            for group, kernel, columns in zip(self.groups, self.kernels, self.columns, strict=True)
        ]

    def _resolved(self, k, kernel, X, sample_weight):
        return kernel.resolved(self.seen(k, X) if kernel.needs_data else None, sample_weight)

    @property
    def m(self):
        return len(self.kernels)

    @property
    def alive(self):
        return np.flatnonzero(self.scales)

    def kind(self, k):
        """The pairwise number that kernel k is a fused function of, or None."""
        kernel = self.kernels[k]
        kind = PAIRWISE.get(type(kernel))
        if kind == "dot" and (
            self.normalize == "cosine" or getattr(kernel, "degree", 1) > HIGHEST_FUSED_DEGREE
        ):
            return None
        return kind

    def on_one_feature(self, k):
        """Whether kernel k is a Gaussian of one feature."""
        return (
            type(self.kernels[k]) is RBF
            and self.columns[k] is not None
            and self.columns[k].size == 1
        )

    def columns_key(self, k):
        return "all" if self.columns[k] is None else tuple(self.columns[k].tolist())

    def seen(self, k, X):
        """The part of X that kernel k sees; entries in place of their codes if it reads strings."""
        if self.kernels[k].reads == "strings":
            return decoded(
                X,
                range(X.shape[1]) if self.columns[k] is None else self.columns[k],
                self.categories,
            )
        return X if self.columns[k] is None else X[:, self.columns[k]]

    def points(self, k, left, right):
        """The parts of both point sets that kernel k sees; one object if both are."""
        b = self.seen(k, right)
        return (b, b) if left is right else (self.seen(k, left), b)

    def factors(self, k, left, right):
        """Row and column factors of the cosine normalization, or None."""
        if self.normalize != "cosine" or self.kernels[k].unit_diagonal:
            return None
        return tuple(_inverse_roots(self.kernels[k].diagonal(A)) for A in (left, right))

    def diagonal(self, k, X):
        """Diagonal of normalized kernel k, (n,)."""
        if self.kernels[k].unit_diagonal:
            return np.full(X.shape[0], self.scales[k])
        A = self.seen(k, X)
        diagonal = self.kernels[k].diagonal(A) * self.scales[k]
        factors = self.factors(k, A, A)
        return diagonal if factors is None else diagonal * factors[0] ** 2

    def _scales(self, X, sample_weight):
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        mean = np.array([self._mean_diagonal(k, X, weights) for k in range(self.m)])
        usable = np.isfinite(mean) & (mean > 1e-305)
        _warn_unusable(usable, mean, self.names)
        scales = usable.astype(float)
        if self.normalize in ("diagonal", "trace", "center"):
            scales[usable] /= mean[usable]
        if self.normalize == "trace":
            scales /= weights.sum()
        return scales

    def _mean_diagonal(self, k, X, weights):
        if self.kernels[k].unit_diagonal:
            return 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = self.kernels[k].diagonal(self.seen(k, X))
            if np.isnan(diagonal).any():
                raise ValueError(f"Kernel {k} ({self.names[k]}) gives NaN on the training data.")
            largest = diagonal.max(initial=0.0)  # summing values of 1e300 would overflow
            return (
                largest * (weights @ (diagonal / largest) / weights.sum())
                if largest > 0
                else largest
            )


def _inverse_roots(diagonal):
    """One over the root of each diagonal entry; zero for a point that the kernel maps to zero."""
    return np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)


def _warn_unusable(usable, mean, names):
    unusable = np.flatnonzero(~usable)
    for k in unusable[:5]:
        what = (
            "is zero on the training data"
            if np.isfinite(mean[k])
            else "overflows on the training data"
        )
        warnings.warn(
            f"Kernel {k} ({names[k]}) {what}; it is left out and its weight means nothing.",
            stacklevel=8,
        )
    if unusable.size > 5:
        warnings.warn(
            f"… and {unusable.size - 5} more kernels are left out for such reasons.", stacklevel=8
        )
