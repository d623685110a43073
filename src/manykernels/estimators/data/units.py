"""Columns in units of their own spread, for kernels that are to fit any table; and a warning where
given kernels see columns of very different spreads.

With ``kernels="auto"`` nobody has thought about units, so a model must be the same in metres and in
millimetres: every column of numbers is measured from its mean, in standard deviations of the
training rows. (Zeros of sparse tables stay zeros: their columns are divided only.) So it is with
the columns of groups that have the default kernels of `on_groups`. Kernels that were given see the
table as it is, unless ``scale="standard"`` asks for the same.
"""

import warnings

import numpy as np

from ..._callers import user_stacklevel
from ...kernels import KernelCollection, Precomputed
from ...kernels.base import resolve_features
from ...kernels.grids import AUTO_ALONE
from ...kernels.groups import GroupedCollection
from ...kernels.points import as_points, is_sparse
from ...kernels.vector import RBF, Laplacian, Linear, Polynomial, weighted_variance
from .impute import imputed, learn_medians

MADE = ("auto", "whole", *AUTO_ALONE)  # kernels that an estimator makes for a table
LARGEST = 1e150  # standard deviations whose squares are numbers
APART = 1e3  # ratio of standard deviations in one kernel from which on there is a warning
APART_IN_PRODUCTS = 1e2  # the same where widths are learned, from equal ones on
TOGETHER = (RBF, Laplacian, Linear, Polynomial)  # kernels of distances and products of rows


def learn_units(estimator, X, sample_weight):
    """Set ``feature_means_`` and ``feature_spreads_`` of an estimator that standardizes columns.

    Parameters
    ----------
    estimator : MKLEstimator
        That has read X.
    X : (n, n_features) distinct training rows
    sample_weight : (n,) array
    """
    for name in ("feature_means_", "feature_spreads_"):
        vars(estimator).pop(name, None)
    learn_medians(estimator, X, sample_weight)
    if not standardizes(estimator):
        return
    X, as_they_are = imputed(estimator, X), list(estimator._by_column(estimator.categories_))
    means, variances = _moments(as_points(X, missing=True), sample_weight)
    spreads = np.sqrt(variances)
    as_they_are += _as_given(estimator)
    spreads[as_they_are] = 1.0
    if (spreads > LARGEST).any() or ((spreads > 0.0) & (spreads < 1.0 / LARGEST)).any():
        raise ValueError("The variance of the features is too large or small; rescale them.")
    means[as_they_are] = 0.0
    estimator.feature_means_ = means
    estimator.feature_spreads_ = np.where(spreads > 0.0, spreads, 1.0)


def in_units(estimator, X):
    """X as the kernels of a fitted estimator see it."""
    X = imputed(estimator, X)
    if not hasattr(estimator, "feature_spreads_"):
        return X
    if is_sparse(X):
        from scipy import sparse

        scaled = X @ sparse.diags_array(1.0 / estimator.feature_spreads_)
        if not estimator.feature_means_.any():
            return sparse.csr_array(scaled)
        X = X.toarray()  # few new rows of a table that was dense in training
    return (X - estimator.feature_means_) / estimator.feature_spreads_


def warn_of_scales(kernels, X, sample_weight, feature_names=None):
    """Warn if a kernel sees columns whose spreads differ by orders of magnitude.

    Parameters
    ----------
    kernels : KernelCollection
    X : (n, n_features) training rows
    sample_weight : (n,) array
    feature_names : sequence of str, optional
    """
    seen = set()
    for kernel in kernels.kernels:
        if isinstance(kernel, TOGETHER):
            try:
                columns = resolve_features(kernel.features, X.shape[1], feature_names)
            except ValueError:
                return  # the bank says what is wrong
            if columns is None or columns.size > 1:
                seen.add(None if columns is None else tuple(columns.tolist()))
    advice = "Give scale='standard', or leave kernels='auto', which does it."
    _warn_if_apart(seen, APART, X, sample_weight, feature_names, advice)


def warn_of_scales_in_product(X, sample_weight, feature_names=None):
    """The same for a product of Gaussians, one for each column."""
    advice = "Widths are learned from equal ones on: give scale='standard'."
    _warn_if_apart({None}, APART_IN_PRODUCTS, X, sample_weight, feature_names, advice)


def _warn_if_apart(seen, ratio, X, sample_weight, feature_names, advice):
    """Warn of the first columns, of those that a kernel sees together, whose spreads are apart."""
    if not seen:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        spreads = np.sqrt(_moments(as_points(X, missing=True), sample_weight)[1])
    for columns in sorted(seen, key=str):
        chosen = np.arange(X.shape[1]) if columns is None else np.asarray(columns)
        used = chosen[spreads[chosen] > 0.0]
        if used.size > 1 and spreads[used].max() > ratio * spreads[used].min():
            largest, least = used[np.argmax(spreads[used])], used[np.argmin(spreads[used])]
            names = [
                f"x{f}" if feature_names is None else str(feature_names[f])
                for f in (largest, least)
            ]
            warnings.warn(
                f"A kernel sees columns of very different spreads ({names[0]}: "
                f"{spreads[largest]:.3g}, {names[1]}: {spreads[least]:.3g}): the largest decide "
                f"what is near. {advice}",
                stacklevel=user_stacklevel(),
            )
            return


def _moments(X, sample_weight):
    """Mean and variance of each column over the rows that have it; means of sparse tables are taken
    to be zero, which keeps their zeros.
    """
    if is_sparse(X):
        return np.zeros(X.shape[1]), weighted_variance(X, sample_weight)
    if not np.isnan(X).any():
        return sample_weight @ X / sample_weight.sum(), weighted_variance(X, sample_weight)
    means, variances = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for f, has in enumerate(~np.isnan(X.T)):
        if has.any():
            column, weight = X[has, f : f + 1], sample_weight[has]
            means[f] = weight @ column[:, 0] / weight.sum()
            variances[f] = weighted_variance(column, weight)[0]
    return means, variances


def standardizes(estimator):
    """True if the kernels of an estimator see columns in units of their spread."""
    kernels = estimator.kernels
    if estimator.scale == "auto":
        made = kernels in MADE if isinstance(kernels, str) else _made_for_groups(kernels)
        return made and estimator.combination == "sum"
    if estimator.scale is None:
        return False
    from ...banks import Bank  # here: predictions need none

    if isinstance(kernels, Bank):
        raise ValueError("scale='standard' needs the kernels themselves, not a fitted bank.")
    if not isinstance(kernels, str) and any(
        isinstance(kernel, Precomputed) for kernel in KernelCollection.of(kernels).kernels
    ):
        raise ValueError(
            "scale='standard' is for columns of numbers, and precomputed kernels read the numbers "
            "of samples: leave scale='auto'."
        )
    return True


def _made_for_groups(kernels):
    return isinstance(kernels, GroupedCollection) and len(kernels.own) < len(kernels.columns)


def _as_given(estimator):
    """Columns that are not standardized, since kernels that were given see them."""
    kernels = estimator.kernels
    if estimator.scale != "auto" or not isinstance(kernels, GroupedCollection):
        return []
    names = getattr(estimator, "feature_names_in_", None)
    try:
        return kernels.columns_as_given(estimator.n_features_in_, names).tolist()
    except ValueError:
        return []  # the bank says what is wrong
