"""Weighted sums of matrices that are in memory."""

from .rbf import fast

ENTRIES_PER_BLOCK = 4096  # entries of a sum that stay in cache while all matrices are added to them


@fast
def add_weighted(matrices, weights, used, start, stop, out):
    """``out[start:stop] = sum_k weights[k] matrices[k, start:stop]`` over the used k.

    Parameters
    ----------
    matrices : (m, entries) array
    weights : (m,) array of the same type
    used : (s,) int
    out : (entries,) array
    """
    for first in range(start, stop, ENTRIES_PER_BLOCK):
        line = out[first : min(first + ENTRIES_PER_BLOCK, stop)]
        line[:] = 0.0
        for k in used:
            row, weight = matrices[k, first : first + line.size], weights[k]
            for j in range(line.size):
                line[j] += weight * row[j]


@fast
def add_spread(K, rows, cols, left, right, out):
    """``out[rows[i], cols[j]] += left[i] right[j] K[i, j]``.

    Parameters
    ----------
    K : (p, q) array
    rows, cols : (p,) and (q,) int
    left, right : (p,) and (q,) arrays of the same type
    out : array of the same type
    """
    for i in range(rows.size):
        line, factor = out[rows[i]], left[i]
        for j in range(cols.size):
            line[cols[j]] += factor * right[j] * K[i, j]
