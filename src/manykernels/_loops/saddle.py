"""The program of a step for p = 1, with one output and the hinge, as one compiled call.

A program of a few hundred points is a millisecond of arithmetic, and in Python as much again and
more of small calls, during which other threads wait for the interpreter's lock. Here is what
`solvers.saddle.Saddle` does by Newton's method, with the same numbers; that file explains it. Where
this does not come to the gap that is wanted, systems of equations are its matter.

Loops are written out: expressions of whole arrays take ten times as long to compile.
"""

import math
from typing import NamedTuple

import numpy as np

from .kinks import FAR, flat_point
from .rbf import fast
from .smo import Bounds, Rows, smo_on_rows
from .sums import add, inner


class Model(NamedTuple):
    """The program: kernel (n, n) of the weights (m,), the point's coefficients (n,), products (m,
    n) and forms (m,), labels and costs (n,).
    """

    K: np.ndarray
    weights: np.ndarray
    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray
    y: np.ndarray
    cost: np.ndarray


class Numbers(NamedTuple):
    """By which a program is solved; see `solvers.saddle.Tolerances`."""

    gain_left: float
    newton_steps: int
    first_temperature: float
    hottest_in_gaps: float
    proximal_share_of_gap: float
    uniform_share_of_center: float
    ignore_curvature_below: float
    line_search_error: float
    smallest_weight: float
    coarsest: float  # violation of a program at most, in units
    finest: float  # and at least
    machine_steps: int


@fast
def times(table, x, out):
    """``out = table @ x`` in float64."""
    for k in range(out.size):
        out[k] = inner(table[k], x)


@fast
def mix(table, weights, out):
    """``out += weights @ table`` over the weights that are not zero."""
    for k in range(weights.size):
        if weights[k] != 0.0:
            add(weights[k], table[k], out)


@fast
def hinge(y, cost, scores):
    """The smallest loss over all intercepts."""
    kinks, slope = np.empty(y.size), 0.0
    for i in range(y.size):
        kinks[i] = y[i] - scores[i]
        if y[i] > 0.0:
            slope -= cost[i]
    b, loss = flat_point(kinks, cost, slope), 0.0
    for i in range(y.size):
        loss += cost[i] * max(1.0 - y[i] * (scores[i] + b), 0.0)
    return loss


# --- the smooth model of the kink -----------------------------------------------------------------


@fast
def _soften(center, temperature, forms, d):
    """Write the weights of the smooth model; gives its value."""
    top, total = -FAR, 0.0
    for k in range(d.size):
        d[k] = math.log(center[k]) + forms[k] / (2.0 * temperature)
        top = max(top, d[k])
    for k in range(d.size):
        d[k] = math.exp(d[k] - top)
        total += d[k]
    for k in range(d.size):
        d[k] /= total
    return temperature * (top + math.log(total))


@fast
def _recenter(d, smallest, center):
    total = 0.0
    for k in range(d.size):
        center[k] = max(d[k], smallest)
        total += center[k]
    for k in range(d.size):
        center[k] /= total


@fast
def _divergence(center, temperature, d):
    value = 0.0
    for k in range(d.size):
        if d[k] > 0.0:
            value += temperature * d[k] * math.log(d[k] / center[k])
    return value


@fast
def _uphill(center, temperature, forms, rise, size, linear, bend, at, d):
    """The slope of the model along a step of Newton's method."""
    for k in range(d.size):
        at[k] = forms[k] + size * rise[k]
    _soften(center, temperature, at, d)
    return linear - size * bend - 0.5 * inner(d, rise)


@fast
def _length(center, temperature, forms, rise, linear, bend, error):
    """The step in [0, 1] that is best for the model: regula falsi with halved ends."""
    at, d = np.empty(forms.size), np.empty(forms.size)
    low, high, size = 0.0, 1.0, 1.0
    at_high = _uphill(center, temperature, forms, rise, 1.0, linear, bend, at, d)
    at_low = _uphill(center, temperature, forms, rise, 0.0, linear, bend, at, d)
    # the whole step where the model still rises there, or where rounding hides its slope
    if at_high >= 0.0 or at_low <= 0.0:
        return 1.0
    for _ in range(50):
        before, size = size, low + (high - low) * at_low / (at_low - at_high)
        here = _uphill(center, temperature, forms, rise, size, linear, bend, at, d)
        if here > 0.0:
            low, at_low, at_high = size, here, 0.5 * at_high
        else:
            high, at_high, at_low = size, here, 0.5 * at_low
        if abs(size - before) <= error * size or high - low <= error * high:
            break
    return size


# --- the program ----------------------------------------------------------------------------------


@fast
def _scores(model, given, d, Kx, out):
    for i in range(out.size):
        out[i] = Kx[i] - given[i]
    mix(model.products, d, out)


@fast
def _proven(model, d, x, Kx, forms, scores):
    """The upper and the lower bound on the saddle's value that weights d and coefficients x
    prove.
    """
    upper, highest, lifted = 0.5 * inner(x, Kx), 0.0, 0.0
    lower = inner(model.y, x) - upper
    for k in range(d.size):
        upper += 0.5 * (d[k] - model.weights[k]) * model.forms[k]
        lifted += model.weights[k] * forms[k]
        highest = forms[k] if k == 0 else max(highest, forms[k])
    return upper + hinge(model.y, model.cost, scores), lower - 0.5 * (highest - lifted)


@fast
def _bent(model, used, d, temperature):
    """``K`` with the curvature of the smooth model, as `smo_on_rows` takes it, and its diagonal."""
    n, kind = model.beta.size, model.K.dtype
    left, right = np.empty((n, used.size), kind), np.empty((used.size, n), kind)
    mixed, diagonal = np.zeros(n), np.empty(n)
    for i in range(n):
        diagonal[i] = model.K[i, i]
    for k in used:
        for i in range(n):
            mixed[i] += d[k] * model.products[k, i]
    for u in range(used.size):
        row, weight = model.products[used[u]], d[used[u]] / temperature
        for i in range(n):
            right[u, i] = row[i]
            left[i, u] = weight * (row[i] - mixed[i])
            diagonal[i] += left[i, u] * right[u, i]
    rows = Rows(model.K, left, right, np.empty((n, n), kind), np.zeros(n, dtype=np.bool_))
    return rows, diagonal


@fast
def _unbent(model, used, d, temperature, change, moved):
    """Take the curvature out of ``moved``, the product of `_bent` with a change."""
    pulls, total = np.empty(used.size), 0.0
    for u in range(used.size):
        pulls[u] = inner(model.products[used[u]], change)
        total += d[used[u]] * pulls[u]
    for u in range(used.size):
        weight, row = d[used[u]] * (pulls[u] - total) / temperature, model.products[used[u]]
        for i in range(moved.size):
            moved[i] -= weight * row[i]


@fast
def _box(y, cost):
    lower, upper = np.zeros(y.size), np.zeros(y.size)
    for i in range(y.size):
        if y[i] > 0.0:
            upper[i] = cost[i]
        else:
            lower[i] = -cost[i]
    return Bounds(lower, upper, np.zeros(y.size), np.zeros(y.size))


@fast
def program(model, gap, wanted, value, numbers):
    """Weights and coefficients near the saddle.

    Parameters
    ----------
    model : Model
    gap, wanted, value : float
        As in `solvers.saddle.Goal`.
    numbers : Numbers

    Returns
    -------
    d, x, Kx : arrays
        Weights, coefficients, and the kernel times them.
    upper, lower : float
        The bounds on the saddle's value that they prove.
    solves, steps : int
        Programs of SMO, and their steps.
    """
    n, m = model.beta.size, model.weights.size
    given, scores, forms = np.zeros(n), np.empty(n), model.forms.copy()
    mix(model.products, model.weights, given)
    x, Kx, d = model.beta.copy(), given.copy(), np.empty(m)
    total = 0.0
    for i in range(n):
        total += model.cost[i]
    # the point itself, and the first smooth model around it
    upper, lower = _proven(model, model.weights, x, Kx, forms, given)
    best = model.weights.copy(), x.copy(), Kx.copy(), upper, lower
    center, share = np.empty(m), numbers.uniform_share_of_center
    for k in range(m):
        d[k] = (1.0 - share) * model.weights[k] + share / m
    _recenter(d, numbers.smallest_weight, center)
    temperature = min(numbers.first_temperature * forms.max(), numbers.hottest_in_gaps * gap)
    temperature = max(temperature, 1e-300)
    bounds, solves, steps = _box(model.y, model.cost), 0, 0
    target, change, moved, rise = np.empty(n), np.empty(n), np.empty(n), np.empty(m)
    for _ in range(numbers.newton_steps):
        # the point of the smooth model
        smooth = _soften(center, temperature, forms, d)
        _scores(model, given, d, Kx, scores)
        upper, lower = _proven(model, d, x, Kx, forms, scores)
        here = upper - lower
        if here < best[3] - best[4]:
            best = d.copy(), x.copy(), Kx.copy(), upper, lower
        if best[3] - best[4] <= max(wanted, numbers.gain_left * abs(best[3] - value)):
            break
        # a new center, and half as warm, once the proximal problem of the old one is nearly solved
        above = smooth + _divergence(center, temperature, d) - 0.5 * forms.max()
        if here + above < numbers.proximal_share_of_gap * here:
            _recenter(d, numbers.smallest_weight, center)
            temperature *= 0.5
            _soften(center, temperature, forms, d)
            _scores(model, given, d, Kx, scores)
        # Newton's direction: the maximizer over the box, with the kernels that bend the model
        used = np.flatnonzero(d > numbers.ignore_curvature_below * d.max())
        rows, diagonal = _bent(model, used, d, temperature)
        for i in range(n):
            target[i] = x[i]
            scores[i] -= model.y[i]
            moved[i] = -scores[i]
        tol = min(max(0.2 * here / total, numbers.finest), numbers.coarsest)
        taken, _ = smo_on_rows(rows, diagonal, bounds, target, scores, tol, numbers.machine_steps)
        solves, steps = solves + 1, steps + taken
        for i in range(n):
            change[i] = target[i] - x[i]
            moved[i] += scores[i]
        _unbent(model, used, d, temperature, change, moved)
        # the line search: tangents are lines, the rest is a parabola
        times(model.products, change, rise)
        linear = inner(model.y, change) - inner(change, Kx)
        for k in range(m):
            rise[k] *= 2.0
            linear += 0.5 * model.weights[k] * rise[k]
        bend = inner(change, moved)
        size = _length(center, temperature, forms, rise, linear, bend, numbers.line_search_error)
        for i in range(n):
            x[i] += size * change[i]
            Kx[i] += size * moved[i]
        for k in range(m):
            forms[k] += size * rise[k]
    return best[0], best[1], best[2], best[3], best[4], solves, steps
