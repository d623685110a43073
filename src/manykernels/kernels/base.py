"""Kernels: small value objects, each of which computes blocks of its matrix."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

READS = ("numbers", "categories", "strings")
Features = int | str | slice | Sequence | np.ndarray | None  # columns of X


class Kernel(ABC):
    """One kernel: parameters plus the features it sees.

    A new kernel needs only `block`; give `diagonal` too when it is cheaper than a block. Kernels
    are values: they are never changed after construction and hold nothing that was learned from
    data.

    Attributes
    ----------
    features : None, int, str, slice or sequence of int, str or bool
        The columns of X that the kernel sees; None for all. Names refer to the columns of a
        DataFrame.
    reads : {"numbers", "categories", "strings"}
        Handling of a column of strings or categories. ``"numbers"`` refuses it;
        ``"categories"`` gets numbers that are equal where the entries are; ``"strings"`` gets the
        entries themselves, as an array of objects.
    """

    features: Features = None
    reads: str = "numbers"
    unit_diagonal: bool = False  # True promises k(x, x) = 1 for every x

    @abstractmethod
    def block(self, A: Any, B: Any) -> np.ndarray:
        """Values between the rows of A and the rows of B, shape (len(A), len(B)).

        Parameters
        ----------
        A, B : arrays or CSR matrices
            Points; both hold only `features`.
        """

    def laid_out(self, A: Any) -> Any:
        """Points in a form that `block` reads faster than the points themselves, and takes in their
        place; an array of indices chooses rows of it. Banks ask for it once.
        """
        return A

    def diagonal(self, A: Any) -> np.ndarray:
        """Values ``k(x, x)`` for the rows of A, (len(A),)."""
        if self.unit_diagonal:
            return np.ones(A.shape[0])
        return np.array(
            [self.block(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(A.shape[0])], dtype=float
        )

    @property
    def needs_data(self) -> bool:
        """True if `resolved` looks at the data."""
        return False

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> "Kernel":
        """This kernel, checked, with parameters such as ``gamma="scale"`` replaced by numbers.

        Parameters
        ----------
        A : array or CSR matrix
            The training points; None for a kernel that needs no data.
        sample_weight : (n,) array, optional
            How often each of them counts.
        """
        return self

    @property
    def label(self) -> str:
        """The kernel in words, without its features."""
        return type(self).__name__

    def name(
        self, feature_names: Sequence[str] | None = None, columns: np.ndarray | None = None
    ) -> str:
        """A readable name, such as ``RBF(gamma=0.5) on mean radius``; `columns` are the resolved
        features, where known.
        """
        features = self.features if columns is None or isinstance(self.features, slice) else columns
        return f"{self.label} on {describe_features(features, feature_names)}"


@dataclass(frozen=True)
class NumberedColumns(Sequence[str]):
    """The names of columns that have none, ``x0``, ``x1`` …, made when they are asked for."""

    n_features: int

    def __len__(self) -> int:
        return self.n_features

    def __getitem__(self, place: Any) -> Any:
        places = range(self.n_features)[place]
        return [f"x{f}" for f in places] if isinstance(places, range) else f"x{places}"


def describe_features(features: Features, feature_names: Sequence[str] | None = None) -> str:
    """Words for a choice of features."""
    if features is None:
        return "all features"
    if isinstance(features, str):
        return features
    if isinstance(features, slice):
        parts = [features.start, features.stop] + (
            [features.step] if features.step is not None else []
        )
        return "features [" + ":".join("" if part is None else str(part) for part in parts) + "]"
    listed = [features] if isinstance(features, (int, np.integer)) else list(features)
    words = [
        f if isinstance(f, str) else feature_names[f] if feature_names is not None else f"x{f}"
        for f in listed
    ]
    return (
        ", ".join(words)
        if len(words) <= 4
        else f"{', '.join(words[:2])}, … ({len(words)} features)"
    )


def resolve_features(
    features: Features, n_features: int, feature_names: Sequence[str] | None = None
) -> np.ndarray | None:
    """Column indices for a choice of features.

    Parameters
    ----------
    features : see `Kernel`.
    n_features : int
        Number of columns of X.
    feature_names : sequence of str, optional
        Names of those columns, needed when `features` holds names.

    Returns
    -------
    ndarray of int, or None for all columns.
    """
    if features is None:
        return None
    if isinstance(features, slice):
        try:
            chosen = np.arange(n_features)[features]
        except TypeError:
            raise ValueError(
                f"features={features!r}: a slice counts columns; give names one by one, in a list."
            ) from None
    else:
        listed = np.atleast_1d(
            np.asarray(list(features) if isinstance(features, (set, frozenset)) else features)
        )
        if listed.ndim != 1:
            raise ValueError(f"features must be a flat list of columns, got {features!r}.")
        chosen = (
            _indices(listed, n_features, feature_names)
            if listed.size
            else np.empty(0, dtype=np.intp)
        )
    if chosen.size == 0:
        raise ValueError(f"features={features!r} selects none of the {n_features} columns of X.")
    return chosen


def _indices(
    listed: np.ndarray, n_features: int, feature_names: Sequence[str] | None
) -> np.ndarray:
    if listed.dtype.kind in "UOT":
        return _named(listed.tolist(), feature_names)
    if listed.dtype == bool:
        if listed.size != n_features:
            raise ValueError(
                f"A boolean choice of features needs one entry per column: {n_features}, got "
                f"{listed.size}."
            )
        return np.flatnonzero(listed)
    if listed.dtype.kind not in "iu":
        raise ValueError(
            "features must be indices, names, booleans or a slice, got values of type "
            f"{listed.dtype}."
        )
    outside = listed[(listed < -n_features) | (listed >= n_features)]
    if outside.size:
        raise ValueError(
            f"Feature indices {outside[:5].tolist()} are outside the {n_features} columns of X."
        )
    return listed % n_features


def _named(names: list[str], feature_names: Sequence[str] | None) -> np.ndarray:
    if feature_names is None:
        raise ValueError(
            f"Features were chosen by name ({names[:5]}), but X has no column names: pass a "
            "DataFrame."
        )
    position = {name: i for i, name in enumerate(feature_names)}
    unknown = [name for name in names if name not in position]
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise ValueError(
            f"Unknown column names {unknown[:5]}{more}; X has "
            f"{list(feature_names)[:10]}{' …' * (len(position) > 10)}."
        )
    return np.array([position[name] for name in names])
