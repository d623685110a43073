"""Squared distances of points whose features are 0 or 1: the number of bits that differ."""

import numpy as np
from numba import types
from numba.extending import intrinsic

from .rbf import fast


@intrinsic
def _ones(typing_context, word):
    """The number of bits that are one, which is an instruction of the processor."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@fast
def differing_bits(left, right, unit, out):
    """``out[i, j] = unit * (bits in which left[i] and right[:, j] differ)``; uint64, left (b,
    words), right (words, c).
    """
    counts = np.empty(out.shape[1], np.uint64)
    for i in range(out.shape[0]):
        counts[:] = 0
        for w in range(right.shape[0]):
            word, others = left[i, w], right[w]
            for j in range(counts.size):
                counts[j] += _ones(word ^ others[j])
        for j in range(counts.size):
            out[i, j] = unit * np.float64(np.int64(counts[j]))


def packed(X):
    """Rows of zeros and ones as rows of 64-bit words."""
    octets = np.packbits(X.astype(bool), axis=1)
    padded = np.pad(octets, ((0, 0), (0, -octets.shape[1] % 8)))
    return np.ascontiguousarray(padded).view(np.uint64)  # columns of a table come in any order
