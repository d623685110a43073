"""Values of C that suit the data."""

import numpy as np

from ...banks.torch import moved_to_device
from ...losses import Squared
from ...result import Result
from ..copies import like

FARTHEST_START = 10.0  # times C, beyond which a result is no place to begin
DECADES = 4.0  # upward from where the mean of the kernels has every point at its bound


def default_costs(template, X, y, sample_weight, norms, count):
    """Values of C on a geometric grid, from where every point is at its bound upward.

    With equal weights of all kernels, coefficients at their bounds (as far as they sum to zero)
    give decision values in proportion to C; as long as none comes up to its target, all stay at
    their bounds and a larger C does not change what is predicted. Equal weights are ``m^(-1/p)``:
    what is a small C for the mean of the kernels (p = 1) is a large one for their sum (p = inf), so
    the grid begins where the largest p begins. The logistic loss has all points at half their
    bounds there, and decision values that are small beside one. For regression C is in units of the
    targets, unless the loss is squared.

    Parameters
    ----------
    template : MKL estimator
    X, y, sample_weight
        As for `fit`.
    norms : list of float
    count : int
    """
    model = like(template)
    prepared, loss = model._data(X, y, sample_weight), model._loss()
    # classes that weigh more are to change what is predicted, not what is tried
    counts = prepared.distinct.weight * (np.broadcast_to(prepared.cost, prepared.targets.shape) > 0)
    small = template.device != "auto"
    bank = moved_to_device(prepared.bank, template.device, small)
    weights = np.full(bank.m, 1.0 / bank.m)
    outputs = zip(prepared.targets, counts, strict=True)
    firsts = [first_cost(bank, weights, loss, *output) for output in outputs]
    size = bank.m ** (1.0 - 1.0 / max(norms))
    first, last = min(firsts) / size, min(firsts) * 10.0**DECADES
    if count == 1:
        return [float(np.sqrt(first * last))]
    return [float(cost) for cost in np.geomspace(first, last, count)]


# --- the C below which nothing but the scale of a decision function changes -----------------------


def first_cost(bank, weights, loss, targets, counts):
    """The C below which every point of an output is at its bound, with given kernel weights.

    Parameters
    ----------
    bank : Bank
    weights : (m,) array
    loss : Loss
    targets, counts : (n,) arrays
        Of the output; how often each point comes.
    """
    beta = at_bounds(loss, targets, counts)
    largest = float(np.abs(bank.decision(weights, beta)).max())
    in_units = not (loss.separates or isinstance(loss, Squared))
    unit = float(targets.std()) if in_units else 1.0
    return unit / largest if largest > 0.0 and unit > 0.0 else 1.0


def at_bounds(loss, targets, counts):
    """Coefficients of an output at a C of one with every point at its bound, as far as they sum to
    zero, (n,).
    """
    ahead = targets > (0.0 if loss.separates else np.median(targets))
    sides = [counts[side].sum() for side in (ahead, ~ahead)]
    if min(sides) == 0.0:
        return np.zeros(len(targets))
    return counts * np.where(ahead, min(sides) / sides[0], -min(sides) / sides[1])


def warm_start(result, factor):
    """Where to begin at a C that is so many times as large: points at a bound stay there as all
    coefficients grow with C. None from so far away that it is better to begin anew: the few
    kernels of a small C make SVMs with a large one that take millions of steps.
    """
    if not 1.0 / FARTHEST_START <= factor <= FARTHEST_START:
        return None
    return Result(**{**vars(result), "beta": result.beta * factor})
