"""Ready-made collections of kernels."""

import numpy as np

from .collection import KernelBank
from .points import as_points
from .vector import RBF, Polynomial, weighted_variance

PAPER_WIDTHS = 2.0 ** np.arange(-3, 7)
PAPER_DEGREES = (1, 2, 3)


def paper_bank(X, sample_weight=None):
    """The bank of the MKL papers: on every feature and on all, Gaussians of ten widths and polynomials of degree 1 to 3.

    The widths ``2^-3 … 2^6`` and the dot products are in units of the feature's standard deviation (for the kernels on
    all features, of the root mean variance), so that on standardised data they are exactly the papers' and on other data
    they still fit. A constant feature counts as having unit variance. Its polynomials are not centred, so standardise
    features that lie far from zero.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    sample_weight : array of shape (n_samples,), optional

    Returns
    -------
    KernelBank of ``13 (n_features + 1)`` kernels.
    """
    variances = weighted_variance(as_points(X), sample_weight)
    variances = np.where(variances > 0, variances, 1.0)
    kernels = [kernel for f, v in enumerate(variances) for kernel in _one_subset(v, (f,))]
    return KernelBank(kernels + _one_subset(variances.mean(), None))


def _one_subset(variance, features):
    gammas = 1.0 / (2.0 * PAPER_WIDTHS[::-1] ** 2 * variance)
    gaussians = [RBF(gamma=float(gamma), features=features) for gamma in gammas]
    return gaussians + [Polynomial(degree=q, gamma=float(1.0 / variance), features=features) for q in PAPER_DEGREES]
