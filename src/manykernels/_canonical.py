"""Training rows in canonical form: no zero weights, no duplicates, an order that depends on the
rows alone.

Repeating a row and doubling its weight are the same problem, and so are two orders of the same
rows. A solver that stops at a tolerance would answer them slightly differently; after this they are
the same arrays.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ._loops.keys import add_keys
from ._threads import Threads, thread_count

# Rows that a thread takes at a time: with more, fewer threads have work.
ROWS_PER_TASK = 16_384


class Canonical(NamedTuple):
    """Which rows stand for all, and how to go back.

    Attributes
    ----------
    rows : (n,) int
        One row of the original data for each distinct (x, y), in canonical order.
    weight : (n,) float
        Summed weights of the rows that each stands for.
    group : (n_original,) int
        The place in `rows` that stands for each original row, -1 for rows of weight zero.
    share : (n_original,) float
        The part of that place's weight that the original row brought.
    """

    rows: np.ndarray
    weight: np.ndarray
    group: np.ndarray
    share: np.ndarray

    def expand(self, beta: np.ndarray) -> np.ndarray:
        """Coefficients (t, n) of the distinct rows as coefficients (t, n_original) of all rows."""
        out = np.zeros((beta.shape[0], self.group.size))
        kept = self.group >= 0
        out[:, kept] = beta[:, self.group[kept]] * self.share[kept]
        return out


def canonical_rows(X: Any, y: np.ndarray, sample_weight: np.ndarray) -> Canonical:
    """Drop rows of zero weight, merge equal ones, sort.

    Parameters
    ----------
    X : array or CSR matrix
        NaN is equal to NaN.
    y : (n,) integer codes
    sample_weight : (n,) nonnegative
    """
    kept = np.flatnonzero(sample_weight > 0)
    if kept.size < len(sample_weight):
        X, y = X[kept], y[kept]
    keys = _row_keys(X, y)
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if not _equal_rows(X, y, first[group]):  # a collision of 64-bit keys: merge nothing
        first = np.argsort(keys, kind="stable")
        group = np.argsort(first)
    weight = np.bincount(group, weights=sample_weight[kept], minlength=first.size)
    places, share = np.full(len(sample_weight), -1), np.zeros(len(sample_weight))
    places[kept] = group
    share[kept] = sample_weight[kept] / weight[group]
    return Canonical(kept[first], weight, places, share)


def taken(X: Any, rows: np.ndarray) -> Any:
    """``X[rows]``, on all threads where X is a large table."""
    if sparse.issparse(X) or not X.flags.c_contiguous or len(rows) < ROWS_PER_TASK:
        return X[rows]
    out = np.empty((len(rows), X.shape[1]), X.dtype)

    def take(start: int) -> None:
        part = slice(start, start + ROWS_PER_TASK)
        np.take(X, rows[part], axis=0, out=out[part], mode="clip")  # else it goes by a buffer

    Threads(thread_count()).map(take, range(0, len(rows), ROWS_PER_TASK))
    return out


def fixed_rows(sample_weight: np.ndarray) -> Canonical:
    """The rows as they are, for data whose order is given elsewhere."""
    n = len(sample_weight)
    return Canonical(np.arange(n), np.asarray(sample_weight, dtype=float), np.arange(n), np.ones(n))


def _row_keys(X: Any, y: np.ndarray) -> np.ndarray:
    """A 64-bit key per row, equal for equal rows. A single column keeps its own order, which is
    kind to memory maps.
    """
    if X.shape[1] == 1:
        column = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float).ravel() + 0.0
        return (
            np.unique(np.column_stack([column, y]), axis=0, return_inverse=True)[1]
            .ravel()
            .astype(np.uint64)
        )
    if sparse.issparse(X):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        mixed = _mix(X.indices.astype(np.uint64), X.data.astype(float))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
        keys = sums[X.indptr[1:]] - sums[X.indptr[:-1]]
    else:
        bits = np.ascontiguousarray(X, dtype=float).view(np.uint64)
        keys, salts = np.zeros(len(bits), np.uint64), _salts(np.arange(X.shape[1], dtype=np.uint64))
        Threads(thread_count()).map(
            lambda start: add_keys(
                bits[start : start + ROWS_PER_TASK], salts, keys[start : start + ROWS_PER_TASK]
            ),
            range(0, len(bits), ROWS_PER_TASK),
        )
    return scramble(keys ^ scramble(y.astype(np.uint64) + np.uint64(1)))


def _mix(column: np.ndarray, values: np.ndarray) -> np.ndarray:
    return scramble(np.ascontiguousarray(values).view(np.uint64) + _salts(column))


def _salts(column: np.ndarray) -> np.ndarray:
    """Numbers that tell equal entries of different columns apart."""
    with np.errstate(over="ignore"):
        return scramble(column + np.uint64(0x9E3779B97F4A7C15))


def scramble(x: Any) -> Any:
    """The finalizer of SplitMix64 (Steele, Lea and Flood 2014): a bijection that spreads every
    bit.
    """
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _equal_rows(X: Any, y: np.ndarray, other: np.ndarray) -> bool:
    """True if rows are equal to those others that stand for them."""
    merged = np.flatnonzero(other != np.arange(len(other)))
    other = other[merged]
    if not np.array_equal(y[merged], y[other]):
        return False
    if sparse.issparse(X):
        return (X[merged] != X[other]).nnz == 0
    X, same = X[merged], X[other]
    return np.array_equal(X, same) or np.array_equal(X, same, equal_nan=True)
