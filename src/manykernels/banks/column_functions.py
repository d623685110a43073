"""Functions of one column as piecewise polynomials, for predictions of many rows.

What the Gaussians of one column add to a decision value is a function of that column's entry alone,
``f(x) = sum_k w_k sum_i beta_i exp(-gamma_k (x - x_i)^2)``. It is interpolated at Chebyshev nodes
on cells so narrow that rounding is larger than the error: with n nodes on a cell of width h, the
error of a Gaussian is at most ``2.2 (h sqrt(gamma) / 4)^n sqrt(2^n / n!)`` (Cramer's inequality for
its n-th derivative), which is 7e-16 for NODES and WIDTH below. A row then costs a polynomial for
each column, whatever the number of support vectors and of widths.
"""

from typing import Any

import numpy as np

NODES, WIDTH = 24, 2.0  # nodes of a cell, and its width in units of 1 / sqrt(gamma)
# Part of the range of the support vectors that cells reach beyond it: rows further out are computed
# as sums. With more of it fewer are, and there are more cells.
MARGIN = 0.1
# Cells of a column at most: with more of them, columns with far outliers are tabulated, too.
MOST_CELLS = 64
# Values at pairs of points that are computed together: more do not stay in cache.
BLOCK = 2**16


class ColumnFunctions:
    """The sums of Gaussians of some columns.

    Parameters
    ----------
    members : (L,) int
        The places of the kernels in their bank.
    columns : (L,) int
        The column of each kernel.
    rates : (L,) array
        Each kernel's ``-gamma``.
    weights : (t, L) array
        For each output.
    points : (F, s) array
        The distinct columns, in ascending order, at the support vectors.
    beta : (t, s) array

    Attributes
    ----------
    members : array of int
        Places of the kernels whose columns have few enough cells: the sums are of these alone.
    nodes : int
        Nodes of the column that has most; a table costs as much as so many rows.
    """

    def __init__(
        self, members: Any, columns: Any, rates: Any, weights: Any, points: Any, beta: Any
    ) -> None:
        distinct, slot = np.unique(columns, return_inverse=True)
        low, high = points.min(axis=1), points.max(axis=1)
        narrowest = np.zeros(distinct.size)
        np.maximum.at(narrowest, slot, np.sqrt(-rates))
        spans = (1.0 + 2.0 * MARGIN) * (high - low)
        cells = np.ceil(spans * narrowest / WIDTH)
        few = cells <= MOST_CELLS
        self.columns, self.cells = distinct[few], np.maximum(cells[few], 1.0).astype(int)
        self.low = (low - MARGIN * (high - low))[few]
        self.sizes = np.where(spans > 0.0, spans, 1.0)[few] / self.cells
        self.nodes = NODES * int(self.cells.max(initial=0))
        kept = few[slot]
        self.members, self.beta = members[kept], beta
        self._points, self._of_kernels = points[few], (columns[kept], rates[kept], weights[:, kept])
        self._tables: list[np.ndarray] | None = None

    def _table(self, place: int) -> np.ndarray:
        """Chebyshev coefficients of the functions of a column, (NODES, t, cells)."""
        angles = np.pi * (np.arange(NODES) + 0.5) / NODES
        count = self.cells[place]
        middles = self.low[place] + self.sizes[place] * (np.arange(count) + 0.5)
        x = middles[:, None] + 0.5 * self.sizes[place] * np.cos(angles)
        values = self._sums(place, x.ravel()).reshape(-1, count, NODES)
        transform = 2.0 / NODES * np.cos(np.outer(angles, np.arange(NODES)))
        transform[:, 0] *= 0.5
        return np.ascontiguousarray(np.moveaxis(values @ transform, 2, 0))

    def _sums(self, place: int, x: np.ndarray) -> np.ndarray:
        """The functions of a column as sums over the support vectors, (t, x.size)."""
        (columns, rates, weights), points = self._of_kernels, self._points[place]
        members = np.flatnonzero(columns == self.columns[place])
        out, step = np.zeros((len(self.beta), x.size)), max(1, BLOCK // points.size)
        for start in range(0, x.size, step):
            part = slice(start, start + step)
            squares = np.square(points - x[part, None])
            for k in members:
                out[:, part] += weights[:, k, None] * (self.beta @ np.exp(rates[k] * squares).T)
        return out

    def add(self, X: np.ndarray, out: np.ndarray) -> None:
        """Add the functions at some rows to decision values, (t, n_new)."""
        tables = self._tables
        if tables is None:  # threads that come here at once make the same ones
            tables = self._tables = [self._table(place) for place in range(self.columns.size)]
        with np.errstate(over="ignore", under="ignore"):
            for place, f in enumerate(self.columns):
                self._add_column(place, X[:, f], tables[place], out)

    def _add_column(self, place: int, x: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
        where = (x - self.low[place]) / self.sizes[place]
        inside = (where >= 0.0) & (where <= self.cells[place])
        cell = np.clip(where, 0.0, self.cells[place] - 1).astype(np.intp)
        u = np.where(inside, 2.0 * (where - cell) - 1.0, 0.0)
        second, last = np.zeros((2, len(out), x.size))
        for coefficients in table[:0:-1]:  # Clenshaw's recurrence
            second, last = last, 2.0 * u * last - second + coefficients[:, cell]
        found = u * last - second + table[0][:, cell]
        outside = np.flatnonzero(~inside)
        found[:, outside] = self._sums(place, x[outside])
        out += found
