"""What two rows share: of bits, and of counts."""

from typing import NamedTuple

import numpy as np

from .rbf import _ones, fast

# Other rows whose counts are written down together, column by column. More do not stay in cache.
WIDTH = 64
OCTETS = 31  # of bits, whose ones an octet can count


class Rows(NamedTuple):
    """Rows by their entries above zero: row i has those from starts[i] to starts[i + 1]."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    sizes: np.ndarray  # their sums, in float64


@fast
def _move(few, counts):
    """Add small counts to larger ones."""
    for j in range(counts.size):
        counts[j] += np.int32(few[j])
        few[j] = 0


@fast
def _share(shared, both):
    return 1.0 if both == 0.0 else shared / (both - shared)


@fast
def common_bits(left, right, left_sizes, right_sizes, out):
    """``out[i, j] = |left[:, i] and right[:, j]| / |left[:, i] or right[:, j]|``, one if both are
    empty; uint8, left (octets, b), right (octets, c), sizes in float64.
    """
    few, counts = np.zeros(out.shape[1], np.uint8), np.empty(out.shape[1], np.int32)
    for i in range(out.shape[0]):
        counts[:] = 0
        added = 0
        for octet in range(right.shape[0]):
            bits = left[octet, i]
            if bits == 0:  # as most of those of the usual fingerprints are
                continue
            if added == OCTETS:
                _move(few, counts)
                added = 0
            others = right[octet]  # here: a view costs as much as all else of a zero
            for j in range(few.size):
                few[j] += _ones(np.uint8(bits & others[j]))
            added += 1
        _move(few, counts)
        for j in range(counts.size):
            out[i, j] = _share(np.float64(counts[j]), left_sizes[i] + right_sizes[j])


@fast
def common_counts(left, right, table, out):
    """``out[i, j] = sum_f min(left[i, f], right[j, f]) / sum_f max(left[i, f], right[j, f])``, one
    if both are empty.

    A part of the right rows at a time is written down in the table (features, width), so that the
    entries of a left row are those of a few lines of it. The table is zero, and is again in the
    end; its numbers hold the sums of rows.
    """
    width = table.shape[1]
    shared = np.empty(width, table.dtype)
    for first in range(0, out.shape[1], width):
        last = min(first + width, out.shape[1])
        for j in range(first, last):
            for entry in range(right.starts[j], right.starts[j + 1]):
                table[right.columns[entry], j - first] = right.values[entry]
        for i in range(out.shape[0]):
            shared[:] = 0
            for entry in range(left.starts[i], left.starts[i + 1]):
                value, line = left.values[entry], table[left.columns[entry]]
                for j in range(width):
                    shared[j] += min(value, line[j])
            for j in range(first, last):
                both = left.sizes[i] + right.sizes[j]
                out[i, j] = _share(np.float64(shared[j - first]), both)
        for j in range(first, last):
            for entry in range(right.starts[j], right.starts[j + 1]):
                table[right.columns[entry], j - first] = 0
