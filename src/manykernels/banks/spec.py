"""The kernels of a bank without the points: features, normalization, names."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._callers import user_stacklevel
from ..kernels import RBF, KernelCollection, Laplacian, Linear, Polynomial, Precomputed
from ..kernels.base import Kernel, NumberedColumns, resolve_features
from ..kernels.collection import MaskedCollection
from ..kernels.precomputed import check_gram
from .codes import check_readable, decoded, refuse_categories
from .compute import Points
from .kernel_set import Indices

NORMALIZATIONS = ("diagonal", "variance", "trace", "cosine", "center", None)
# Which kernels share a pairwise number. By exact type: a subclass may compute anything.
PAIRWISE = {RBF: "distance", Laplacian: "manhattan", Linear: "dot", Polynomial: "dot"}
WIDTHS = (RBF, Laplacian)  # with a gamma that may come from the data, times a factor
# Highest degree of polynomials that are summed from one dot product. The powers of a float32 number
# lose too many digits beyond it.
HIGHEST_FUSED_DEGREE = 3
SINGLE = "single"  # columns of kernels of one feature each, of which a family has any number
# Rows at whose pairs the mean of a kernel is taken: more make it slower and hardly more exact.
VARIANCE_SAMPLE = 256
# Least variance, as a share of the mean diagonal, that a kernel is scaled by: what is left of a
# float32 number after larger factors would be rounding.
LEAST_VARIANCE = 1e-3
# Share below which the variance itself is rounding: the kernel is constant.
CONSTANT = 1e-9


class Training(NamedTuple):
    """Training points on which kernels are resolved and normalized.

    Attributes
    ----------
    X : training points
    sample_weight : (n,) array, optional
        How often each point counts in means.
    feature_names : sequence of str, optional
    categories : mapping from column to list, optional
        The entries that codes in X stand for.
    rows : sequence of index arrays, optional
        For every kernel, the points that have its columns; all do by default.
    """

    X: Any
    sample_weight: np.ndarray | None = None
    feature_names: Sequence[str] | None = None
    categories: Mapping[int, list] | None = None
    rows: Sequence[np.ndarray] | None = None

    @property
    def weights(self) -> np.ndarray:
        """How often each point counts."""
        return np.ones(self.X.shape[0]) if self.sample_weight is None else self.sample_weight


def spec_from_data(
    collection: KernelCollection, normalize: str | None, training: Training
) -> "BankSpec | MaskedSpec":
    """The kernels of a collection, resolved and normalized on the training points."""
    if isinstance(collection, MaskedCollection):
        return MaskedSpec.from_data(collection, normalize, training)
    return BankSpec.from_data(collection, normalize, training)


@dataclass(frozen=True, eq=False)
class BankSpec:
    """Resolved kernels with their features and scales.

    Attributes
    ----------
    kernels : list of Kernel, with numbers for all parameters
    groups : list of str
    columns : list of index arrays, or None for all columns
    names : list of str
    normalize : str or None
    scales : (m,) array
        Factor that normalizes each kernel; zero for a kernel that is left out.
    categories : mapping
        For columns that hold codes of strings or categories, the list of entries that the codes
        point to.
    """

    kernels: list[Kernel]
    groups: list[str]
    columns: list[np.ndarray | None]
    names: list[str]
    normalize: str | None
    scales: np.ndarray
    categories: Mapping[int, list] = field(default_factory=dict)

    @classmethod
    def from_data(
        cls, collection: KernelCollection, normalize: str | None, training: Training
    ) -> Self:
        """The kernels of a collection, checked, resolved and normalized on the training points."""
        n_features, names = training.X.shape[1], training.feature_names
        groups, categories = list(collection.groups), training.categories or {}
        columns = [
            resolved_features(kernel, group, n_features, names)
            for kernel, group in zip(collection.kernels, groups, strict=True)
        ]
        _check_readable(collection, columns, n_features, training)
        plain = cls(
            list(collection.kernels), groups, columns, [], normalize, np.empty(0), categories
        )
        known: dict[tuple, dict[str, float]] = {}
        kernels = [plain._resolved(k, training, known) for k in range(len(groups))]
        for k, kernel in enumerate(kernels):
            if isinstance(kernel, Precomputed):
                check_gram(kernel.K, f"Gram matrix {k}")
        named = replace(plain, kernels=kernels, names=_names(kernels, groups, columns, names))
        return named.normalized(training)

    @classmethod
    def from_resolved(
        cls,
        collection: KernelCollection,
        normalize: str | None,
        scales: np.ndarray,
        n_features: int,
        feature_names: Sequence[str] | None = None,
        categories: Mapping[int, list] | None = None,
    ) -> Self:
        """A specification of kernels that were resolved, and scales that were computed, on the
        training data before.
        """
        kernels, groups = list(collection.kernels), list(collection.groups)
        columns = [
            resolve_features(kernel.features, n_features, feature_names) for kernel in kernels
        ]
        names = _names(kernels, groups, columns, feature_names)
        return cls(kernels, groups, columns, names, normalize, scales, categories or {})

    def normalized(self, training: Training) -> Self:
        """These kernels, normalized on other training points."""
        return replace(self, scales=self._scales(training))

    def _resolved(self, k: Any, training: Any, known: Any) -> Any:
        """Kernel k with numbers for all parameters; widths that differ by a factor alone are
        computed once, and kept in `known`.
        """
        kernel, weight = self.kernels[k], training.sample_weight
        if weight is not None and training.rows is not None:
            weight = weight[training.rows[k]]
        if not kernel.needs_data:
            return kernel.resolved(None, weight)
        if type(kernel) not in WIDTHS:
            return kernel.resolved(self._given(k, training), weight)
        key = type(kernel), kernel.gamma == "scale", self.columns_key(k)
        if key not in known:
            known[key] = kernel.gammas(self._given(k, training), weight)
        return replace(kernel, gamma=known[key][kernel.gamma]).resolved(None, weight)

    def _given(self, k: int, training: Any) -> Any:
        """The part that kernel k sees of the training points that have its columns."""
        X, columns = training.X, self.columns[k]
        if training.rows is None:
            return self.seen(k, X)
        if columns is None or self.kernels[k].reads == "strings":
            return self.seen(k, X[training.rows[k]])
        return X[training.rows[k][:, None], columns]

    def on_columns(self, chosen: np.ndarray) -> Self:
        """These kernels for points that have only some columns, in ascending order; kernels of all
        columns see all of them.
        """
        places = {int(f): place for place, f in enumerate(chosen)}
        return replace(
            self,
            columns=[
                None if columns is None else np.searchsorted(chosen, columns)
                for columns in self.columns
            ],
            categories={places[f]: some for f, some in self.categories.items() if f in places},
        )

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Self:
        """Some of the kernels, each times a factor."""
        chosen = np.arange(self.m)[kernels]
        return replace(
            self,
            kernels=[self.kernels[k] for k in chosen],
            groups=[self.groups[k] for k in chosen],
            columns=[self.columns[k] for k in chosen],
            names=[self.names[k] for k in chosen],
            scales=factor * self.scales[chosen],
        )

    # what a `KernelSet` that has these kernels is asked

    @property
    def m(self) -> int:
        return len(self.kernels)

    @property
    def needs_grams(self) -> bool:
        return any(isinstance(kernel, Precomputed) for kernel in self.kernels)

    def columns_of(self, k: int) -> np.ndarray | None:
        return self.columns[k]

    def with_categories(self, categories: Mapping[int, list]) -> Self:
        return replace(self, categories=categories)

    def collection(self) -> KernelCollection:
        return KernelCollection.from_lists(self.kernels, self.groups)

    @property
    def alive(self) -> Any:
        """The kernels that are not left out."""
        return np.flatnonzero(self.scales)

    def kind(self, k: int) -> Any:
        """The pairwise number that kernel k is a fused function of, or None."""
        kernel = self.kernels[k]
        kind = PAIRWISE.get(type(kernel))
        high = type(kernel) is Polynomial and kernel.degree > HIGHEST_FUSED_DEGREE
        return None if high or (kind == "dot" and self.normalize == "cosine") else kind

    def on_one_feature(self, k: Any) -> Any:
        """True if kernel k is a Gaussian of one feature."""
        return (
            type(self.kernels[k]) is RBF
            and self.columns[k] is not None
            and self.columns[k].size == 1
        )

    def columns_key(self, k: Any) -> Any:
        """Equal for kernels that see the same columns."""
        return "all" if self.columns[k] is None else tuple(self.columns[k].tolist())

    def seen(self, k: int, X: Any) -> Any:
        """The part of X that kernel k sees; entries in place of their codes if it reads strings."""
        if self.kernels[k].reads == "strings":
            return decoded(
                X,
                range(X.shape[1]) if self.columns[k] is None else self.columns[k],
                self.categories,
            )
        return X if self.columns[k] is None else X[:, self.columns[k]]

    def points(self, k: int, points: Any) -> Any:
        """The parts of both point sets that kernel k sees; one object if both are."""
        return points.each(lambda X: self.seen(k, X))

    def factors(self, k: int, points: Points) -> Points | None:
        """Row and column factors of the cosine normalization, or None."""
        if self.normalize != "cosine" or self.kernels[k].unit_diagonal:
            return None
        return points.each(lambda A: inverse_roots(self.kernels[k].diagonal(A)))

    def diagonal(self, k: Any, X: Any) -> np.ndarray:
        """Diagonal of normalized kernel k, (n,)."""
        if self.kernels[k].unit_diagonal:
            return np.full(X.shape[0], self.scales[k])
        A = self.seen(k, X)
        diagonal = self.kernels[k].diagonal(A) * self.scales[k]
        factors = self.factors(k, Points.square(A))
        return diagonal if factors is None else diagonal * factors.left**2

    def _scales(self, training: Any) -> Any:
        mean = np.array([self._mean_diagonal(k, training) for k in range(self.m)])
        usable = np.isfinite(mean) & (mean > 1e-305)
        _warn_unusable(usable, mean, self.names)
        scales = usable.astype(float)
        if self.normalize in ("diagonal", "trace", "center"):
            scales[usable] /= mean[usable]
        if self.normalize == "variance":
            return self._unit_variance(usable, mean, training)
        if self.normalize == "trace":
            # of all points: those that lack a kernel do not make it larger than others
            scales /= training.weights.sum()
        return scales

    def _unit_variance(self, usable: Any, mean: Any, training: Any) -> Any:
        """Scales that give the images of the training points unit variance in feature space, which
        is the mean diagonal less the mean entry.
        """
        scales, constant = np.zeros(self.m), []
        for k in np.flatnonzero(usable).tolist():
            share = 1.0 - self._mean_entry(k, training) / mean[k]
            if share > CONSTANT:
                scales[k] = 1.0 / (mean[k] * max(share, LEAST_VARIANCE))
            else:
                constant.append(k)
        _warn_left_out(constant, "is constant on the training data", self.names)
        return scales

    def _mean_entry(self, k: int, training: Any) -> Any:
        """Mean of kernel k over all pairs of training points, that of pairs of different points
        over a sample.
        """
        rows = np.arange(training.X.shape[0]) if training.rows is None else training.rows[k]
        weights = training.weights[rows]
        weights = weights / weights.sum()
        size = min(rows.size, VARIANCE_SAMPLE)
        chosen = np.sort(np.random.default_rng(0).permutation(rows.size)[:size])
        A = self._given(k, training._replace(rows=None, X=training.X[rows[chosen]]))
        gram = np.asarray(self.kernels[k].block(A, A), dtype=float)
        pairs = np.outer(weights[chosen], weights[chosen])
        np.fill_diagonal(pairs, 0.0)
        apart = float((gram * pairs).sum() / pairs.sum()) if size > 1 else 0.0
        together = float(np.square(weights) @ self.kernels[k].diagonal(self._given(k, training)))
        return together + (1.0 - float(np.square(weights).sum())) * apart

    def _mean_diagonal(self, k: int, training: Any) -> Any:
        if self.kernels[k].unit_diagonal:
            return 1.0
        weights = training.weights
        if training.rows is not None:
            weights = weights[training.rows[k]]
        with np.errstate(over="ignore", invalid="ignore"):
            given = self._given(k, training)
            diagonal = self.kernels[k].diagonal(given)
            if np.isnan(diagonal).any():
                raise ValueError(f"Kernel {k} ({self.names[k]}) gives NaN on the training data.")
            largest = diagonal.max(initial=0.0)  # summing values of 1e300 would overflow
            if largest == 0.0:
                self._refuse_indefinite(k, given, diagonal)
            return (
                largest * (weights @ (diagonal / largest) / weights.sum())
                if largest > 0
                else largest
            )

    def _refuse_indefinite(self, k: int, given: Any, diagonal: np.ndarray) -> None:
        """Raise if a kernel has no positive number on its diagonal, and yet is not zero."""
        some = given[:VARIANCE_SAMPLE]
        if diagonal.any() or np.any(self.kernels[k].block(some, some)):
            raise ValueError(
                f"Kernel {k} ({self.names[k]}) is not positive semidefinite: no number on its "
                "diagonal is positive, and yet it is not zero."
            )


def grouped(spec: Any, held: Any) -> Any:
    """Kernels that stand alone, and those of the same pairwise number together: a dict from its
    kind and columns to their numbers.
    """
    alone: list[int] = []
    groups: dict[tuple, list[int]] = {}
    for k in spec.alive:
        kind = spec.kind(k)
        if k in held or kind is None:
            alone.append(k)
            continue
        columns = spec.columns[k]
        single = columns is not None and columns.size == 1
        groups.setdefault(
            (kind, SINGLE if single and kind != "manhattan" else spec.columns_key(k)), []
        ).append(k)
    return alone, groups


@dataclass(frozen=True, eq=False)
class MaskedSpec:
    """Gaussian kernels on feature subsets, stored as arrays, and the one scale of all.

    Attributes
    ----------
    masked : MaskedCollection
    normalize : str or None
        Diagonals are one, so only ``"trace"`` changes anything.
    scale : float
    """

    masked: MaskedCollection
    normalize: str | None
    scale: float

    @classmethod
    def from_data(
        cls, collection: MaskedCollection, normalize: str | None, training: Training
    ) -> Self:
        """The kernels of a collection, normalized on the training points."""
        refuse_categories(training.categories, "A masked bank")
        collection.check_columns(training.X.shape[1])
        if normalize == "variance":
            raise ValueError(
                "normalize='variance' gives every kernel a factor of its own, and masked kernels "
                "share one: use 'diagonal' or 'trace', or a list of kernels."
            )
        scale = 1.0 / float(training.weights.sum()) if normalize == "trace" else 1.0
        return cls(collection, normalize, scale)

    # what a `KernelSet` that has these kernels is asked

    @property
    def m(self) -> int:
        return len(self.masked)

    @property
    def names(self) -> Sequence[str]:
        return self.masked.names()

    @property
    def groups(self) -> Sequence[str]:
        return self.masked.groups

    @property
    def kernels(self) -> Sequence[Kernel]:
        return self.masked.kernels

    @property
    def scales(self) -> np.ndarray:
        return np.full(self.m, self.scale)

    @property
    def needs_grams(self) -> bool:
        return False

    def columns_of(self, k: int) -> np.ndarray:
        return np.flatnonzero(self.masked.masks(slice(k, k + 1))[0])

    def with_categories(self, categories: Mapping[int, list]) -> Self:
        return self  # they read numbers only

    def collection(self) -> KernelCollection:
        return self.masked

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Self:
        """Some of the kernels, each times a factor."""
        return replace(self, masked=self.masked.take_kernels(kernels), scale=factor * self.scale)


def resolved_features(kernel: Kernel, group: Any, n_features: Any, feature_names: Any) -> Any:
    """The columns that a kernel sees, None for all; errors name its group."""
    try:
        return resolve_features(kernel.features, n_features, feature_names)
    except ValueError as error:
        raise ValueError(f"Group {group!r}: {error}" if group else str(error)) from None


def _check_readable(collection: Any, columns: Any, n_features: Any, training: Any) -> None:
    names: Sequence[str] = NumberedColumns(n_features)
    if training.feature_names is not None:
        names = [str(name) for name in training.feature_names]
    for kernel, group, seen in zip(collection.kernels, collection.groups, columns, strict=True):
        check_readable(
            kernel,
            group,
            range(n_features) if seen is None else seen,
            names,
            training.categories or {},
        )


def _names(kernels: Indices, groups: Any, columns: Any, feature_names: Any) -> Any:
    return [
        (f"{group}: " if group else "") + kernel.name(feature_names, seen)
        for kernel, group, seen in zip(kernels, groups, columns, strict=True)
    ]


def inverse_roots(diagonal: np.ndarray) -> Any:
    """One over the root of each diagonal entry; zero for a point that the kernel maps to zero."""
    return np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0)


def _warn_unusable(usable: Any, mean: Any, names: Any) -> None:
    finite = np.isfinite(mean)
    _warn_left_out(np.flatnonzero(~usable & finite), "is zero on the training data", names)
    _warn_left_out(np.flatnonzero(~usable & ~finite), "overflows on the training data", names)


def _warn_left_out(kernels: Any, what: str, names: Any) -> None:
    for k in kernels[:5]:
        warnings.warn(
            f"Kernel {k} ({names[k]}) {what}; it is left out and its weight means nothing.",
            stacklevel=user_stacklevel(),
        )
    if len(kernels) > 5:
        warnings.warn(
            f"… and {len(kernels) - 5} more kernels are left out for such reasons.",
            stacklevel=user_stacklevel(),
        )
