"""From decision values of all outputs to classes and probabilities: NumPy alone."""

from itertools import combinations

import numpy as np

TIE = 1e-9  # probability by which classes that are equally likely differ


def values_by_class(scores, count, multiclass):
    """Decision values as `decision_function` gives them: (n,) for two classes, else (n, n_classes).

    Parameters
    ----------
    scores : (t, n) array
        Of every class, or of every pair of classes.
    count : int
        Classes.
    multiclass : {"ovr", "ovo"}
    """
    if count == 2:
        return scores[0]
    return votes(scores, count) if multiclass == "ovo" else scores.T


def likeliest(values):
    """The number of the class with the largest decision value, (n,); of two classes the second
    where it is positive.
    """
    return (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)


def votes(scores, count):
    """Pairs won by every class, (n_samples, n_classes), and less than a third of a vote for the
    distances.
    """
    votes, sums = np.zeros((2, count, scores.shape[1]))
    for (a, b), f in zip(combinations(range(count), 2), scores, strict=True):
        votes[b] += f > 0
        votes[a] += f <= 0
        sums[b] += f
        sums[a] -= f
    return (votes + sums / (3.0 * (np.abs(sums) + 1.0))).T


def log_probabilities(scores):
    """Logarithms of the probabilities of classes whose log-odds, each against the rest, are scores
    (t, n): (n, n_classes).
    """
    if len(scores) == 1:
        return log_expit(np.stack([-scores[0], scores[0]], axis=1))
    each = log_expit(scores.T)
    return each - np.logaddexp.reduce(each, axis=1, keepdims=True)


def calibrated(scores, kind, tables):
    """Probabilities of classes, (n, n_classes), of scores (t, n) and a table for each output; see
    `manykernels.estimators.calibration`.
    """
    each = np.stack(
        [one_sided(kind, table, row) for table, row in zip(tables, scores, strict=True)], axis=1
    )
    if len(scores) == 1:
        return np.hstack([1.0 - each, each])
    each = each + TIE * np.exp(log_expit(scores.T))  # the order of equals is that of the scores
    return each / each.sum(axis=1, keepdims=True)


def one_sided(kind, table, scores):
    """Probability of the positive side at decision values of one output."""
    if kind == "sigmoid":
        return np.exp(log_expit(table[0] * scores + table[1]))
    return np.interp(scores, table[0], table[1])


def log_expit(x):
    """The logarithm of ``1 / (1 + exp(-x))``."""
    return -np.logaddexp(0.0, -x)
