"""Points as the kernels want them: float64, two-dimensional, finite, dense or CSR."""

import sys
from typing import Any

import numpy as np

# Columns of a table: with more, a number for each would fill the memory.
MOST_COLUMNS = 10**8


def is_sparse(X: Any) -> bool:
    """True if the points are a sparse matrix."""
    sparse = sys.modules.get("scipy.sparse")  # who has such a matrix has imported it
    return sparse is not None and sparse.issparse(X)


def has_holes(X: Any) -> bool:
    """True if a dense table of numbers has NaN."""
    return not is_sparse(X) and X.dtype.kind == "f" and bool(np.isnan(X).any())


def check_width(X: Any) -> None:
    """Raise for a sparse table with more columns than numbers are kept for: a few bytes can claim
    any number of them.
    """
    if X.shape[1] > MOST_COLUMNS:
        raise ValueError(
            f"The table has {X.shape[1]:,} columns, and a number is kept for each of at most "
            f"{MOST_COLUMNS:,}: number the columns that are used one after the other, or hash them "
            "into fewer."
        )


def as_points(X: Any, like: Any = None, missing: bool = False) -> Any:
    """X as a dense float64 array or a canonical CSR array.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame
    like : array or CSR array, optional
        Points whose width and kind the result must have, such as those a bank was fitted on.
    missing : bool
        Allow NaN in an array.
    """
    if is_sparse(X):
        X = _csr(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"Points must be a table of two dimensions, got shape {X.shape}.")
    check_width(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(
            f"Points must be real numbers, got {X.dtype}; strings and categories are read by the "
            "estimators, not by banks."
        )
    X = X if X.dtype == np.float64 else X.astype(np.float64)
    if missing and not is_sparse(X):
        if np.isinf(X).any():
            raise ValueError("Points hold infinite values.")
    elif not np.isfinite(X.data if is_sparse(X) else X).all():
        raise ValueError("Points hold NaN or infinite values.")
    if like is None:
        return X
    if X.shape[1] != like.shape[1]:
        raise ValueError(
            f"These points have {X.shape[1]} features, the bank was fitted on {like.shape[1]}."
        )
    if is_sparse(like):
        return _csr(X)
    return X.toarray() if is_sparse(X) else X


def _csr(X: Any) -> Any:
    from scipy import sparse

    return sparse.csr_array(X)


def narrowed(numbers: np.ndarray) -> np.ndarray:
    """Numbers in float32 where that holds every one of them exactly."""
    with np.errstate(over="ignore"):
        for some in (numbers[:1], numbers):  # mostly the first row tells
            narrow = some.astype(np.float32)
            if not np.array_equal(narrow, some, equal_nan=True):
                return numbers
    return narrow
