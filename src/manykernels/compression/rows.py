"""Rows at which a smaller model is to say what a model says: given ones, those of the model, and
ones between them.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from ..kernels.points import is_sparse

NEIGHBORS = 10  # rows that another one is mixed with, or that a mean is taken of
MOST_ROWS = 6000  # rows of a sample, at most. More make a fit slower and hardly better.
ENTRIES = 2**22  # of a table that are looked at together. More take more memory.
# Rounding of a coordinate, as a part of the spread of its column, that changes nothing.
ROUNDING = 1e-4


class Sample(NamedTuple):
    """Rows, and what a model says of them.

    Attributes
    ----------
    rows : table of checked points
    scores : (t, n) array
    categories : mapping
        The entries that codes in the rows stand for, by column.
    """

    rows: Any
    scores: np.ndarray
    categories: Mapping[int, list] | None = None


class Source:
    """Where samples are drawn from.

    Parameters
    ----------
    decision : Decision
        What says the scores.
    rows : table of checked points
    categories : mapping or None
    random : Generator
    mixes : bool
        Whether there is anything between two rows: not if they are numbers of samples. Sparse rows
        and rows that lack something stay as they are, too.
    """

    def __init__(
        self,
        decision: Any,
        rows: Any,
        categories: Mapping[int, list] | None,
        random: np.random.Generator,
        mixes: bool = True,
    ) -> None:
        self.decision, self.rows, self.categories, self.random = decision, rows, categories, random
        mixes = mixes and not is_sparse(rows) and rows.shape[0] > NEIGHBORS
        self.mixes = mixes and not np.isnan(rows).any()
        self.codes = unmixed(rows, categories)
        self.near = neighbors(rows) if self.mixes else None

    def draw(self, most: int = MOST_ROWS) -> Sample:
        """As many rows as there may be: no more than half of them given ones if others can be made,
        which lie between a row and one of its neighbors.
        """
        n = self.rows.shape[0]
        real = min(n, most // 2 if self.mixes else most)
        chosen = self.random.permutation(n)[:real]
        rows = self.rows[chosen]
        if self.mixes:
            rows = np.concatenate([rows, self._between(most - real)])
        return Sample(rows, self.decision.scores(rows, self.categories), self.categories)

    def _between(self, count):
        first = self.random.integers(self.rows.shape[0], size=count)
        second = self.near[first, self.random.integers(NEIGHBORS, size=count)]
        share = self.random.random((count, 1))
        out = self.rows[first] + share * (self.rows[second] - self.rows[first])
        # of a category or a bit there is nothing in between
        out[:, self.codes] = np.where(share < 0.5, self.rows[first], self.rows[second])[
            :, self.codes
        ]
        return out


def unmixed(rows: Any, categories: Mapping[int, list] | None) -> np.ndarray:
    """Columns of which there is nothing between two rows: categories, and bits."""
    codes = set(categories or {})
    if not is_sparse(rows):
        codes |= set(np.flatnonzero(((rows == 0.0) | (rows == 1.0)).all(axis=0)).tolist())
    return np.array(sorted(codes), dtype=np.intp)


def neighbors(rows: np.ndarray, of: np.ndarray | None = None) -> np.ndarray:
    """The nearest rows of every row, or of others, in units of the spread of the columns, (n,
    NEIGHBORS) int.
    """
    units = rows.std(axis=0)
    units[units == 0.0] = 1.0
    search = NearestNeighbors(n_neighbors=NEIGHBORS).fit(rows / units)
    return search.kneighbors(None if of is None else of / units, return_distance=False)


def local_means(rows: np.ndarray, at: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The means of the rows that are nearest to some, and their commonest categories.

    Parameters
    ----------
    rows : (n, n_features) array
    at : (s, n_features) array
    codes : (c,) int
        Columns of categories.
    """
    near = rows[neighbors(rows, at)]
    out = near.mean(axis=1)
    for f in codes:
        for row, entries in zip(out, near[:, :, f], strict=True):
            kinds, counts = np.unique(entries, return_counts=True)
            row[f] = kinds[counts.argmax()]
    return out


def stacked(tables: list) -> Any:
    """Tables of points below each other; sparse if one of them is."""
    if any(is_sparse(table) for table in tables):
        return sparse.csr_array(sparse.vstack([sparse.csr_array(table) for table in tables]))
    return np.concatenate(tables)


def known_rows(rows: Any, points: Any) -> np.ndarray:
    """Which rows are among the points, (n,) bools."""
    if points is None:
        return np.zeros(rows.shape[0], dtype=bool)
    have = set(_keys(points))
    return np.array([key in have for key in _keys(rows)], dtype=bool)


def _keys(table):
    """Numbers that are equal where rows are."""
    step = max(1, ENTRIES // table.shape[1])
    for start in range(0, table.shape[0], step):
        part = table[start : start + step]
        part = part.toarray() if is_sparse(part) else part
        # minus zero is zero
        yield from (hash(row.tobytes()) for row in np.ascontiguousarray(part + 0.0))


def single(points: Any, rows: Any) -> Any:
    """Points rounded to float32, where that is nothing beside the spread of the rows."""
    if is_sparse(points):
        rounded = points.copy()
        rounded.data = points.data.astype(np.float32).astype(float)
        return rounded
    with np.errstate(over="ignore"):
        rounded = points.astype(np.float32).astype(float)
    spreads = np.nanstd(rows.toarray() if is_sparse(rows) else rows, axis=0)
    if (np.abs(rounded - points).max(axis=0) <= ROUNDING * spreads).all():
        return rounded
    return points
