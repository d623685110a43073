"""Tables of Gaussians of one distance (see `manykernels._loops.tables`)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._loops.tables import BITS, Grid
from ..._threads import Threads

# Degree of the polynomials, by precision: errors of 2e-8 and 2e-16. Higher ones take longer.
DEGREES = {np.dtype(np.float32): 3, np.dtype(np.float64): 7}
# log2 of the exponents that are as good as zero, and of those whose kernel is.
LOWEST_EXPONENTS = {np.dtype(np.float32): -31, np.dtype(np.float64): -56}
HIGHEST_EXPONENTS = {np.dtype(np.float32): 8, np.dtype(np.float64): 11}


@dataclass(frozen=True)
class Sizes:
    """Numbers of the tables.

    Attributes
    ----------
    negligible : float
        Coefficients of a polynomial, relative to the sum of the weights, that are taken for zero:
        arithmetic with denormal numbers is slow. With a larger one sums lose digits.
    held_entries : int
        Entries of the members' tables that are kept. More of them take more memory.
    entries_at_once : int
        Entries that are computed at a time, which take memory, too.
    rows_at_once : int
        Rows of a matrix that a thread fills at a time. With more of them there is less to share
        out.
    """

    negligible: float = 1e-25
    held_entries: int = 2**23
    entries_at_once: int = 2**21
    rows_at_once: int = 256


SIZES = Sizes()


class GaussianTable:
    """Gaussians ``2^-(factors[l] t)`` of one number t as polynomials on the cells of a table.

    Parameters
    ----------
    factors : (members,) array, at least one
    dtype : float32 or float64
    """

    def __init__(self, factors: np.ndarray, dtype: Any) -> None:
        dtype = np.dtype(dtype)
        self.factors, self.dtype, self.degree = (
            np.asarray(factors, dtype=float),
            dtype,
            DEGREES[dtype],
        )
        start = np.floor(LOWEST_EXPONENTS[dtype] - np.log2(self.factors.max()))
        stop = HIGHEST_EXPONENTS[dtype]
        ends = np.nextafter(np.exp2([start, stop]).astype(dtype), dtype.type(0.0))
        ends[0] = np.exp2(start)
        whole, mantissa = (np.int32, 23) if dtype == np.float32 else (np.int64, 52)
        first, last = (ends.view(whole) >> (mantissa - BITS)).tolist()
        self.grid = Grid(first, ends[0], ends[1])
        self.cells = last - first + 1
        octaves, steps = np.divmod(np.arange(self.cells), 2**BITS)
        left = np.exp2(start + octaves) * (1.0 + steps / 2**BITS)
        widths = np.exp2(start + octaves - BITS)
        places = -0.5 * np.cos(np.pi * (np.arange(self.degree + 1) + 0.5) / (self.degree + 1))
        self.nodes = left[:, None] + widths[:, None] * (0.5 + places)
        self._calls = 0
        self._rates = -np.log(2.0) * self.factors  # numpy's exp is vectorized, its exp2 is not
        # values at the nodes of a cell to coefficients
        self._to_powers = np.linalg.inv(np.vander(places, increasing=True))

    @staticmethod
    def covers(factors: np.ndarray, dtype: Any) -> bool:
        """True if the range of the factors leaves room for the cells: below the normal numbers
        there are none.
        """
        return (
            LOWEST_EXPONENTS[np.dtype(dtype)] - np.log2(factors.max()) > np.finfo(dtype).minexp + 1
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_held"}

    def table(self, weights: np.ndarray) -> Any:
        """The table of ``sum_l weights[l] 2^-(factors[l] t)``."""
        used = np.flatnonzero(weights)
        self._calls += 1
        if self._calls > 1 and self._held is not None:
            values = weights @ self._held
        # the first time, and for prediction there is no other, it does not pay to hold anything
        else:
            values = sum(
                (weights[used[part]] @ some for part, some in self._values(self.nodes, used)),
                np.zeros(self.nodes.size),
            )
        table = values.reshape(self.nodes.shape) @ self._to_powers.T
        table[np.abs(table) < SIZES.negligible * np.abs(weights).sum()] = (
            0.0  # denormal numbers make the loops five times slower
        )
        return np.ascontiguousarray(table, dtype=self.dtype)

    def gather(self, moments: np.ndarray) -> Any:
        """The sums for each member, (members, ...), of those that `deposit` made, (..., cells,
        degree + 1).
        """
        used = np.flatnonzero(moments.any(axis=(*range(moments.ndim - 2), moments.ndim - 1)))
        at_nodes = (moments[..., used, :] @ self._to_powers).reshape(*moments.shape[:-2], -1)
        out = np.empty((self.factors.size, *moments.shape[:-2]))
        for part, values in self._values(self.nodes[used]):
            out[part] = np.tensordot(values, at_nodes, (1, -1))
        return out

    def swept(
        self,
        cells: Any,
        moments: np.ndarray,
        diagonal: np.ndarray,
        vector: np.ndarray,
        threads: Threads,
    ) -> Any:
        """``sum_l diagonal[l] outer(M_lc, M_le)``, (t, t, n, n), and ``sum_l vector[l] M_lc``, (t,
        n), over the members.

        M_lc are what `gather` would give of the moments (t, n, cells, degree + 1), of some cells;
        the first sum is in the table's precision.
        """
        at_nodes = (moments @ self._to_powers).reshape(*moments.shape[:2], -1)
        inner, mixed = 0.0, 0.0
        for part, values in self._values(self.nodes[cells]):
            inner = inner + (values.T * diagonal[part]) @ values
            mixed = mixed + vector[part] @ values
        half, whole = ((at_nodes @ inner).astype(self.dtype), at_nodes.astype(self.dtype))
        t, n = whole.shape[:2]
        squares = np.empty((t, t, n, n), self.dtype)

        def fill(start):
            for c in range(t):
                for e in range(t):
                    np.matmul(
                        half[c, start : start + SIZES.rows_at_once],
                        whole[e].T,
                        out=squares[c, e, start : start + SIZES.rows_at_once],
                    )

        threads.map(fill, range(0, n, SIZES.rows_at_once))
        return squares, at_nodes @ mixed

    def _values(self, nodes: Any, members: Any = slice(None)) -> Iterator[Any]:
        """Some of the members at a time, with their values at some nodes."""
        t, rates = nodes.ravel(), self._rates[members]
        step = max(1, SIZES.entries_at_once // max(t.size, 1))
        for start in range(0, rates.size, step):
            part = slice(start, start + step)
            yield part, np.exp(rates[part, None] * t)

    @cached_property
    def _held(self) -> Any:
        if self.factors.size * self.nodes.size > SIZES.held_entries:
            return None
        return np.exp(self._rates[:, None] * self.nodes.ravel())
