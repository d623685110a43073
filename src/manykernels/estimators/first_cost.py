"""The C below which nothing but the scale of a decision function changes."""

import numpy as np

from ..losses import Squared


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
