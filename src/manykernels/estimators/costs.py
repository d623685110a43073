"""Values of C that suit the data."""

import numpy as np

from .first_cost import first_cost
from .paths import like

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
    bank = prepared.bank
    weights = np.full(bank.m, 1.0 / bank.m)
    outputs = zip(prepared.targets, counts, strict=True)
    firsts = [first_cost(bank, weights, loss, *output) for output in outputs]
    size = bank.m ** (1.0 - 1.0 / max(norms))
    first, last = min(firsts) / size, min(firsts) * 10.0**DECADES
    if count == 1:
        return [float(np.sqrt(first * last))]
    return [float(cost) for cost in np.geomspace(first, last, count)]
