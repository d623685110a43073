"""Shares in a total."""

import numpy as np

NEGLIGIBLE = 1e-3  # share relative to the heaviest that gets no line of its own


def shares(amounts):
    """Amounts divided by their sum, if there is one."""
    total = amounts.sum()
    return amounts / total if total > 0 else amounts


def mean_shares(weights):
    """Shares in the total weight, (m,); the mean over outputs that have weights of their own."""
    return np.mean([shares(row) for row in np.atleast_2d(weights)], axis=0)


def heard_shares(weights, silent):
    """Shares of the kernels that say something about other points, and what regularizes.

    Parameters
    ----------
    weights : (m,) or (t, m) array
        Or other amounts of kernels; rows of outputs that have their own.
    silent : (m,) bool array
        Kernels that say nothing about other points.

    Returns
    -------
    (m,) array
        Shares in the weight of the others, zero for the silent ones; means over the outputs.
    float
        Share of the silent kernels in all the weight.
    """
    weights = np.atleast_2d(weights)
    regularization = float(mean_shares(weights)[silent].sum())
    return mean_shares(np.where(silent, 0.0, weights)), regularization


def heaviest(share, most, ties=None):
    """Numbers of the heaviest, at most so many, and of all others.

    Those with less than a thousandth of the heaviest's share are among the others.

    Parameters
    ----------
    share : (m,) array
    most : int
    ties : (m,) array, optional
        What decides between equal shares, larger first; their order by default.
    """
    order = np.lexsort((-(np.zeros(share.size) if ties is None else ties), -share))
    shown = order[:most]
    shown = shown[share[shown] >= NEGLIGIBLE * share.max()] if share.any() else shown
    return shown, np.setdiff1d(order, shown, assume_unique=True)
