"""Training rows in blocks on a cluster, and the bank of their low-rank factors.

Landmarks, widths, units and scales are those of a sample of the rows, brought to the client and put
into the canonical form that one machine trains on: equal rows merged, in an order of their own.
Where the sample is all rows, they are those of one machine.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import dask.array as da
import numpy as np
from dask.delayed import Delayed

from .._canonical import canonical_rows, taken
from .._threads import Threads, one_thread, thread_count
from ..banks import ResolvedKernels
from ..estimators.checks import choose_combination
from ..estimators.data.fingerprints import fingerprint
from ..estimators.data.prepare import RowsElsewhere, collection
from ..estimators.data.units import in_units, learn_units, warn_of_scales
from ..kernels.collection import MaskedCollection
from ..kernels.points import as_points
from ..planning import plan_precision
from .cluster import Cluster
from .parts import Parts, given
from .points import PointsBank, make_factors
from .tables import as_numbers, chosen_rows, is_collection, names_of, row_count, sent, stacked

SAMPLE = 20_000  # rows from which landmarks, widths and units are taken


class ClusterRows(RowsElsewhere):
    """A table in blocks of rows.

    Parameters
    ----------
    blocks : list
        Arrays, sparse matrices or data frames in memory, or delayed ones.
    lengths : list of int
    width : int
    names : list of str, optional
        Of the columns.
    cluster : Cluster
    parts : int, optional
        By default two for every thread of the workers, and at least four.
    """

    def __init__(
        self,
        blocks: Sequence,
        lengths: Sequence[int],
        width: int,
        names: list[str] | None,
        cluster: Cluster,
        parts: int | None = None,
    ) -> None:
        self.blocks, self.lengths, self.names = blocks, lengths, names
        self.cluster, self.count = cluster, parts or cluster.parts
        self.edges = np.concatenate([[0], np.cumsum(lengths)])
        self.shape = int(self.edges[-1]), width
        self.sample: Any = None  # once an estimator has read it
        self.chosen = self._chosen()

    @classmethod
    def of(cls, X: Any, cluster: Cluster, parts: int | None = None) -> Self:
        """The blocks of a Dask collection, or of a table in memory."""
        if is_collection(X):
            return cls._of_collection(X, cluster, parts)
        n = X.shape[0]
        count = min(n, parts or cluster.parts)
        edges = np.linspace(0, n, count + 1).astype(int)
        blocks = [chosen_rows(X, slice(start, stop)) for start, stop in pairwise(edges)]
        return cls(blocks, np.diff(edges).tolist(), X.shape[1], names_of(X), cluster, parts)

    @classmethod
    def _of_collection(cls, X, cluster, parts):
        names, width = names_of(X), X.shape[1]
        if isinstance(X, da.Array):
            blocks = list(X.rechunk({1: -1}).to_delayed()[:, 0])
        else:
            blocks = list(X.to_delayed())
        counts = cluster.submit("rows", row_count, [(one,) for one in sent(cluster, blocks)])
        return cls(blocks, cluster.answers(counts), width, names, cluster, parts)

    def _chosen(self):
        """Numbers of the rows of the sample."""
        n = self.shape[0]
        if n <= SAMPLE:
            return np.arange(n)
        return np.sort(np.random.default_rng(0).choice(n, SAMPLE, replace=False))

    def sampled(self) -> Any:
        """The rows of the sample as one table in memory."""
        of = np.searchsorted(self.edges, self.chosen, side="right") - 1
        used = np.unique(of)
        mine = [self.chosen[of == block] - self.edges[block] for block in used]
        pairs = zip([self.blocks[block] for block in used], mine, strict=True)
        if not isinstance(self.blocks[0], Delayed):
            return stacked([chosen_rows(*pair) for pair in pairs])
        blocks = sent(self.cluster, [self.blocks[block] for block in used])
        asked = self.cluster.submit("sample", chosen_rows, list(zip(blocks, mine, strict=True)))
        return stacked(self.cluster.answers(asked))

    def note(self, codes, sample_weight):
        self._distinct = canonical_rows(self.sample, codes[self.chosen], sample_weight[self.chosen])

    def make_kernels(self, estimator):
        _refuse(estimator)
        weight, rows = self._distinct.weight, taken(self.sample, self._distinct.rows)
        learn_units(estimator, rows, weight)
        sample = as_points(in_units(estimator, rows))
        names = getattr(estimator, "feature_names_in_", None)
        kernels = collection(estimator, sample)
        if not isinstance(kernels, MaskedCollection):
            warn_of_scales(kernels, sample, weight, names)
        on_points = {"sample_weight": weight, "feature_names": names}
        kernels = ResolvedKernels.from_data(
            kernels, sample, normalize=estimator.normalize, **on_points
        )
        threads = Threads(thread_count(estimator.n_jobs))
        dtype = np.dtype(plan_precision(estimator.tol))
        with one_thread():
            features = estimator.approximation.features(kernels, sample, dtype, threads)
        return self._bank(features, Units.of(estimator), dtype, threads)

    def _bank(self, features, units, dtype, threads):
        groups = self._groups()
        edges = np.array([self.edges[group[0]] for group in groups] + [self.shape[0]])
        self._check_room(features.width * dtype.itemsize, np.diff(edges).max(), len(groups))
        recipes = partial(self._recipes, groups, (features, units, self.names))
        # rows that are read by workers already are where they were read
        spread = not isinstance(self.blocks[0], Delayed)
        parts = Parts(self.cluster, "factors", make_part, recipes(), recipes, spread)
        return PointsBank(parts, edges, features, dtype, threads)

    def _recipes(self, groups, shared):
        """The arguments of `make_part` for every part."""
        features = self.cluster.submit("features", given, [(shared,)])[0]
        blocks = sent(self.cluster, self.blocks)
        return [
            ([blocks[one] for one in group], [int(self.edges[one]) for one in group], features)
            for group in groups
        ]

    def _groups(self):
        """Blocks that make a part together."""
        ends = np.linspace(0, self.shape[0], min(len(self.blocks), self.count) + 1)[1:]
        groups: dict[int, list[int]] = {}
        for block, length in enumerate(self.lengths):
            if length:
                part = int(np.searchsorted(ends, self.edges[block], side="right"))
                groups.setdefault(part, []).append(block)
        return list(groups.values())

    def _check_room(self, row_bytes, rows, parts):
        """Raise if the parts of a worker do not fit into its memory while they are made."""
        memory, cluster = self.cluster.memory, self.cluster
        if not memory:
            return
        threads = min(cluster.threads_each, parts)
        # those being made have their factors a second time, and their rows as numbers and in units
        extra = threads * (row_bytes + 3 * 8 * self.shape[1])
        needed = rows * (row_bytes + extra)
        more = int(np.ceil(parts * needed / (0.5 * memory)))
        advice = f"give parts={more}"
        if isinstance(self.blocks[0], Delayed) and parts >= len(self.blocks):
            advice = f"cut X into {more} chunks or partitions"
        cluster.check_room(needed, row_bytes * self.shape[0], "A part of the factors", advice)

    def marks(self, estimator, targets, cost):
        return fingerprint(estimator, as_points(self.sample), targets, cost)


class Units:
    """What `in_units` reads of an estimator, on its way to the workers."""

    def __init__(self, means: np.ndarray, spreads: np.ndarray) -> None:
        self.feature_means_, self.feature_spreads_ = means, spreads

    @classmethod
    def of(cls, estimator: Any) -> Self | None:
        """The units of an estimator, None if it takes columns as they are."""
        if not hasattr(estimator, "feature_spreads_"):
            return None
        return cls(estimator.feature_means_, estimator.feature_spreads_)


def make_part(blocks, firsts, shared):
    """The factors of some blocks of rows, which begin with these numbers."""
    features, units, names = shared
    pairs = zip(blocks, firsts, strict=True)
    points = stacked([as_numbers(block, names, first) for block, first in pairs])
    return make_factors(points if units is None else as_points(in_units(units, points)), features)


def _refuse(estimator):
    """Raise for parameters that rows on a cluster do not take."""
    if choose_combination(estimator.combination) is not None:
        raise ValueError("A cluster works with sums of kernels: leave combination='sum'.")
    if estimator.approximation is None:
        raise ValueError(
            "A cut by points needs low-rank kernels: give an approximation such as Nystroem(200), "
            "or cut='kernels' for a table that fits into memory."
        )
    if estimator.p == "auto":
        raise ValueError("p='auto' needs the rows in memory: give p as a number.")
    if estimator.missing != "error":
        raise ValueError(
            f"missing={estimator.missing!r} is for a cut by kernels: give cut='kernels', or impute "
            "the values before."
        )
    if estimator.device != "cpu":
        raise ValueError(f"device={estimator.device!r} is for one machine: leave device='cpu'.")
    if estimator.categories_:
        raise ValueError(
            f"Columns {sorted(map(str, estimator.categories_))} hold strings or categories, which "
            "are cut by kernels only: give cut='kernels', or code them as numbers."
        )
