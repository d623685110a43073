"""Columns of all kernels, kept while they are in use."""

from functools import cached_property

import numpy as np

from ..banks.base import SumBank
from ..machines.blocked import RowCache


class Columns:
    """The column of every kernel at a point, for the rows of some points (the layout); the most
    recently used ones are kept.

    Parameters
    ----------
    bank : SumBank
    layout : (a,) indices of points
    budget : int
        Bytes for the columns.

    Attributes
    ----------
    cache : RowCache
        What compiled loops read and stamp; rows are places in the layout.
    """

    # Columns computed together: the missing one and the likeliest next. Larger: fewer calls of the
    # bank, and more columns that nobody asks for.
    together = 8

    def __init__(self, bank: SumBank, layout: np.ndarray, budget: int) -> None:
        self.bank, self.layout = bank, layout
        fitting = budget // (bank.m * layout.size * bank.dtype.itemsize)
        capacity = int(np.clip(fitting, 2, layout.size))
        self.cache = RowCache(capacity, layout.size, (bank.m, layout.size), bank.dtype)

    @cached_property
    def diagonals(self) -> np.ndarray:
        """Diagonals of all kernels, (m, a)."""
        return np.ascontiguousarray(self.bank.diagonal()[:, self.layout])

    def fetch(self, missing: int, likely: np.ndarray, clock: int) -> None:
        """Compute the column of a point and of the likeliest others that are not here; all by their
        place in the layout.
        """
        likely = likely[(self.cache.slots[likely] < 0) & (likely != missing)]
        most = max(1, min(self.together, self.cache.capacity - 1))
        self._load(np.append(missing, likely)[:most], clock)

    def provide(self, wanted: np.ndarray, clock: int) -> int:
        """Compute those of the wanted columns that are not here, and say how many; all of them must
        fit.
        """
        missing = self.cache.missing(wanted, clock)
        self._load(missing, clock)
        return missing.size

    def _load(self, wanted: np.ndarray, clock: int) -> None:
        rows = self.bank.kernel_rows(self.layout[wanted], self.layout)
        self.cache.keep(wanted, rows, clock)
