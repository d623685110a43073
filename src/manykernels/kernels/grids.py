"""Ready-made collections of kernels."""

import warnings
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from .._callers import user_stacklevel
from .base import Kernel
from .categorical import Hamming
from .collection import KernelCollection
from .points import as_points, is_sparse
from .vector import RBF, Linear, Polynomial, weighted_variance

# Gaussians on all columns of a table, in units of the mean squared distance and half of it; one
# Gaussian on each column; and how many columns have one of their own
AUTO_FACTORS, AUTO_SINGLE, AUTO_MOST = 2.0 ** np.arange(-3, 2), 0.5, 500
# One of the kernels on all columns alone: an SVM of one kernel, as others tune it. A Gaussian is
# named by gamma times the number of columns.
AUTO_ALONE = {
    **{f"rbf {Fraction(float(factor))}": factor for factor in AUTO_FACTORS},
    "linear": None,
}
PAPER_WIDTHS = 2.0 ** np.arange(-3, 7)
PAPER_DEGREES = (1, 2, 3)
# Variance of which one over is a number, and widths are: larger ones are refused.
LARGEST_VARIANCE = 1e303
# Distinct categories per sample of a column: one with more says nothing of others, and is left out.
MOST_CATEGORIES = 0.5


def auto_bank(
    X: Any,
    categorical: Iterable[int] = (),
    feature_names: Sequence[str] | None = None,
    kind: str = "auto",
) -> KernelCollection:
    """The kernels of ``kernels="auto"`` for a table whose columns of numbers have unit variance;
    without kernels on single columns, of ``kernels="whole"``; and with one of those alone, such as
    ``kernels="rbf 1/2"`` or ``kernels="linear"``.

    On all d columns of numbers, Gaussians with gamma ``1 / 8d … 2 / d`` and a linear kernel: widths
    that follow the distances between points, which grow with d (the papers' widths do not, and on
    thirty columns the narrow ones are identity matrices). On each column a Gaussian with gamma 1/2,
    so that the weights say which columns matter. Columns that are constant have none. Of more than
    500 columns single ones have none: each costs as much as one on all columns, and
    `MKLFeatureSelector` and groups of columns (`on_groups`) are made for that.

    The benchmark ``defaults`` compares it with others.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_samples, n_features)
    categorical, feature_names
        As for `paper_bank`.
    kind : {"auto", "whole", "rbf 1/8", "rbf 1/4", "rbf 1/2", "rbf 1", "rbf 2", "linear"}
        Which kernels; a number is gamma times d.

    Returns
    -------
    KernelCollection
    """
    if X.shape[0] == 1:
        raise ValueError(
            "Kernels that are made from the data need two or more different rows, and got 1 "
            "sample: add rows, or give kernels, such as kernels=[RBF(), Linear()] of "
            "manykernels.kernels."
        )
    categorical = tuple(categorical)
    spans = _span(X)
    numeric = tuple(np.setdiff1d(np.flatnonzero(spans > 0.0), categorical).tolist())
    kernels: list[Kernel] = []
    if numeric:
        together = None if len(numeric) == X.shape[1] else numeric
        for name, factor in AUTO_ALONE.items():
            if kind in ("auto", "whole", name):
                kernels.append(
                    Linear(features=together)
                    if factor is None
                    else RBF(gamma=float(factor / len(numeric)), features=together)
                )
        if kind == "auto" and 1 < len(numeric) <= AUTO_MOST:
            kernels += [RBF(gamma=AUTO_SINGLE, features=(f,)) for f in numeric]
    kernels += _on_categories(_kinds(X, categorical, feature_names), kind == "auto")
    if not kernels:
        raise ValueError(
            "No column says anything about more than one row: all are constant, or hold categories "
            "that hardly ever come twice."
        )
    return KernelCollection(kernels)


def auto_count(columns: int, kind: str = "auto") -> int:
    """Number of kernels that `auto_bank` makes for so many columns of numbers, none constant."""
    if kind in AUTO_ALONE:
        return 1
    return len(AUTO_ALONE) + (columns if kind == "auto" and 1 < columns <= AUTO_MOST else 0)


def _span(X: Any) -> np.ndarray:
    """Largest less smallest value of every column."""
    if is_sparse(X):
        return X.max(axis=0).toarray().ravel() - X.min(axis=0).toarray().ravel()
    return np.ptp(X, axis=0)


def paper_bank(
    X: Any,
    sample_weight: np.ndarray | None = None,
    categorical: Iterable[int] = (),
    feature_names: Sequence[str] | None = None,
) -> KernelCollection:
    """The bank of the MKL papers: on every feature and on all, Gaussians of ten widths and
    polynomials of degree 1 to 3.

    The widths ``2^-3 … 2^6`` and the dot products are in units of the feature's standard deviation
    (for the kernels on all features, of the root mean variance), so that on standardized data they
    are exactly the papers' and on other data they still fit. A constant feature counts as having
    unit variance. Its polynomials are not centered, so standardize features that lie far from zero.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    sample_weight : array of shape (n_samples,), optional
    categorical : sequence of int
        Columns that hold codes of categories. Each has a `Hamming` kernel, and so have all of them
        together; the other kernels are on the other columns. Columns like names, in which few
        entries come twice, are left out with a warning: they identify a sample and say nothing of
        others.
    feature_names : sequence of str, optional
        For that warning.

    Returns
    -------
    KernelCollection of ``13 (n_features + 1)`` kernels if there are no categories.
    """
    categorical = tuple(categorical)
    numeric = tuple(f for f in range(X.shape[1]) if f not in categorical)
    kinds = _kinds(X, categorical, feature_names)
    return KernelCollection(_on_numbers(X, sample_weight, numeric) + _on_categories(kinds))


def _kinds(
    X: Any, categorical: tuple[int, ...], feature_names: Sequence[str] | None
) -> tuple[int, ...]:
    """The columns of categories that say something of more than one sample."""
    kinds = tuple(f for f in categorical if np.unique(X[:, f]).size <= MOST_CATEGORIES * X.shape[0])
    if len(kinds) < len(categorical):
        out = sorted(set(categorical) - set(kinds))
        names = [f if feature_names is None else str(feature_names[f]) for f in out]
        warnings.warn(
            f"The columns {names} hold categories that hardly ever come twice; they are left "
            "out. If they are strings to be compared, give kernels for them, such as "
            "Spectrum(features=...).",
            stacklevel=user_stacklevel(),
        )
    return kinds


def _on_numbers(X: Any, sample_weight: np.ndarray | None, columns: tuple[int, ...]) -> list[Kernel]:
    if not columns:
        return []
    everything = None if len(columns) == X.shape[1] else columns
    variances = weighted_variance(
        as_points(X if everything is None else X[:, columns]), sample_weight
    )
    variances = np.where(variances > 0, variances, 1.0)
    if not ((variances > 1.0 / LARGEST_VARIANCE) & (variances < LARGEST_VARIANCE)).all():
        raise ValueError("The variance of the features is too large or small; rescale them.")
    kernels = [
        kernel for f, v in zip(columns, variances, strict=True) for kernel in _one_subset(v, (f,))
    ]
    return kernels + _one_subset(variances.mean(), everything)


def _on_categories(columns: tuple[int, ...], single: bool = True) -> list[Kernel]:
    kernels: list[Kernel] = [Hamming(features=(f,)) for f in columns]
    if not single and len(columns) > 1:
        return [Hamming(features=columns)]
    return [*kernels, Hamming(features=columns)] if len(columns) > 1 else kernels


def _one_subset(variance: float, features: tuple[int, ...] | None) -> list[Kernel]:
    gammas = 1.0 / (2.0 * PAPER_WIDTHS[::-1] ** 2 * variance)
    gaussians: list[Kernel] = [RBF(gamma=float(gamma), features=features) for gamma in gammas]
    return gaussians + [
        Polynomial(degree=q, gamma=float(1.0 / variance), features=features) for q in PAPER_DEGREES
    ]
