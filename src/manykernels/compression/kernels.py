"""The kernels of a fitted model, without its points: what others may be put in their place."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .._threads import Threads
from ..banks import Bank, CombinationBank, DenseBank, MaskedBank, MissingBank, TiledBank
from ..banks.compute import Compute, Points
from ..banks.missing import Part, Side
from ..banks.spec import BankSpec, MaskedSpec
from ..banks.wrappers.centered import CenteredBank
from ..combinations import Product
from ..kernels import RBF, KernelCollection
from ..lowrank import FeatureMap
from .slopes import Members, Placement, grouped, has_slopes, movable_columns, seen_columns

# Masked kernels with weight that are described one by one. More take longer to write down.
MOST_MASKS = 2000


class PointKernels(ABC):
    """Combined kernels that can be put on points of any choice.

    Attributes
    ----------
    weights : (q, m) array
        Of one combined kernel for all outputs, or of one for each.
    points : (n, n_features) array or CSR array, or None
        Those that the model has.
    numbers : (m,) int
        The kernels among those of the model.
    movable : (n_features,) bools
        Columns along which points can be moved.
    """

    weights: np.ndarray
    points: Any
    numbers: np.ndarray
    movable: np.ndarray

    @abstractmethod
    def bank(self, points: Any) -> Bank:
        """The kernels on points."""

    def between(
        self, rows: Any, points: Any, categories: Mapping[int, list] | None = None
    ) -> np.ndarray:
        """The combined kernels, (q, n, s).

        Parameters
        ----------
        rows, points : tables
        categories : mapping, optional
            The entries that codes in the rows stand for, by column.
        """
        bank = self.bank(points)
        cross = (bank.with_categories(categories) if categories else bank).cross(rows)
        return np.stack([np.asarray(cross.combine(w), dtype=float) for w in self.weights])

    @abstractmethod
    def take(self, kernels: np.ndarray) -> "PointKernels":
        """Some of the kernels."""

    def with_few_strings(self, points: Any) -> "tuple[PointKernels, Any, dict[int, list]]":
        """Kernels and points that know only the strings of these points, and these strings by
        column: others are as good as new ones.
        """
        return self, points, {}

    def placement(self, rows: np.ndarray, points: np.ndarray, categories: Any) -> Placement:
        """The kernels between rows and points that move."""
        raise NotImplementedError


class SumKernels(PointKernels):
    """Sums of kernels.

    Parameters
    ----------
    spec : BankSpec
    weights : (q, m) array
    numbers : (m,) int
    points : table or None
    n_features : int
    threads : Threads
    """

    def __init__(
        self,
        spec: BankSpec,
        weights: np.ndarray,
        numbers: np.ndarray,
        points: Any,
        n_features: int,
        threads: Threads,
    ) -> None:
        self.spec, self.weights, self.numbers, self.points = spec, weights, numbers, points
        self.n_features, self.threads = n_features, threads
        self.movable = movable_columns(spec, n_features)

    def bank(self, points: Any) -> TiledBank:
        return TiledBank(self.spec, Points.square(points), Compute(threads=self.threads))

    def take(self, kernels: np.ndarray) -> "SumKernels":
        spec, weights = self.spec.take_kernels(kernels), self.weights[:, kernels]
        of_model = self.numbers[kernels]
        return SumKernels(spec, weights, of_model, self.points, self.n_features, self.threads)

    def with_few_strings(self, points):
        columns = {
            f
            for k, kernel in enumerate(self.spec.kernels)
            if kernel.reads == "strings"
            for f in np.arange(self.n_features)[seen_columns(self.spec, k)].tolist()
        }
        if not columns:
            return self, points, {}
        points, entries = points.copy(), {}
        for f in columns:
            used, points[:, f] = np.unique(points[:, f], return_inverse=True)
            entries[f] = [self.spec.categories[f][int(code)] for code in used]
        spec = self.spec.with_categories(dict(self.spec.categories) | entries)
        of = self.numbers, self.points, self.n_features, self.threads
        return SumKernels(spec, self.weights, *of), points, entries

    def placement(self, rows, points, categories):
        moving = np.array(
            [
                has_slopes(self.spec, k) and bool(self.movable[seen_columns(self.spec, k)].any())
                for k in range(self.spec.m)
            ]
        )
        still = np.flatnonzero(~moving)
        fixed = self.take(still).between(rows, points, categories) if still.size else None
        groups = grouped(self.spec.take_kernels(moving), self.weights[:, moving])
        return Placement(groups, rows, fixed)


class CombinedKernels(PointKernels):
    """A combination that is no sum."""

    def __init__(self, bank: CombinationBank, weights: np.ndarray) -> None:
        self.own, self.weights, self.points = bank, weights, bank.right
        self.numbers = np.arange(bank.m)
        self.movable = np.full(bank.right.shape[1], type(bank.combination) is Product)

    def bank(self, points: Any) -> CombinationBank:
        combination: Any = self.own.combination.fit(points)
        if hasattr(combination, "_center"):  # the median of all training points
            combination._center = vars(self.own.combination)["_center"]
        names, threads = self.own.feature_names, self.own.threads.count
        return CombinationBank(combination, feature_names=names, n_jobs=threads)

    def take(self, kernels: np.ndarray) -> "CombinedKernels":
        return self  # its weights belong to columns

    def placement(self, rows, points, categories):
        of_column = np.sqrt(self.weights[:, self.own.combination._group])
        columns = np.flatnonzero(of_column.any(axis=0))
        # every output with weights of its own has columns in units of its own
        groups = []
        for c, units in enumerate(of_column[:, columns]):
            one = np.zeros((len(self.weights), 1))
            one[c] = 1.0
            groups.append(Members(RBF, columns, [RBF(1.0)], one, units))
        return Placement(groups, rows)


class MissingKernels(PointKernels):
    """Kernels of rows that may lack views, on points that have them all: what is needed of the
    training rows are then the means of the kernels at these points alone.
    """

    def __init__(self, bank: MissingBank, weights: np.ndarray) -> None:
        if any(isinstance(part.bank, CenteredBank) for part in bank.parts):
            raise ValueError(
                "Nothing can be gained: with missing views and normalize='center' predictions need "
                "all training rows, whatever the points are. Train with normalize='diagonal'."
            )
        if any(part.shares is None for part in bank.parts):
            raise ValueError(
                "This model is compressed already, and has no means of the training rows left: "
                "compress the model that it stands for."
            )
        self.own, self.weights, self.numbers = bank, weights, np.arange(bank.m)
        self.movable = np.zeros(len(bank.views.names), dtype=bool)
        self.points = _rows_of_parts(bank)

    def bank(self, points: Any) -> MissingBank:
        everything, parts = np.arange(points.shape[0]), []
        for part in self.own.parts:
            own, source = points[:, part.columns], _host(part.bank)
            means = source.cross(own).products(part.shares)
            some = TiledBank(source.spec, Points.square(own), source.compute)
            side = Side(everything, np.ones(everything.size), means)
            parts.append(Part(some, part.kernels, part.columns, side, part.norms, None))
        return MissingBank(self.own.spec, self.own.views, parts)

    def take(self, kernels: np.ndarray) -> "MissingKernels":
        return self  # the views of all kernels count in the rule "scaled"


def _rows_of_parts(bank):
    """The training rows that have all views."""
    rows = np.full((bank.n, len(bank.views.names)), np.nan)
    for part in bank.parts:
        rows[np.ix_(part.cols.at, part.columns)] = part.bank.right
    return rows


def _host(bank):
    return bank.source if isinstance(bank, DenseBank) else bank


def kernels_of(model: Any) -> PointKernels:
    """Those of a fitted estimator."""
    bank, weights = _host(model.decision_.bank), np.atleast_2d(model.decision_.weights)
    if isinstance(bank, MissingBank):
        return MissingKernels(bank, weights)
    if isinstance(bank, CombinationBank):
        return CombinedKernels(bank, weights)
    factor: Any = 1.0
    if isinstance(bank, CenteredBank):
        # centering adds functions of one argument: a constant, and one that the points do without
        factor, bank = bank.centering.factor, _host(bank.bank)
    points = getattr(bank, "landmarks", None)
    if isinstance(bank, FeatureMap):
        spec, threads = bank.on_points.spec, Threads(1)
    elif isinstance(bank, (TiledBank, MaskedBank)):
        spec, points, threads = bank.spec, bank.right, bank.threads
    else:
        raise ValueError(
            f"Models on a {type(bank).__name__} cannot be compressed: they have no points whose "
            "number could be smaller. Train with fewer features, or with approximation=None."
        )
    used = np.flatnonzero(weights.any(axis=0) & (spec.scales * factor > 0.0))
    some = spec.take_kernels(used)
    if isinstance(some, MaskedSpec):
        some = _written_out(some, model.n_features_in_)
    elif isinstance(factor, np.ndarray):
        some = replace(some, scales=some.scales * factor[used])
    return SumKernels(some, weights[:, used], used, points, model.n_features_in_, threads)


def _written_out(spec, n_features):
    """Masked kernels, one by one."""
    if spec.m > MOST_MASKS:
        raise ValueError(
            f"{spec.m:,} kernels have weight, and predictions take as long as all of them "
            f"together: train with p=1, which leaves few. (At most {MOST_MASKS:,} are compressed.)"
        )
    collection = KernelCollection.from_lists(list(spec.kernels), list(spec.groups))
    return BankSpec.from_resolved(collection, spec.normalize, spec.scales, n_features)
