"""Functions of one pairwise number, looked up in a table: as many Gaussians as you like at the
price of two.

Each octave of the number ``t`` is cut into sixteen cells, and a function is a polynomial in each.
The cell is the exponent and the first four bits after it, as they stand in the floating-point
number, and the other bits are the place in the cell, from -1/2 to 1/2: there is no logarithm to
take. Numbers are clipped to the ends of the table. Polynomials are cubics for float32 and of degree
seven for float64; both loops are written out, since the compiler does not unroll them.

A sum of functions is the sum of their tables: `look_up`. Its transpose, `deposit`, sums the powers
of the place over weighted pairs, cell by cell; a product with the table of any function then gives
the weighted sum of that function.

Finding the cells is one loop, which the compiler vectorizes, and using them another, which it
cannot.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from .rbf import _row_size, fast

BITS = 4  # after the exponent that belong to the number of the cell


class Grid(NamedTuple):
    """The cells of a table: the first one's number, and the smallest and largest number in the
    table, in its dtype.
    """

    first: int
    lowest: float
    highest: float


@fast
def _locate_float32(row, grid, cells, places, size):
    bits = row.view(np.int32)
    for j in range(size):
        row[j] = min(max(row[j], grid.lowest), grid.highest)
    for j in range(size):
        cells[j] = (bits[j] >> np.int32(23 - BITS)) - grid.first
        places[j] = np.float32(bits[j] & np.int32((1 << (23 - BITS)) - 1)) * np.float32(
            2.0 ** (BITS - 23)
        ) - np.float32(0.5)


@fast
def _locate_float64(row, grid, cells, places, size):
    bits = row.view(np.int64)
    for j in range(size):
        row[j] = min(max(row[j], grid.lowest), grid.highest)
    for j in range(size):
        cells[j] = (bits[j] >> np.int64(52 - BITS)) - grid.first
        places[j] = (
            np.float64(bits[j] & np.int64((1 << (52 - BITS)) - 1)) * 2.0 ** (BITS - 52) - 0.5
        )


def locate(row, grid, cells, places, size):
    """Cell and place of each number of a row, which is clipped in place."""
    find = _locate_float32 if row.dtype == np.float32 else _locate_float64
    find(row, grid, cells, places, size)


@overload(locate)
def _locate(row, grid, cells, places, size):
    if row.dtype == types.float32:
        return lambda row, grid, cells, places, size: _locate_float32(
            row, grid, cells, places, size
        )
    return lambda row, grid, cells, places, size: _locate_float64(row, grid, cells, places, size)


@fast
def _look_up(table, cells, places, out, size):
    if table.shape[1] == 4:
        for j in range(size):
            c, z = np.uint64(cells[j]), places[j]
            out[j] += table[c, 0] + z * (table[c, 1] + z * (table[c, 2] + z * table[c, 3]))
    else:
        for j in range(size):
            c, z = np.uint64(cells[j]), places[j]
            high = table[c, 4] + z * (table[c, 5] + z * (table[c, 6] + z * table[c, 7]))
            out[j] += table[c, 0] + z * (
                table[c, 1] + z * (table[c, 2] + z * (table[c, 3] + z * high))
            )


@fast
def _deposit(cells, places, b, out, size):
    for j in range(size):
        c, z, w = np.uint64(cells[j]), np.float64(places[j]), np.float64(b[j])
        out[c, 0] += w
        w *= z
        out[c, 1] += w
        w *= z
        out[c, 2] += w
        w *= z
        out[c, 3] += w
        if out.shape[1] == 8:
            w *= z
            out[c, 4] += w
            w *= z
            out[c, 5] += w
            w *= z
            out[c, 6] += w
            w *= z
            out[c, 7] += w


@fast
def look_up(distances, table, grid, first, out):
    """``out[i, j] += g(distances[i, j])`` for ``j <= first + i``; table (cells, degree + 1). The
    distances are clipped.
    """
    cells, places = np.empty(out.shape[1], np.int32), np.empty(out.shape[1], out.dtype)
    for i in range(out.shape[0]):
        size = _row_size(first, i, out.shape[1])
        locate(distances[i], grid, cells, places, size)
        _look_up(table, cells, places, out[i], size)


@fast
def deposit(distances, B, grid, first, out):
    """``out[cell, r] += B[i, j] place^r`` over the pairs with ``j <= first + i``; out (cells,
    degree + 1) in float64.
    """
    cells, places = np.empty(B.shape[1], np.int32), np.empty(B.shape[1], distances.dtype)
    for i in range(B.shape[0]):
        size = _row_size(first, i, B.shape[1])
        locate(distances[i], grid, cells, places, size)
        _deposit(cells, places, B[i], out, size)


@fast
def deposit_rows(distances, beta, grid, out):
    """``out[t, i, cell, r] += beta[t, j] place(i, j)^r``; beta (t, c), out (t, rows, cells, degree
    + 1) in float64.
    """
    cells, places = np.empty(beta.shape[1], np.int32), np.empty(beta.shape[1], distances.dtype)
    for i in range(distances.shape[0]):
        locate(distances[i], grid, cells, places, beta.shape[1])
        for t in range(beta.shape[0]):
            _deposit(cells, places, beta[t], out[t, i], beta.shape[1])
