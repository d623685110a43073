"""Values of C that suit the data."""

import numpy as np

from ..losses import Squared
from .paths import like

DECADES = 4.5  # from where every point is at its bound


def default_costs(template, X, y, sample_weight, count):
    """Values of C on a geometric grid, from where every point is at its bound upward.

    With equal weights of all kernels, coefficients at their bounds (as far as they sum to zero) give
    decision values in proportion to C; as long as none comes up to its target, all stay at their
    bounds and a larger C does not change what is predicted. For regression C is in units of the
    targets, unless the loss is squared.

    Parameters
    ----------
    template : MKL estimator
    X, y, sample_weight
        As for `fit`.
    count : int
    """
    model = like(template)
    prepared, loss = model._data(X, y, sample_weight), model._loss()
    bank, costs = prepared.bank, np.broadcast_to(prepared.cost, prepared.targets.shape)
    weights = np.full(bank.m, 1.0 / bank.m)
    outputs = zip(prepared.targets, costs, strict=True)
    firsts = [_first(bank, weights, loss, *output) for output in outputs]
    first = min(firsts)
    if count == 1:
        return [first * 10.0 ** (DECADES / 2)]
    return [float(cost) for cost in first * 10.0 ** np.linspace(0.0, DECADES, count)]


def _first(bank, weights, loss, targets, costs):
    """The C below which every point of an output is at its bound."""
    ahead = targets > (0.0 if loss.separates else np.median(targets))
    sides = [costs[side].sum() for side in (ahead, ~ahead)]
    if min(sides) == 0.0:
        return 1.0
    beta = costs * np.where(ahead, min(sides) / sides[0], -min(sides) / sides[1])
    largest = float(np.abs(bank.decision(weights, beta)).max())
    in_units = not (loss.separates or isinstance(loss, Squared))
    unit = float(targets.std()) if in_units else 1.0
    return unit / largest if largest > 0.0 and unit > 0.0 else 1.0
