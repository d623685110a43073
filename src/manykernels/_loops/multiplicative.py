"""Rounds of MWUMKL: no SVM, no quadratic program, a few columns of every kernel at a time.

The dual point ``beta`` is an average of rounds. A round weighs the kernels by how long ``beta`` is
in each of them, looks for the points of both classes that lie deepest in the other's half under
those weights, and moves ``beta`` towards them.
"""

from typing import NamedTuple

import numpy as np

from .rbf import fast

LARGEST_SINH = 20.0  # exponent beyond which sinh is exp/2 and only differences of exponents count
SMALLEST_DIVISOR = 1e-300
# Sum of all coefficients, where nothing else bounds them: with a larger one forms may overflow.
LARGEST_SUM = 1e100


class Average(NamedTuple):
    """State of the rounds; all arrays are updated in place.

    Attributes
    ----------
    beta : (n,)
        Signed coefficients at their best scale.
    products : (m, n)
        ``K_k beta / scale``.
    towards : (m, n), or (0, n)
        Products of the coefficients that the last round moved to, where the next one differs from
        it in a few points only.
    share : (n,)
        Those coefficients, without their signs.
    forms, weights : (m,)
        ``beta' K_k beta``, and the weights of the kernels before they are normalized.
    scores : (n,)
        ``y (sum_k weights_k K_k beta + ridge beta)`` for normalized weights: below one for points
        inside the margin.
    scale : (1,)
    """

    beta: np.ndarray
    products: np.ndarray
    towards: np.ndarray
    share: np.ndarray
    forms: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    scale: np.ndarray


class Rules(NamedTuple):
    """Rules that do not change between rounds.

    Attributes
    ----------
    y, caps, ridge : (n,)
        Labels, largest coefficients, and what the loss adds to the diagonal of every kernel.
    capped : bool
        True if the caps are of finite size.
    room : float
        Sum that a round may give to each class, as a part of the sum of all coefficients.
    limit : float
        Two points of opposite classes gain nothing when the sum of their scores is above it.
    rate : float
        Of the exponents of the weights, see `weigh`.
    grows : bool
        True if the exponent grows with the rounds themselves, as in the paper, and not with their
        square root.
    """

    y: np.ndarray
    caps: np.ndarray
    ridge: np.ndarray
    capped: bool
    room: float
    limit: float
    rate: float
    grows: bool


@fast
def extra(at: Average, rules: Rules) -> float:
    """The ridge's part of every form."""
    out = 0.0
    for t in range(at.beta.size):
        out += rules.ridge[t] * at.beta[t] * at.beta[t]
    return out


@fast
def total(at: Average) -> float:
    """Sum of the coefficients of both classes."""
    out = 0.0
    for t in range(at.beta.size):
        out += abs(at.beta[t])
    return out


@fast
def weigh(at: Average, rules: Rules, done: int) -> None:
    """Weights ``sinh(u_k) / u_k`` up to a factor, where u_k is proportional to the length of beta
    in kernel k.

    The largest u is ``rate sqrt(done)``. In the paper it is ``rate done`` times the length of the
    normalized beta.
    """
    # the longest beta, which decides how the exponents grow
    more, longest = extra(at, rules), 0.0
    for k in range(at.forms.size):
        longest = max(longest, at.forms[k] + more)
    if rules.grows:
        rate = rules.rate * done / max(total(at), SMALLEST_DIVISOR)
    else:
        rate = rules.rate * np.sqrt(done / max(longest, SMALLEST_DIVISOR))
    # sinh(u) / u of every kernel, relative to the largest where that would overflow
    top = rate * np.sqrt(longest)
    for k in range(at.forms.size):
        u = rate * np.sqrt(at.forms[k] + more)
        if u < 1e-8:
            at.weights[k] = np.exp(-top) if top >= LARGEST_SINH else 1.0
        elif top < LARGEST_SINH:
            at.weights[k] = np.sinh(u) / u
        else:
            at.weights[k] = 0.5 * np.exp(u - top) / u


@fast
def _add(out: np.ndarray, factor: float, row: np.ndarray) -> None:
    for t in range(out.size):
        out[t] += factor * row[t]


@fast
def weighted(weights: np.ndarray, products: np.ndarray, out: np.ndarray) -> None:
    """``out += sum_k weights_k products_k``."""
    for k in range(weights.size):
        _add(out, weights[k], products[k])


@fast
def finish_scores(at: Average, rules: Rules) -> None:
    """From the weighted sum of the products to scores."""
    factor = at.scale[0] / at.weights.sum()
    for t in range(at.beta.size):
        at.scores[t] = rules.y[t] * (factor * at.scores[t] + rules.ridge[t] * at.beta[t])


@fast
def _lowest(at: Average, rules: Rules, sign: float) -> int:
    best, lowest = -1, 1e300
    for t in range(at.beta.size):
        if rules.y[t] == sign and rules.caps[t] > 0.0 and at.scores[t] < lowest:
            best, lowest = t, at.scores[t]
    return best


@fast
def _next(order: np.ndarray, place: int, rules: Rules, sign: float) -> int:
    """The next place in the order that holds a point of this class."""
    while place < order.size and not (
        rules.y[order[place]] == sign and rules.caps[order[place]] > 0.0
    ):
        place += 1
    return place


@fast
def choose(at: Average, rules: Rules, share: np.ndarray) -> None:
    """The round's coefficients: the lowest scores of both classes are filled up to their caps, pair
    by pair.
    """
    room = rules.room * total(at)
    # the order of the scores; without caps one point of each class takes all of the room
    if rules.capped:
        order = np.argsort(at.scores)
    else:
        order = np.array([_lowest(at, rules, 1.0), _lowest(at, rules, -1.0)])
    share[:] = 0.0
    # pairs of both classes, until one gains nothing, or the room is used up
    i, j = _next(order, 0, rules, 1.0), _next(order, 0, rules, -1.0)
    while i < order.size and j < order.size and room > 0.0:
        a, b = order[i], order[j]
        if at.scores[a] + at.scores[b] >= rules.limit:
            break
        amount = min(room, min(rules.caps[a] - share[a], rules.caps[b] - share[b]))
        share[a] += amount
        share[b] += amount
        room -= amount
        if share[a] >= rules.caps[a]:
            i = _next(order, i + 1, rules, 1.0)
        if share[b] >= rules.caps[b]:
            j = _next(order, j + 1, rules, -1.0)


@fast
def changes(
    at: Average, rules: Rules, share: np.ndarray, taken: np.ndarray, coefficients: np.ndarray
) -> int:
    """Points whose columns the round needs, and their signed coefficients; returns how many there
    are.
    """
    count = 0
    for t in range(share.size):
        change = share[t] - (at.share[t] if rules.capped else 0.0)
        if change != 0.0:
            taken[count], coefficients[count] = t, rules.y[t] * change
            count += 1
    return count


@fast
def move(at: Average, rules: Rules, share: np.ndarray, step: float) -> float:
    """beta and what the round moved to; returns the factor on the old products."""
    for t in range(share.size):
        at.beta[t] += step * (rules.y[t] * share[t] - at.beta[t])
        at.share[t] = share[t]
    return (1.0 - step) * at.scale[0]


@fast
def blend(
    products: np.ndarray,
    towards: np.ndarray,
    forms: np.ndarray,
    beta: np.ndarray,
    store: np.ndarray,
    first: int,
    places: np.ndarray,
    coefficients: np.ndarray,
    keep: float,
    step: float,
) -> None:
    """``products = keep products + step (towards + columns)`` and the forms, for some kernels.

    Column p of kernel k is ``store[places[p], first + k]``. Where towards is not empty, the columns
    are added to it for good.
    """
    kept, row = towards.shape[0] > 0, np.empty(beta.size)
    for k in range(forms.size):
        if kept:
            row = towards[k]
        else:
            row[:] = 0.0
        for p in range(coefficients.size):
            _add(row, coefficients[p], store[places[p], first + k])
        forms[k] = max(_mix(products[k], keep, row, step, beta), 0.0)


@fast
def _mix(out: np.ndarray, keep: float, row: np.ndarray, step: float, beta: np.ndarray) -> float:
    form = 0.0
    for t in range(out.size):
        out[t] = keep * out[t] + step * row[t]
        form += out[t] * beta[t]
    return form


@fast
def rescale(at: Average, rules: Rules) -> None:
    """beta times the factor that makes the dual value largest: the sum of coefficients over the
    largest form, as caps allow.
    """
    longest, sum_of_all, more = 0.0, total(at), extra(at, rules)
    for k in range(at.forms.size):
        longest = max(longest, at.forms[k])
    # the best factor, as far as caps allow
    factor = min(sum_of_all / max(longest + more, SMALLEST_DIVISOR), LARGEST_SUM / sum_of_all)
    if rules.capped:
        for t in range(at.beta.size):
            if factor * abs(at.beta[t]) > rules.caps[t]:
                factor = rules.caps[t] / abs(at.beta[t])
    for t in range(at.beta.size):
        at.beta[t] *= factor
    for k in range(at.forms.size):
        at.forms[k] *= factor * factor
    at.scale[0] = factor


@fast
def rounds(
    at: Average,
    rules: Rules,
    store: np.ndarray,
    slots: np.ndarray,
    stamps: np.ndarray,
    done: int,
    aim: int,
    share: np.ndarray,
    taken: np.ndarray,
    coefficients: np.ndarray,
) -> tuple[int, int]:
    """Play rounds until their number is reached or a column is missing from the store.

    Parameters
    ----------
    store, slots, stamps
        Columns, the place of each point's column (-1: not there) and when each was used last.
    done, aim : int
        Rounds in the average so far, and rounds to reach.
    share, taken, coefficients : (n,) scratch

    Returns
    -------
    done, wanted : wanted is how many points, the first of ``taken``, the next round needs; -1 at
    the end
    """
    places = np.empty(share.size, dtype=np.int64)
    while done < aim:
        # weights of the kernels at the average, and scores of the points under them
        weigh(at, rules, done)
        at.scores[:] = 0.0
        weighted(at.weights, at.products, at.scores)
        finish_scores(at, rules)
        # coefficients to move to, and the columns that this takes
        choose(at, rules, share)
        count = changes(at, rules, share, taken, coefficients)
        for p in range(count):
            places[p] = slots[taken[p]]
            if places[p] < 0:
                return done, count
        done += 1
        for p in range(count):
            stamps[places[p]] = done
        # the average with them, its products and forms, and its best scale
        step = 1.0 / (done + 1.0)
        keep = move(at, rules, share, step)
        blend(
            at.products,
            at.towards,
            at.forms,
            at.beta,
            store,
            0,
            places,
            coefficients[:count],
            keep,
            step,
        )
        rescale(at, rules)
    return done, -1
