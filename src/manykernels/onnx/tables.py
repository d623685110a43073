"""Functions of one column as polynomials on short intervals.

Gaussians of a single column add up to a smooth function of it, however many support vectors there
are. On intervals of a quarter of their width a polynomial of degree 7 is that function to
twelve digits, and a graph looks it up in the time that a few of the Gaussians would take.
"""

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

# Coefficients of a polynomial. With fewer of them intervals must be shorter.
ORDER = 8
# Length of an interval, in standard deviations of the Gaussians. The error grows with its
# eighth power, and is 1e-12 of the sum of all coefficients here.
LENGTH = 0.25
# Exponent beyond which a Gaussian is zero beside the others.
FARTHEST = 36.0
# Intervals of a column: a function that needs more is computed as a sum of Gaussians.
MOST_INTERVALS = 4096


class Table(NamedTuple):
    """A function of one number with t values.

    Attributes
    ----------
    start : float
        Where the first interval begins; before it, and after the last one, the function is zero.
    length : float
        Of an interval.
    polynomials : (ORDER, intervals, t) array
        Coefficients of ``1, u, u^2, …`` with u from -1 to 1 on each interval.
    """

    start: float
    length: float
    polynomials: np.ndarray


def gaussian_table(gamma, points, coefficients) -> Table | None:
    """The table of ``sum_j coefficients[:, j] exp(-gamma (x - points[j])^2)``; None if it would be
    too long.

    Parameters
    ----------
    gamma : float
    points : (s,) array
    coefficients : (t, s) array
    """
    length, margin = LENGTH / np.sqrt(2.0 * gamma), np.sqrt(FARTHEST / gamma)
    start, end = points.min() - margin, points.max() + margin
    if not end - start <= MOST_INTERVALS * length:
        return None
    count = max(1, int(np.ceil((end - start) / length)))
    # interpolation at Chebyshev's points, interval by interval: all at once take much memory
    places = np.cos(np.pi * (np.arange(ORDER) + 0.5) / ORDER)
    inverse = np.linalg.inv(np.vander(places, increasing=True))
    polynomials = np.empty((ORDER, count, len(coefficients)))
    for interval in range(count):
        x = start + length * (interval + 0.5 * (places + 1.0))
        values = np.exp(-gamma * (x[:, None] - points) ** 2) @ coefficients.T
        polynomials[:, interval] = inverse @ values
    return Table(start, length, polynomials)


def write_tables(nodes, x, tables) -> str:
    """The sum of functions of one column each, (n, t).

    Parameters
    ----------
    nodes : Nodes
    x : name of an (n, d) array
    tables : sequence of Table
        One for each column of x.
    """
    starts = np.array([table.start for table in tables])
    lengths = np.array([table.length for table in tables])
    counts = np.array([table.polynomials.shape[1] for table in tables])
    first = np.cumsum(counts) - counts
    x = nodes("Mul", nodes("Sub", x, starts), 1.0 / lengths)
    # whoever is outside is at the end
    x = nodes("Min", nodes("Max", x, np.array(0.0)), counts.astype(float))
    interval = nodes("Min", nodes("Floor", x), counts - 1.0)
    # the place of NaN is none of the table; its polynomial is NaN wherever it is looked up
    known = nodes("Where", nodes("IsNaN", interval), np.array(0.0), interval)
    place = nodes.cast(nodes("Add", known, first.astype(float)), TensorProto.INT64)
    u = nodes("Sub", nodes("Mul", nodes("Sub", x, interval), np.array(2.0)), np.array(1.0))
    u = nodes("Unsqueeze", u, np.array([2]))
    for power in reversed(range(ORDER)):
        stacked = np.concatenate([table.polynomials[power] for table in tables])
        coefficient = nodes("Gather", stacked, place, axis=0)  # (n, columns, t)
        if power == ORDER - 1:
            value = coefficient
        else:
            value = nodes("Add", nodes("Mul", value, u), coefficient)
    return nodes.total(value, 1)
