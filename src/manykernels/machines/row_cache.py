"""Rows of kernels that were used last, in a store of fixed size: one cache for all who need one."""

import numpy as np


class RowCache:
    """The most recently used rows; whoever holds one computes those that are missing.

    Compiled loops read ``store[slots[i]]`` and write when they did so into ``stamps[slots[i]]``.

    Parameters
    ----------
    capacity : int
        Rows that fit.
    count : int
        Rows that there are.
    shape : tuple
        Of one row.
    dtype : dtype

    Attributes
    ----------
    store : (capacity, *shape)
    slots : (count,) int
        Where a row lies in the store; -1 if it is not there.
    stamps : (capacity,) int
        When each place of the store was last used; -1 if never.
    """

    def __init__(self, capacity, count, shape, dtype):
        self.store = np.empty((capacity, *shape), dtype=dtype)
        self.slots, self.stamps = np.full(count, -1), np.full(capacity, -1)
        self._owners = np.full(capacity, -1)

    @property
    def capacity(self):
        return self.stamps.size

    def missing(self, wanted, clock):
        """Those of the wanted rows that are not here; the others count as used now."""
        here = self.slots[wanted] >= 0
        self.stamps[self.slots[wanted[here]]] = clock
        return wanted[~here]

    def keep(self, chosen, rows, clock):
        """Put rows in the places of those that were used longest ago, as many as fit beside the
        rows that are used now.
        """
        places = np.argsort(self.stamps, kind="stable")[: chosen.size]
        places = places[self.stamps[places] < clock]
        chosen, rows = chosen[: places.size], rows[: places.size]
        evicted = self._owners[places]
        self.slots[evicted[evicted >= 0]] = -1
        self.store[places] = rows
        self._owners[places], self.slots[chosen] = chosen, places
        self.stamps[places] = clock
