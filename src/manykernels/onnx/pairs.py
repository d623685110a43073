"""Kernels of pairs of points, a row and a support vector, as nodes."""

from collections import defaultdict
from math import comb
from typing import Any, NamedTuple

import numpy as np

from ..kernels import RBF, Laplacian, Polynomial
from .inputs import Columns
from .nodes import Nodes
from .tables import gaussian_table, write_tables

# Sets of columns whose kernels have nodes of their own. Of more, runtimes would take long to load
# the graph: they come one after the other in a loop, where each takes a little longer.
MOST_SETS = 32


class Summand(NamedTuple):
    """A kernel with coefficients: ``sum_j coefficients[:, j] kernel(factors * x, points[j])``.

    Attributes
    ----------
    kernel : Kernel
    columns : (d,) int
        That it sees.
    points : (s, d) array
    coefficients : (t, s) array
    factors : (d,) array, optional
        Of the columns.
    is_scaled_by_row : bool
        Whether it is divided by the root of its diagonal at x.
    """

    kernel: Any
    columns: np.ndarray
    points: np.ndarray
    coefficients: np.ndarray
    factors: np.ndarray | None = None
    is_scaled_by_row: bool = False


def write_gaussians(nodes: Nodes, columns: Columns, summands: list[Summand]) -> list[str]:
    """Arrays (n, t) that add up to Gaussians: those of one column are functions of it."""
    tables, others = [], []
    for one in summands:
        table = None
        if one.columns.size == 1 and one.factors is None:
            table = gaussian_table(one.kernel.gamma, one.points[:, 0], one.coefficients)
        if table is None:
            others.append(one)
        else:
            tables.append((one.columns[0], table))
    parts = write_pairs(nodes, columns, others)
    if tables:
        places, functions = zip(*tables, strict=True)
        parts.append(write_tables(nodes, columns.seen(nodes, np.array(places)), functions))
    return parts


def write_polynomials(nodes: Nodes, columns: Columns, summands: list[Summand]) -> list[str]:
    """Arrays (n, t) that add up to polynomials: those of one column are sums of its powers."""
    alone = [one for one in summands if one.columns.size == 1 and not one.is_scaled_by_row]
    others = [one for one in summands if one.columns.size > 1 or one.is_scaled_by_row]
    return write_pairs(nodes, columns, others) + (_powers(nodes, columns, alone) if alone else [])


def _powers(nodes, columns, summands):
    """``(gamma x y + c)^p`` is the sum of ``comb(p, j) gamma^j c^(p-j) y^j x^j``."""
    used = np.unique([one.columns[0] for one in summands])
    highest, outputs = max(one.kernel.degree for one in summands), len(summands[0].coefficients)
    sums = np.zeros((highest + 1, used.size, outputs))
    for one in summands:
        gamma, offset, degree = _parameters(one.kernel)
        for j in range(one.kernel.degree + 1):
            factor = comb(one.kernel.degree, j) * gamma**j * offset ** (degree - j)
            own = factor * one.coefficients @ one.points[:, 0] ** j
            sums[j, np.searchsorted(used, one.columns[0])] += own
    x = columns.seen(nodes, used)
    parts = [
        nodes("MatMul", nodes("Pow", x, np.array(float(j))), sums[j]) for j in range(1, highest + 1)
    ]
    return [nodes("Add", nodes.summed(parts), sums[0].sum(axis=0))]


def write_pairs(nodes: Nodes, columns: Columns, summands: list[Summand]) -> list[str]:
    """Arrays (n, t) that add up to kernels of one kind; those that see the same columns share their
    distances or dot products.
    """
    groups: dict[Any, list[Summand]] = defaultdict(list)
    for one in summands:
        factors = b"" if one.factors is None else one.factors.tobytes()
        groups[one.columns.tobytes(), one.points.tobytes(), factors].append(one)
    if len(groups) > MOST_SETS:
        points = _common_points(summands, columns.count)
        if points is not None:
            return [_loop(nodes, columns, summands, points)]
    return [part for some in groups.values() for part in _group(nodes, columns, some)]


def _group(nodes, columns, summands):
    """Kernels of the same points and columns."""
    first = summands[0]
    x, points = columns.seen(nodes, first.columns), first.points
    x = x if first.factors is None else nodes("Mul", x, first.factors)
    if type(first.kernel) is RBF:
        center = _center(points)
        x, points = nodes("Sub", x, center), points - center
    pairs, parts = _pairs(nodes, type(first.kernel), x, points.T), []
    for one in summands:
        parameters = [np.array(value) for value in _parameters(one.kernel)]
        values = _values(nodes, type(one.kernel), pairs, *parameters)
        part = nodes("MatMul", values, one.coefficients.T)
        if one.is_scaled_by_row:  # only polynomials are
            diagonal = _values(nodes, Polynomial, squares(nodes, x), *parameters)
            part = nodes("Mul", part, inverse_roots(nodes, diagonal))
        parts.append(part)
    return parts


def _center(points):
    """The middle of the points: measured from far away, small distances would lose their digits."""
    return points.mean(axis=0)


def _pairs(nodes, kind, x, points):
    """Distances or dot products of rows (n, d) and points (d, s), an array or a name."""
    if kind is Laplacian:
        return differences(nodes, x, points)
    dots = nodes("MatMul", x, points)
    if kind is Polynomial:
        return dots
    if isinstance(points, str):
        norms = nodes.total(nodes("Mul", points, points), 0)
    else:
        norms = np.square(points).sum(axis=0)
    norms = nodes("Add", squares(nodes, x), norms)
    # rounding can make a squared distance negative
    squared = nodes("Sub", norms, nodes("Mul", dots, np.array(2.0)))
    return nodes("Max", squared, np.array(0.0))


def differences(nodes: Nodes, x: str, points: Any) -> str:
    """Sums of absolute differences of rows (n, d) and points (d, s), an array or a name."""
    points = nodes("Unsqueeze", points, np.array([0]))
    apart = nodes("Abs", nodes("Sub", nodes("Unsqueeze", x, np.array([2])), points))
    return nodes.total(apart, 1)


def _parameters(kernel):
    """Factor, offset and degree of a polynomial; of others the factor in the exponent."""
    if type(kernel) is Polynomial:
        return float(kernel.gamma), float(kernel.coef0), float(kernel.degree)
    return (-float(kernel.gamma),)


def _values(nodes, kind, pairs, factor, offset=None, degree=None):
    """Values of a kernel, from distances or dot products."""
    scaled = nodes("Mul", pairs, factor)
    if kind is Polynomial:
        return nodes("Pow", nodes("Add", scaled, offset), degree)
    return nodes("Exp", scaled)


def squares(nodes: Nodes, x: str) -> str:
    """Squared lengths of rows, (n, 1)."""
    return nodes.total(nodes("Mul", x, x), 1, keepdims=True)


def inverse_roots(nodes: Nodes, diagonal: str) -> str:
    """One over the root of each entry, zero for zero."""
    positive = nodes("Greater", diagonal, np.array(0.0))
    roots = nodes("Sqrt", nodes("Where", positive, diagonal, np.array(1.0)))
    return nodes("Where", positive, nodes("Reciprocal", roots), np.array(0.0))


# --- many sets of columns: one kernel after the other ---------------------------------------------


def _common_points(summands, count):
    """The points (s, count) of which all kernels see some columns; None if they have others."""
    points = np.full((len(summands[0].points), count), np.nan)
    for one in summands:
        if len(one.points) != len(points) or one.factors is not None or one.is_scaled_by_row:
            return None
        seen = points[:, one.columns]
        if not (np.isnan(seen) | (seen == one.points)).all():
            return None
        points[:, one.columns] = one.points
    return points


def _loop(nodes, columns, summands, points):
    kind, used = type(summands[0].kernel), np.flatnonzero(~np.isnan(points[0]))
    x, points = columns.seen(nodes, used), points[:, used]
    if kind is not Polynomial:
        x, points = nodes("Sub", x, _center(points)), points - _center(points)
    # places of the columns of each kernel, and zeros for as many more as the widest has
    widest = max(one.columns.size for one in summands)
    places, kept = np.zeros((2, len(summands), widest))
    for k, one in enumerate(summands):
        places[k, : one.columns.size] = np.searchsorted(used, one.columns)
        kept[k, : one.columns.size] = 1.0
    parameters = np.array([_parameters(one.kernel) for one in summands]).T
    coefficients = np.stack([one.coefficients.T for one in summands])

    def step(body, x, places, kept, coefficients, *parameters):
        seen = body("Mul", body("Gather", x, places, axis=1), kept)
        kept = body("Unsqueeze", kept, np.array([1]))
        others = body("Mul", body("Gather", points.T, places, axis=0), kept)
        values = _values(body, kind, _pairs(body, kind, seen, others), *parameters)
        return body("MatMul", values, coefficients)

    arrays = [places.astype(int), kept, coefficients, *parameters]
    start = columns.repeated(nodes, np.zeros(len(summands[0].coefficients)))
    return nodes.scan(start, arrays, step, x)
