"""Shares in a total."""

import numpy as np


def shares(amounts):
    """Amounts divided by their sum, if there is one."""
    total = amounts.sum()
    return amounts / total if total > 0 else amounts


def mean_shares(weights):
    """Shares in the total weight, (m,); the mean over outputs that have weights of their own."""
    return np.mean([shares(row) for row in np.atleast_2d(weights)], axis=0)
