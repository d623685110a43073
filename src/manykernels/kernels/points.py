"""Points as the kernels want them: float64, two-dimensional, finite, dense or CSR."""

import numpy as np
from scipy import sparse


def as_points(X, like=None):
    """X as a dense float64 array or a canonical CSR array.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame
    like : array or CSR array, optional
        Points whose width and kind the result must have, such as those a bank was fitted on.
    """
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"Points must be a table of two dimensions, got shape {X.shape}.")
    if X.dtype.kind not in "fiub":
        raise ValueError(
            f"Points must be real numbers, got {X.dtype}; strings and categories are read by the "
            "estimators, not by banks."
        )
    X = X if X.dtype == np.float64 else X.astype(np.float64)
    if not np.isfinite(X.data if sparse.issparse(X) else X).all():
        raise ValueError("Points hold NaN or infinite values.")
    if like is None:
        return X
    if X.shape[1] != like.shape[1]:
        raise ValueError(
            f"These points have {X.shape[1]} features, the bank was fitted on {like.shape[1]}."
        )
    if sparse.issparse(like):
        return sparse.csr_array(X)
    return X.toarray() if sparse.issparse(X) else X
