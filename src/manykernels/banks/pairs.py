"""Pairs of points in blocks."""

from typing import NamedTuple

import numpy as np

PAIRS = 512  # of a block
HELD = (
    2**26
    # bytes of arrays about pairs that are kept; if they are more, they are computed whenever their
    # block is asked for
)


class Block(NamedTuple):
    """Some pairs ``(rows[p], cols[p])``, their place among all, and arrays that describe them."""

    place: slice
    rows: np.ndarray
    cols: np.ndarray
    arrays: tuple


class Pairs:
    """All pairs (i, j) of so many rows and columns, or those below the diagonal, in blocks.

    Parameters
    ----------
    n_rows, n_cols : int
    triangle : bool
        Only pairs with ``i > j``, line by line as `numpy.tril_indices` has them.
    describe : callable
        ``describe(i, j)`` returns a tuple of arrays about the pairs of a block.
    uses : int
        How often every block is asked for; after the first time, if there is room, it is not
        computed again.
    """

    def __init__(self, n_rows, n_cols, triangle, describe, uses=2):
        self.triangle, self.n_cols, self.describe = triangle, n_cols, describe
        self.size = n_rows * (n_rows - 1) // 2 if triangle else n_rows * n_cols
        self._held = None
        if (
            uses > 1
            and self.size
            and sum(array.nbytes for array in self[0].arrays) * len(self) <= HELD
        ):
            self._held = [self[number] for number in range(len(self))]

    def __len__(self):
        return -(-self.size // PAIRS)

    def __iter__(self):
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number):
        if self._held is not None:
            return self._held[number]
        place = slice(number * PAIRS, min((number + 1) * PAIRS, self.size))
        i, j = self._indices(np.arange(place.start, place.stop))
        return Block(place, i, j, self.describe(i, j))

    def _indices(self, places):
        if not self.triangle:
            return np.divmod(places, self.n_cols)
        i = ((1.0 + np.sqrt(1.0 + 8.0 * places)) / 2.0).astype(np.intp)
        i -= i * (i - 1) // 2 > places  # rounding of the root
        return i, places - i * (i - 1) // 2
