"""Shapley values of columns, for kernels that are products over them or powers of their sum.

A coalition of columns knows its own part of a pair of points, and of the others nothing or what a
row of a background has there. Let every column other than j belong to the coalition with
probability t: the value of j is the integral over t in [0, 1] of what j adds on average (Owen,
Management Science 18, 1972). Both integrands are polynomials in t, so that Gauss-Legendre
quadrature is exact.

*Products.* With factors ``c_f`` without and ``c_f + e_f`` with a column, j adds ``e_j prod_{f != j}
(c_f + t e_f)``: one product for every node, and a division for every column. All factors are in (0,
1], so that no digits cancel. By the error of the quadrature, and since derivatives of the integrand
are bounded by powers of ``sum_f |e_f|``, a few nodes do as well as half the number of columns where
that sum is small. Nodes come in fours, ``t, 1 - t, r, 1 - r``, which share a division: it takes
twice as long as all products together.

*Powers of sums.* The r-th moments of ``offset + sum_{f != j} B_f u_f``, where the B_f are one with
probability t and zero otherwise, come from cumulants, which add up over the columns: those of all
columns less that of j.
"""

import numpy as np

from .rbf import LOG2_E, fast, start_chain

LEAST_FACTOR = 1e-30  # in the place of zeros, which cannot be divided out of a product


@fast
def _changes(rows, points, j, rates, squared, out, powers):
    """``1 - exp(-rates distance)`` of every column, of all rows and point j, row after row; out may
    be longer than the rows, and is zero there.
    """
    width = out.size // rows.shape[0]
    for i in range(rows.shape[0]):
        start = i * width
        for f in range(rates.size):
            difference = rows[i, f] - points[j, f]
            distance = difference * difference if squared else abs(difference)
            out[start + f] = LOG2_E * rates[f] * distance
        for f in range(rates.size, width):
            out[start + f] = 0.0
    start_chain(out, powers, out.size)


@fast
def _product_game(c, e, limits, starts, nodes, weights, out):
    """Values of the columns in one product game.

    Loops stand here, and not in functions of their own: calls with arrays took half of the time.
    """
    total = 0.0
    for f in range(e.size):
        total += abs(e[f])
    rule = 0
    while rule < limits.size - 1 and total > limits[rule]:
        rule += 1
    for f in range(e.size):
        out[f] = 0.0
    for q in range(starts[rule], starts[rule + 1], 2):
        t, r = nodes[q], nodes[q + 1]
        # prod_f (c_f + t e_f), and the same with 1 - t, r and 1 - r
        first, second = weights[q], weights[q]
        third, fourth = weights[q + 1], weights[q + 1]
        for f in range(e.size):
            first *= c[f] + t * e[f]
            second *= c[f] + (1.0 - t) * e[f]
            third *= c[f] + r * e[f]
            fourth *= c[f] + (1.0 - r) * e[f]
        # all four, each without the factor of a column
        for f in range(e.size):
            one = c[f] + t * e[f]
            two = c[f] + (1.0 - t) * e[f]
            three = c[f] + r * e[f]
            four = c[f] + (1.0 - r) * e[f]
            upper = (first * two + second * one) * (three * four)
            upper += (third * four + fourth * three) * (one * two)
            out[f] += upper / ((one * two) * (three * four))
    for f in range(e.size):
        out[f] *= e[f]


@fast
def _spread(game, coefficients, j, factor, out, i):
    """Add the values of a game at row i, times the coefficients of point j, for every output."""
    for c in range(out.shape[1]):
        times = factor * coefficients[c, j]
        for f in range(out.shape[2]):
            out[i, c, f] += times * game[f]


@fast
def add_product_games(
    rows, points, background, rates, squared, coefficients, limits, starts, nodes, weights, out
):
    """``out[i, c, f] += sum_j coefficients[c, j]`` times the value of column f in the game of
    ``prod_f exp(-rates[f] distance(rows[i, f], points[j, f]))``.

    Parameters
    ----------
    rows, points : (n, d) and (s, d) arrays
    background : (b, d) array
        Rows whose entries stand for columns outside of a coalition, in the mean over them; without
        rows such columns are left out.
    rates : (d,) array
    squared : bool
        Whether distances are squares of differences, and not their absolute values.
    coefficients : (t, s) array
    limits : (r,) array
        The sum of changes up to which each rule of quadrature will do; the last does for all.
    starts : (r + 1,) int
        Where the rules begin.
    nodes, weights : arrays
        Of all rules: an even number of nodes below one half, with the weight of each; the others
        mirror them.
    out : (n, t, d) array
    """
    width = 16 * ((rates.size + 15) // 16)  # whole registers
    near, powers = np.empty(rows.shape[0] * width), np.empty(rows.shape[0] * width)
    game, e, c = np.empty(width), np.empty(width), np.ones(width)
    count = background.shape[0]
    for j in range(points.shape[0]):
        _changes(rows, points, j, rates, squared, near, powers)
        for b in range(max(count, 1)):
            if count > 0:
                _changes(background[b : b + 1], points, j, rates, squared, c, powers)
                for f in range(width):
                    c[f] = max(1.0 - c[f], LEAST_FACTOR)
            for i in range(rows.shape[0]):
                for f in range(width):
                    change = near[i * width + f]
                    e[f] = max(1.0 - change, LEAST_FACTOR) - c[f] if count else -change
                _product_game(c, e, limits, starts, nodes, weights, game)
                _spread(game, coefficients, j, 1.0 / max(count, 1), out, i)


@fast
def _power_game(u, offset, degree, binomials, cumulants, weights, sums, moments, out):
    """Values of the columns in the game of ``(offset + sum_f u_f)^degree``."""
    for s in range(degree):
        sums[s] = 0.0
    for f in range(u.size):
        power = 1.0
        for s in range(degree):
            power *= u[f]
            sums[s] += power
    for f in range(u.size):
        total = 0.0
        for q in range(weights.size):
            moments[0] = 1.0
            for r in range(1, degree):
                moment, power = offset * moments[r - 1], 1.0
                for s in range(r):
                    power *= u[f]
                    others = cumulants[q, s] * (sums[s] - power)
                    moment += binomials[r - 1, s] * others * moments[r - 1 - s]
                moments[r] = moment
            added, power = 0.0, 1.0
            for r in range(degree - 1, -1, -1):
                power *= u[f]
                added += binomials[degree, r] * power * moments[r]
            total += weights[q] * added
        out[f] = total


@fast
def add_power_games(
    rows,
    points,
    background,
    rates,
    offset,
    degree,
    coefficients,
    binomials,
    cumulants,
    weights,
    out,
):
    """The same for ``(offset + sum_f rates[f] rows[i, f] points[j, f])^degree``.

    Parameters
    ----------
    rows, points, background, rates, coefficients, out
        See `add_product_games`.
    offset : float
    degree : int
    binomials : (degree + 1, degree + 1) array
    cumulants : (q, degree) array
        Of a number that is one with probability t and zero otherwise, at every node.
    weights : (q,) array
        Of the nodes.
    """
    d = rates.size
    u, game, sums, moments = np.empty(d), np.empty(d), np.empty(degree), np.empty(degree + 1)
    share = 1.0 / max(background.shape[0], 1)
    for j in range(points.shape[0]):
        for i in range(rows.shape[0]):
            for b in range(max(background.shape[0], 1)):
                start = offset
                for f in range(d):
                    slope = rates[f] * points[j, f]
                    u[f] = slope * rows[i, f]
                    if background.shape[0] > 0:
                        start += slope * background[b, f]
                        u[f] -= slope * background[b, f]
                _power_game(u, start, degree, binomials, cumulants, weights, sums, moments, game)
                _spread(game, coefficients, j, share, out, i)
