"""Missing numbers: the median of the training rows in their place, in training and prediction.

Medians are learned where units are, from the distinct rows of a fit and their weights, so that each
fold of a cross-validation has its own, and a row of weight two counts twice.
"""

import numpy as np

from ...kernels.points import has_holes, is_sparse


def learn_medians(estimator, X, sample_weight):
    """Set ``feature_medians_`` of an estimator with ``missing="impute"``.

    Parameters
    ----------
    estimator : MKLEstimator
        That has read X.
    X : (n, n_features) distinct training rows
    sample_weight : (n,) array
    """
    vars(estimator).pop("feature_medians_", None)
    if estimator.missing == "impute" and not is_sparse(X):
        medians = [weighted_median(column, sample_weight) for column in np.asarray(X).T]
        estimator.feature_medians_ = np.array(medians)


def imputed(estimator, X):
    """X with the medians of a fitted estimator in the place of NaN."""
    medians = getattr(estimator, "feature_medians_", None)
    return X if medians is None or not has_holes(X) else np.where(np.isnan(X), medians, X)


def weighted_median(values, weight):
    """The median of the values that are there, each as often as its weight says; 0 for none."""
    there = ~np.isnan(values)
    values, weight = values[there], weight[there]
    if not values.size:
        return 0.0  # a constant column, which says nothing
    order = np.argsort(values, kind="stable")
    below, half = np.cumsum(weight[order]), 0.5 * weight.sum()
    sides = [np.searchsorted(below, half, side) for side in ("left", "right")]
    return float(values[order[np.minimum(sides, values.size - 1)]].mean())
