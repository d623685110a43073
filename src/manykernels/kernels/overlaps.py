"""Kernels of sets and of counts, such as fingerprints of molecules: the share of what two of them
have that is common.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Features, Kernel
from .points import is_sparse
from .vector import dense

# Added to sizes, so that two rows of zeros are alike: beside any count it is nothing, and float32
# has it.
EMPTY = 1e-37
# Rows of sparse points that are made dense to be packed. More take more memory.
ROWS_AT_ONCE = 1024
# How many bits of an octet are one.
ONES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
BITS = "Tanimoto needs bits, entries of 0 and 1 (MinMax takes counts)"
COUNTS = "MinMax needs counts, numbers of at least zero"


@dataclass(frozen=True)
class Overlap(Kernel):
    """A kernel of what is shared; the two differ in what they take, and in how they hold it."""

    features: Features = None
    unit_diagonal = True

    @abstractmethod
    def laid_out(self, A: Any) -> Any:
        """Points, checked, as `Bits` or `Counts`."""

    def block(self, A: Any, B: Any) -> np.ndarray:
        left = self.laid_out(A)
        return left.similarities(left if A is B else self.laid_out(B))

    def few_rows(self, A: Any, B: Any) -> np.ndarray:
        """The block without compiled loops, which a process that predicts little never loads."""
        left, right = self.laid_out(A), self.laid_out(B)
        shared = np.stack([right.shared_with(left, i) for i in range(left.sizes.size)])
        both = left.sizes[:, None] + right.sizes
        return similarities(both, both - 2.0 * shared)


@dataclass(frozen=True)
class Tanimoto(Overlap):
    """Bit vectors by the share of their ones that is common, ``|x and y| / |x or y|``.

    Also known as the Jaccard index. For binary fingerprints of molecules, dense or sparse; entries
    other than 0 and 1 are refused. A vector without ones has similarity 1 with another such, and 0
    with all others.

    Parameters
    ----------
    features : as for `Kernel`
    """

    def laid_out(self, A: Any) -> "Bits":
        return A if isinstance(A, Bits) else Bits.of(A)


@dataclass(frozen=True)
class MinMax(Overlap):
    """Counts by the part that is common, ``sum_f min(x_f, y_f) / sum_f max(x_f, y_f)``.

    For fingerprints that count, dense or sparse, and for other numbers of at least zero; of bits it
    is `Tanimoto`. A vector of zeros has similarity 1 with another such, and 0 with all others.

    Parameters
    ----------
    features : as for `Kernel`
    """

    def laid_out(self, A: Any) -> "Counts":
        return A if isinstance(A, Counts) else Counts.of(A)


def similarities(both: Any, apart: Any) -> Any:
    """Kernels from ``|x| + |y|`` and ``|x - y|``, sums of absolute values; arrays or tensors."""
    both = both + EMPTY
    return (both - apart) / (both + apart)


@dataclass(frozen=True, eq=False)
class Bits:
    """Rows of zeros and ones, eight columns in an octet.

    Attributes
    ----------
    octets : (n_features / 8, n) uint8
    sizes : (n,) array
        How many ones each row has.
    """

    octets: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, A: Any) -> "Bits":
        """Rows as octets; an error if they hold anything else."""
        octets, sizes = [], []
        for start in range(0, max(A.shape[0], 1), ROWS_AT_ONCE):
            rows = dense(A[start : start + ROWS_AT_ONCE])
            ones = rows.astype(bool)
            _refuse(rows, rows != ones, BITS)
            octets.append(np.packbits(ones, axis=1))
            sizes.append(np.count_nonzero(ones, axis=1))
        columns = np.ascontiguousarray(np.concatenate(octets).T)
        return cls(columns, np.concatenate(sizes).astype(float))

    def __getitem__(self, rows: Any) -> "Bits":
        return Bits(np.ascontiguousarray(self.octets[:, rows]), self.sizes[rows])

    def similarities(self, others: "Bits") -> np.ndarray:
        """The kernel between these rows and others."""
        from .._loops.overlaps import common_bits

        out = np.empty((self.sizes.size, others.sizes.size))
        common_bits(self.octets, others.octets, self.sizes, others.sizes, out)
        return out

    def shared_with(self, others: "Bits", i: int) -> np.ndarray:
        """Ones in common with another row i, by NumPy alone."""
        bits = others.octets[:, i]
        used = np.flatnonzero(bits)
        return ONES[self.octets[used] & bits[used, None]].sum(axis=0, dtype=float)


@dataclass(frozen=True, eq=False)
class Counts:
    """Rows of numbers of at least zero, as those that are above.

    Attributes
    ----------
    starts : (n + 1,) int
        Where the entries of each row begin.
    columns : (entries,) int
    values : (entries,) array
        As small integers where these hold them and their sums, the smaller the faster.
    sizes : (n,) array
        Sums of the rows.
    width : int
        Number of columns.
    """

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    sizes: np.ndarray
    width: int

    @classmethod
    def of(cls, A: Any) -> "Counts":
        """Rows by their entries; an error if one is below zero."""
        if is_sparse(A):
            A = A.tocsr()
            starts, columns, values = A.indptr, A.indices, A.data
        else:
            rows, columns = np.nonzero(A)
            starts, values = np.searchsorted(rows, np.arange(A.shape[0] + 1)), A[rows, columns]
        _refuse(values, values < 0.0, COUNTS)
        sizes = np.asarray(A.sum(axis=1), dtype=float).ravel()
        small = sizes.max(initial=0.0) < 2**16 and np.array_equal(values, np.floor(values))
        values = values.astype(np.uint16 if small else np.float64, copy=False)
        return cls(starts.astype(np.int64), columns.astype(np.int32), values, sizes, A.shape[1])

    def __getitem__(self, rows: Any) -> "Counts":
        counts = np.diff(self.starts)[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        entries = np.repeat(self.starts[:-1][rows] - starts[:-1], counts) + np.arange(starts[-1])
        columns, values = self.columns[entries], self.values[entries]
        return Counts(starts, columns, values, self.sizes[rows], self.width)

    def similarities(self, others: "Counts") -> np.ndarray:
        """The kernel between these rows and others."""
        from .._loops.overlaps import WIDTH, Rows, common_counts

        kind = np.result_type(self.values, others.values)
        left, right = (
            Rows(one.starts, one.columns, one.values.astype(kind, copy=False), one.sizes)
            for one in (self, others)
        )
        out = np.empty((self.sizes.size, others.sizes.size))
        table = np.zeros((self.width, WIDTH), kind)
        common_counts(left, right, table, out)
        return out

    def shared_with(self, others: "Counts", i: int) -> np.ndarray:
        """Sums of the smaller counts with another row i, by NumPy alone."""
        line, mine = np.zeros(self.width), slice(*others.starts[i : i + 2])
        line[others.columns[mine]] = others.values[mine]
        owners = np.repeat(np.arange(self.sizes.size), np.diff(self.starts))
        return np.bincount(owners, np.minimum(line[self.columns], self.values), self.sizes.size)


def _refuse(values: np.ndarray, wrong: np.ndarray, needed: str) -> None:
    """Raise if an entry is wrong."""
    if wrong.any():
        raise ValueError(
            f"{needed}, got {values[wrong][0]:.6g}. Give the columns as they are, not standardized."
        )
