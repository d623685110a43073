"""A 64-bit number for every row of a table, the same for equal rows."""

import numpy as np

from .jit import cached_njit

# constants of SplitMix64; literals would make floating-point numbers of the sums
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
THIRTY, TWENTY_SEVEN, THIRTY_ONE = np.uint64(30), np.uint64(27), np.uint64(31)
ONE, ZERO = np.uint64(1), np.uint64(0)
SIGNLESS, INFINITE = np.uint64(0x7FFFFFFFFFFFFFFF), np.uint64(0x7FF0000000000000)
NAN = np.uint64(0x7FF8000000000000)  # one of many

whole = cached_njit()  # numbers are taken for their bits, of which NaN has some


@whole
def _scrambled(x):
    x = (x ^ (x >> THIRTY)) * FIRST
    x = (x ^ (x >> TWENTY_SEVEN)) * SECOND
    return x ^ (x >> THIRTY_ONE)


@whole
def add_keys(bits, salts, out):
    """``out[i] += sum_j scramble(bits[i, j] + salts[j])`` over the entries of a row that are not
    zero, for the bits of floating-point numbers; all NaN are the same.
    """
    for i in range(bits.shape[0]):
        key = ZERO
        for j in range(bits.shape[1]):
            number = bits[i, j]
            if number << ONE != ZERO:
                number = NAN if (number & SIGNLESS) > INFINITE else number
                key += _scrambled(number + salts[j])
        out[i] += key
