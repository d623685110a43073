"""Columns of all kernels, kept while they are in use."""

from functools import cached_property

import numpy as np

BATCH = 8  # columns computed together: the one that is missing and the likeliest next


class Columns:
    """The column of every kernel at a point, for the rows of some points (the layout); the most
    recently used ones are kept.

    Parameters
    ----------
    bank : Bank
    layout : (a,) indices of points
    budget : int
        Bytes for the columns.
    """

    def __init__(self, bank, layout, budget):
        self.bank, self.layout = bank, layout
        capacity = int(
            np.clip(budget // (bank.m * layout.size * bank.dtype.itemsize), 2, layout.size)
        )
        self.store = np.empty((capacity, bank.m, layout.size), dtype=bank.dtype)
        self.slots = np.full(layout.size, -1)
        self.stamps = np.full(capacity, -1)
        self._owners = np.full(capacity, -1)

    @cached_property
    def diagonals(self):
        """Diagonals of all kernels, (m, a)."""
        return np.ascontiguousarray(self.bank.diagonal()[:, self.layout])

    def fetch(self, missing, likely, clock):
        """Compute the column of a point and of the likeliest others that are not here; all by their
        place in the layout.
        """
        likely = likely[(self.slots[likely] < 0) & (likely != missing)]
        self._load(np.append(missing, likely)[: max(1, min(BATCH, self.stamps.size - 1))], clock)

    def provide(self, wanted, clock):
        """Compute those of the wanted columns that are not here; all of them must fit."""
        here = self.slots[wanted] >= 0
        self.stamps[self.slots[wanted[here]]] = clock
        self._load(wanted[~here], clock)

    def _load(self, wanted, clock):
        """Columns that are not here, in the places of those that were used longest ago."""
        places = np.argsort(self.stamps, kind="stable")[: wanted.size]
        evicted = self._owners[places]
        self.slots[evicted[evicted >= 0]] = -1
        self.store[places] = self.bank.kernel_rows(self.layout[wanted], self.layout)
        self._owners[places], self.slots[wanted] = wanted, places
        self.stamps[places] = clock
