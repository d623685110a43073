"""A working-set method for kernels that do not fit into memory."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from .._loops.smo import smo
from .._pulse import pulse
from .._threads import Threads
from ..losses import Box
from . import curved
from .base import Machine

SIZE = 512  # points in the working set
# Columns that are copied, and turned into float64, at a time: more take more memory.
COLUMNS_PER_PRODUCT = 1024
# Violation of a working set that costs next to nothing: with a larger one, the answer for a loss
# with a curve may be worse than none.
CLOSE_VIOLATION = 1e-3


class CombinedRows(Protocol):
    """The part of a `manykernels.banks.base.Bank` that `KernelRows` asks for."""

    n: int
    dtype: np.dtype
    threads: Threads

    def combine(self, weights: np.ndarray, rows: np.ndarray) -> np.ndarray: ...

    def combined_diagonal(self, weights: np.ndarray) -> np.ndarray: ...


class Rows(NamedTuple):
    """Some rows of a kernel, where they lie: row i is ``matrix[places[i]]``."""

    matrix: np.ndarray
    places: np.ndarray
    threads: Threads

    def square(self, columns: np.ndarray) -> np.ndarray:
        """These rows at some columns."""
        return self.matrix[self.places[:, None], columns]

    def sums(self, coefficients: np.ndarray) -> np.ndarray:
        """The sum of the rows, each times its coefficient, in float64."""
        moved = np.flatnonzero(coefficients)
        coefficients, places = coefficients[moved], self.places[moved]
        out = np.empty(self.matrix.shape[1])
        step = COLUMNS_PER_PRODUCT

        def fill(part: slice) -> None:
            out[part] = coefficients @ self.matrix[places, part]

        self.threads.map(
            fill, [slice(start, min(start + step, out.size)) for start in range(0, out.size, step)]
        )
        return out


class KernelRows:
    """Rows of a combined kernel on demand, the most recently used ones kept.

    Parameters
    ----------
    bank : Bank
    weights : (m,) array
    budget : int
        Bytes for the rows that are kept.
    """

    def __init__(self, bank: CombinedRows, weights: np.ndarray, budget: int) -> None:
        self.bank, self.weights, self.n = bank, weights, bank.n
        self.diagonal = bank.combined_diagonal(weights)
        capacity = int(min(bank.n, budget // (bank.n * bank.dtype.itemsize)))
        self._cache, self._clock = RowCache(capacity, bank.n, (bank.n,), bank.dtype), 0
        self.computed = 0

    @property
    def capacity(self) -> int:
        """Number of rows that are kept."""
        return self._cache.capacity

    def rows(self, chosen: np.ndarray) -> Rows:
        """The chosen rows, as `Rows`; good until the next call."""
        self._clock += 1
        cache, missing = self._cache, self._cache.missing(chosen, self._clock)
        if missing.size:
            fresh = self.bank.combine(self.weights, missing)
            self.computed += missing.size
            cache.keep(missing, fresh, self._clock)
        slots = cache.slots[chosen]
        if (slots >= 0).all():
            return Rows(cache.store, slots, self.bank.threads)
        known = ~np.isin(chosen, missing)
        out = np.empty((chosen.size, self.n), dtype=self.bank.dtype)
        out[known], out[~known] = cache.store[slots[known]], fresh
        return Rows(out, np.arange(chosen.size), self.bank.threads)


class BlockedMachine(Machine):
    """SMO on a working set of the worst violators, whose rows are computed together.

    Half of the set is renewed each time; the rest are points of the last sets, which keeps pairs
    that pull at each other from alternating.

    Parameters
    ----------
    size : int, optional
        Points in the working set.
    """

    def __init__(self, size: int | None = None) -> None:
        self.size = size or SIZE

    def multiply(self, kernel: KernelRows, beta: np.ndarray) -> np.ndarray:
        out = np.zeros(beta.size)
        support = np.flatnonzero(beta)
        for start in range(0, support.size, self.size):
            part = support[start : start + self.size]
            out += kernel.rows(part).sums(beta[part])
        return out

    def ascend(
        self,
        kernel: KernelRows,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        tol: float,
        max_steps: int,
    ) -> tuple[int, float]:
        done, working_set = 0, np.empty(0, dtype=np.intp)
        while True:
            pulse()
            up, down = box.sides(beta, F)
            violation = max(0.0, float(up.max() - down.min()))
            if violation < tol or done >= max_steps:
                return done, violation
            working_set = self._choose(up, down, working_set)
            rows = kernel.rows(working_set)
            inner = max(0.5 * tol, 0.1 * violation)
            if box.curve is not None:
                inner = min(inner, max(0.5 * tol, CLOSE_VIOLATION))
            done += self._improve(
                rows, kernel.diagonal[working_set], box, beta, F, working_set, inner
            )

    def _choose(self, up: np.ndarray, down: np.ndarray, previous: np.ndarray) -> np.ndarray:
        """The worst violators in both directions, filled up with the latest of the previous set."""
        each = min(self.size // (2 if previous.size == 0 else 4), up.size // 2 or 1)
        worst_up = np.argpartition(-up, each - 1)[:each]
        worst_down = np.argpartition(down, each - 1)[:each]
        chosen = np.union1d(
            worst_up[np.isfinite(up[worst_up])], worst_down[np.isfinite(down[worst_down])]
        )
        kept = previous[~np.isin(previous, chosen)][: self.size - chosen.size]
        return np.concatenate([chosen, kept])

    @staticmethod
    def _improve(
        rows: Rows,
        diagonal: np.ndarray,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        chosen: np.ndarray,
        tol: float,
    ) -> int:
        """Solve for the working set; F follows. Returns the steps that it took."""
        square = rows.square(chosen)
        part, gradient = beta[chosen], F[chosen]
        limit = 100 * chosen.size
        bounds = box.bounds(chosen)
        if box.curve is not None:
            alone = box.take_points(chosen)._replace(total=part.sum())
            steps, _ = curved.ascend(square, alone, part, gradient, tol, limit)
        else:
            steps, _ = smo(square, diagonal + bounds.ridge, bounds, part, gradient, tol, limit)
        change = part - beta[chosen]
        F += rows.sums(change)
        F[chosen] += bounds.ridge * change
        beta[chosen] = part
        return max(steps, 1)


# --- a cache of the rows of kernels that were used last -------------------------------------------


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

    def __init__(self, capacity: int, count: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.store = np.empty((capacity, *shape), dtype=dtype)
        self.slots, self.stamps = np.full(count, -1), np.full(capacity, -1)
        self._owners = np.full(capacity, -1)

    @property
    def capacity(self) -> int:
        return self.stamps.size

    def missing(self, wanted: np.ndarray, clock: int) -> np.ndarray:
        """Those of the wanted rows that are not here; the others count as used now."""
        here = self.slots[wanted] >= 0
        self.stamps[self.slots[wanted[here]]] = clock
        return wanted[~here]

    def keep(self, chosen: np.ndarray, rows: np.ndarray, clock: int) -> None:
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
