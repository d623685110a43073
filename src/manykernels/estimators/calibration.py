"""From decision values to probabilities, by what models said about rows they had not seen.

A calibration is a table of numbers, so that it can be stored: for ``"sigmoid"`` slope and offset of
every output (Platt 1999, with his correction for the prior), for ``"isotonic"`` the steps of a
monotone function.
"""

import numpy as np
from scipy.special import expit, log_expit, logit
from sklearn.isotonic import IsotonicRegression

MANY = 1000  # held-out rows from which on a monotone function is better than a sigmoid
KINDS = ("sigmoid", "isotonic")
STEPS = 100  # of Newton's method, at most; some five are usual
TINY = 1e-12  # of a probability that is nearly certain
PRECISION = 1e-10  # of the mean gradient where it ends


def fitted(kind, scores, positive, weight):
    """The table of a calibration.

    Parameters
    ----------
    kind : {"sigmoid", "isotonic"}
    scores : (n,) decision values
    positive : (n,) bool
    weight : (n,) array

    Returns
    -------
    (2,) array for a sigmoid, (2, k) array of places and values for a monotone function.
    """
    return (
        _sigmoid(scores, positive, weight)
        if kind == "sigmoid"
        else _steps(scores, positive, weight)
    )


def _sigmoid(scores, positive, weight):
    """Slope and offset of the largest likelihood for targets that lean towards one half."""
    ahead, behind = weight[positive].sum(), weight[~positive].sum()
    target = np.where(positive, (ahead + 1.0) / (ahead + 2.0), 1.0 / (behind + 2.0))
    weight = weight / weight.max()
    center = float(np.average(scores, weights=weight))
    unit = float(np.abs(scores - center)[weight > 0.0].max()) or 1.0
    x = np.where(weight > 0.0, (scores - center) / unit, 0.0)

    def loss(at):
        z = at[0] * x + at[1]
        return -float(weight @ (target * log_expit(z) + (1.0 - target) * log_expit(-z)))

    start = np.array([0.0, logit(np.clip(np.average(target, weights=weight), TINY, 1.0 - TINY))])
    found = _minimum(loss, start, x, target, weight)
    # decision values that say the opposite of what is true say nothing
    slope, offset = found if found[0] > 0.0 else start
    return np.array([slope / unit, offset - slope * center / unit])


def _minimum(loss, at, x, target, weight):
    """Slope and offset of the smallest loss, by Newton's method (Lin, Lin and Weng 2007)."""
    value, powers = loss(at), np.stack([x * x, x, np.ones(len(x))])
    for _ in range(STEPS):
        p = expit(at[0] * x + at[1])
        gradient = powers[1:] @ (weight * (p - target))
        if np.abs(gradient).max() <= PRECISION * weight.sum():
            break
        squares, mixed, ones = powers @ (weight * p * (1.0 - p))
        ridge = PRECISION * (squares + ones) + 1e-300
        (a, b), d = (squares + ridge, mixed), ones + ridge
        g, h = gradient
        step = np.array([b * h - d * g, b * g - a * h]) / (a * d - b * b)
        slope, length = float(gradient @ step), 1.0
        while (new := loss(at + length * step)) > value + 1e-4 * length * slope and length > 1e-9:
            length *= 0.5
        if not new < value:
            break
        at, value = at + length * step, new
    return at


def _steps(scores, positive, weight):
    """A monotone function that is nowhere 0 or 1: at each end a row of the class that is least
    expected there stands for those that were not seen. It weighs as much as the rows around it,
    those of the other class, so that no class outweighs an end, however much its rows weigh.
    """
    low, high = _mean(weight, ~positive), _mean(weight, positive)
    scores = np.concatenate([[scores.min()], scores, [scores.max()]])
    target = np.concatenate([[1.0], positive, [0.0]])
    weight = np.concatenate([[low], weight, [high]])
    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(scores, target, sample_weight=weight)
    return np.stack([model.X_thresholds_, model.y_thresholds_])


def _mean(weight, chosen):
    """The mean weight of some rows, but of those that weigh nothing; of all if none is left."""
    heavy = weight > 0.0
    return weight[heavy & chosen if (heavy & chosen).any() else heavy].mean()
