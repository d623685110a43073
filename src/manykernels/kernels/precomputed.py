"""Gram matrices that the user has computed."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Features, Kernel


class Precomputed(Kernel):
    """A kernel given by its Gram matrix over all samples, as an array or a memory map; it is never
    copied whole.

    X is then a column of sample indices into the matrix, so that splitting X splits the kernel:
    `GridSearchCV`, `cross_val_score` and pipelines work unchanged.

    Parameters
    ----------
    K : array of shape (n_samples, n_samples)
        Symmetric and positive semidefinite.
    features : int or str, optional
        The column of X that holds the sample indices; needed only when X has other columns too.
    title : str, optional
        A name for tables and plots.
    """

    def __init__(self, K: Any, features: Features = None, title: str | None = None) -> None:
        self.K = K
        self.features = features
        self.title = title

    def block(self, A: Any, B: Any) -> np.ndarray:
        return submatrix(self.K, self.indices(A), self.indices(B))

    def diagonal(self, A: Any) -> np.ndarray:
        indices = self.indices(A)
        return np.asarray(self.K[indices, indices], dtype=float)

    def indices(self, A: Any) -> np.ndarray:
        """The sample indices in A (n, 1), checked against the size of the matrix."""
        if A.shape[1] != 1:
            raise ValueError(
                f"Precomputed kernels need X to be one column of sample indices, got {A.shape[1]} "
                "columns; "
                "use X = np.arange(n_samples)[:, None], or say features=<the index column>."
            )
        values = np.asarray(A.toarray() if hasattr(A, "toarray") else A).ravel()
        indices = values.astype(np.intp)
        if not np.array_equal(indices, values):
            raise ValueError("Precomputed kernels need X to be a column of whole sample indices.")
        if indices.size and (indices.min() < 0 or indices.max() >= self.K.shape[0]):
            raise ValueError(
                f"Sample indices run from {indices.min()} to {indices.max()}, but the Gram matrix "
                f"has {self.K.shape[0]} rows."
            )
        return indices

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> "Precomputed":
        if hasattr(self.K, "toarray"):
            raise ValueError(
                "Precomputed needs a dense matrix, got a sparse one; pass K.toarray()."
            )
        return (
            self
            if isinstance(self.K, np.ndarray)
            else Precomputed(np.asarray(self.K), self.features, self.title)
        )

    @property
    def label(self) -> str:
        return self.title or "Precomputed"

    def name(
        self, feature_names: Sequence[str] | None = None, columns: np.ndarray | None = None
    ) -> str:
        return self.label

    def __deepcopy__(self, memo: dict[int, Any]) -> "Precomputed":
        return self  # a value: cloning an estimator must not copy the matrix

    def __repr__(self) -> str:
        title = f", title={self.title!r}" if self.title else ""
        return f"Precomputed({'x'.join(map(str, np.shape(self.K)))}{title})"


class GramElsewhere(Precomputed):
    """A precomputed kernel whose matrix is not at hand, as in a model that was loaded from a file.

    Predictions are then made from the matrices K(test, train).
    """

    def __init__(self, features: Features = None, title: str | None = None) -> None:
        super().__init__(None, features, title)

    def indices(self, A: Any) -> np.ndarray:
        raise ValueError(
            "The Gram matrices of precomputed kernels are not in a model file: predict from the "
            "matrices K(test, train) of all "
            "kernels (a list of arrays, one column per training sample), and give Precomputed(K) "
            "again to train."
        )

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> "Precomputed":
        self.indices(A)  # raises
        return self

    def __repr__(self) -> str:
        return f"Precomputed(not at hand{f', title={self.title!r}' if self.title else ''})"


def submatrix(K: Any, rows: np.ndarray, cols: np.ndarray) -> Any:
    """``K[rows][:, cols]``, as a view where the indices are consecutive."""
    some_rows, some_cols = _consecutive(rows), _consecutive(cols)
    if isinstance(some_rows, slice) or isinstance(some_cols, slice):
        return K[some_rows][:, some_cols]
    return K[np.ix_(rows, cols)]


def _consecutive(indices: np.ndarray) -> np.ndarray | slice:
    """A slice in place of indices that follow each other."""
    if (
        indices.size
        and indices[-1] - indices[0] + 1 == indices.size
        and (np.diff(indices) == 1).all()
    ):
        return slice(int(indices[0]), int(indices[-1]) + 1)
    return indices


def check_gram(K: Any, where: str = "The Gram matrix") -> None:
    """Raise unless K is a square, finite, symmetric and not clearly indefinite matrix.

    A principal submatrix of at most 512 rows is tried for a Cholesky factor, which is all that a
    negative eigenvalue needs to be found in practice and costs little; symmetry and finiteness are
    checked on all entries, in strips.
    """
    if getattr(K, "ndim", 0) != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(
            f"{where} must be square, (n_samples, n_samples), got shape {np.shape(K)}."
        )
    if K.dtype.kind not in "fiub":
        raise ValueError(f"{where} must hold real numbers, got {K.dtype}.")
    largest = _check_entries(K, where)
    _check_definite(K, largest, where)


def _check_entries(K: Any, where: str, strip: int = 512) -> float:
    """Raise unless all entries are finite and symmetric; the largest size of one."""
    largest = asymmetry = 0.0
    for start in range(0, K.shape[0], strip):
        rows = np.asarray(K[start : start + strip], dtype=float)
        if not np.isfinite(rows).all():
            raise ValueError(f"{where} holds NaN or infinite values.")
        largest = max(largest, np.abs(rows).max(initial=0.0))
        asymmetry = max(
            asymmetry,
            np.abs(rows - np.asarray(K[:, start : start + strip], dtype=float).T).max(initial=0.0),
        )
    if asymmetry > 1e-5 * largest:
        raise ValueError(
            f"{where} is not symmetric: entries differ from their mirror image by up to "
            f"{asymmetry:.3g}."
        )
    return largest


def _check_definite(K: Any, largest: float, where: str) -> None:
    """Raise if a principal submatrix is clearly indefinite."""
    if largest == 0.0:
        return  # a zero kernel is odd but semidefinite: the bank warns
    rows = np.unique(np.linspace(0, K.shape[0] - 1, min(512, K.shape[0])).astype(np.intp))
    sample = np.asarray(K[np.ix_(rows, rows)], dtype=float) / largest
    shift = 1e-6 * rows.size  # generous beside the rounding of a float32 matrix
    try:
        np.linalg.cholesky(sample + shift * np.eye(rows.size))
    except np.linalg.LinAlgError:
        smallest, *_, greatest = np.linalg.eigvalsh(sample) * largest
        part = "" if rows.size == K.shape[0] else f", on {rows.size} of the samples"
        raise ValueError(
            f"{where} is not positive semidefinite: its most negative eigenvalue is {smallest:.3g} "
            f"(the largest is {greatest:.3g}{part})."
        ) from None
