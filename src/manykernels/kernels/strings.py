"""Kernels of strings."""

import copy
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .base import Features, Kernel

# share of entries that are not zero, from which on a product of dense matrices is faster
DENSE_SHARE = 0.05


class Counts(NamedTuple):
    """Counts of every substring in some strings.

    Attributes
    ----------
    vocabulary : (v,) uint64, ascending
        Keys of the substrings that are counted.
    matrix : (n, v) CSR array
    norms : (n,) array
        Lengths of the rows, with the substrings that are not in the vocabulary.
    """

    vocabulary: np.ndarray
    matrix: Any
    norms: np.ndarray

    def rows(self, chosen: list[int]) -> "Counts":
        """Counts of some of the strings."""
        return Counts(self.vocabulary, self.matrix[chosen], self.norms[chosen])


@dataclass(frozen=True)
class Spectrum(Kernel):
    """Strings by the substrings of length k that they share: ``sum_s count_s(x) count_s(y)`` over
    all s of k letters.

    X has a column of strings: of a data frame, or of an array of objects. Letters are compared as
    they are, so ``a`` is not ``A``. A string of fewer than k letters is like no other (C. Leslie,
    E. Eskin and W. S. Noble, PSB 2002).

    Parameters
    ----------
    k : int
        Letters of a substring. Several kernels with different k make a good bank.
    normalized : bool
        Divide by the lengths of the vectors of counts, so that long strings do not outweigh short
        ones.
    features : int or str, optional
        The column of strings; needed when X has others too.
    """

    k: int = 3
    normalized: bool = True
    features: Features = None
    reads = "strings"
    needs_data = True
    # places and counts of the training strings, after `resolved`
    _known: ClassVar[tuple[dict[str, int], Counts] | None] = None

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> "Spectrum":
        if not isinstance(self.k, numbers.Integral) or self.k < 1:
            raise ValueError(f"Spectrum needs a whole number k of at least 1, got {self.k!r}.")
        strings = list(dict.fromkeys(_strings(A)))
        twin = copy.copy(self)
        place = {string: row for row, string in enumerate(strings)}
        object.__setattr__(twin, "_known", (place, count_substrings(strings, self.k)))
        return twin

    def block(self, A: Any, B: Any) -> np.ndarray:
        left, right = self._counts(A, B)
        values = _products(left.matrix, right.matrix)
        return (
            values / np.outer(_above_zero(left.norms), _above_zero(right.norms))
            if self.normalized
            else values
        )

    def diagonal(self, A: Any) -> np.ndarray:
        norms = (self._recalled(A) or count_substrings(_strings(A), self.k)).norms
        return (norms > 0.0).astype(float) if self.normalized else np.square(norms)

    def _counts(self, A: Any, B: Any) -> tuple[Counts, Counts]:
        """Counts of both over one vocabulary: what only one of them has adds nothing."""
        recalled = self._recalled(B)
        right = recalled or count_substrings(_strings(B), self.k)
        if A is B:
            return right, right
        left = self._recalled(A) if recalled else None
        return left or count_substrings(_strings(A), self.k, right.vocabulary), right

    def _recalled(self, A: Any) -> Counts | None:
        """Counts of strings that are all known from training, or None."""
        if self._known is None:
            return None
        place, counts = self._known
        rows = [place.get(string, -1) for string in _strings(A)]
        return counts.rows(rows) if rows and min(rows) >= 0 else None

    @property
    def label(self) -> str:
        return f"Spectrum(k={self.k}{'' if self.normalized else ', normalized=False'})"


def count_substrings(strings: list[str], k: int, vocabulary: np.ndarray | None = None) -> Counts:
    """`Counts` of the substrings of k letters, by 64-bit keys; of those in a vocabulary only, if
    one is given.
    """
    from scipy import sparse

    keys, owners = _substrings(strings, k)
    everything, places = np.unique(keys, return_inverse=True)
    matrix = sparse.csr_array(
        (np.ones(keys.size), (owners, places)), shape=(len(strings), everything.size)
    )
    matrix.sum_duplicates()
    norms = np.sqrt(matrix.multiply(matrix).sum(axis=1))
    if vocabulary is None:
        return Counts(everything, matrix, norms)
    places = np.searchsorted(vocabulary, everything)
    known = np.flatnonzero(np.searchsorted(vocabulary, everything, "right") > places)
    kept = matrix[:, known]
    moved = sparse.csr_array(
        (kept.data, places[known][kept.indices], kept.indptr), shape=(len(strings), vocabulary.size)
    )
    return Counts(vocabulary, moved, norms)


def _substrings(strings: list[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """A key for every substring, equal for equal ones, and the number of its string."""
    from .._canonical import scramble

    letters = np.frombuffer(
        "".join(strings).encode("utf-32-le", "surrogatepass"), dtype="<u4"
    ).astype(np.uint64)
    lengths = np.array([len(string) for string in strings], dtype=np.intp)
    windows = np.maximum(lengths - k + 1, 0)
    owners = np.repeat(np.arange(lengths.size), windows)
    first = np.cumsum(lengths) - lengths - (np.cumsum(windows) - windows)
    starts = np.arange(owners.size) + first[owners]
    keys = np.zeros(owners.size, dtype=np.uint64)
    for place in range(k):
        # a sum of scrambled letters, each scrambled in its own way by its place: two substrings in
        # 2^64 would collide
        keys += scramble(letters + scramble(np.uint64(place + 1)))[starts + place]
    return keys, owners


def _products(left: Any, right: Any) -> np.ndarray:
    """``left @ right.T`` as an array."""
    if (
        min(left.nnz / max(np.prod(left.shape), 1), right.nnz / max(np.prod(right.shape), 1))
        > DENSE_SHARE
    ):
        return left.toarray() @ right.toarray().T
    return (left @ right.T).toarray()


def _above_zero(norms: np.ndarray) -> np.ndarray:
    return np.where(norms > 0.0, norms, 1.0)


def _strings(A: Any) -> list[str]:
    """The strings of a column (n, 1)."""
    A = np.asarray(A, dtype=object)
    if A.ndim != 2 or A.shape[1] != 1:
        raise ValueError(
            f"Spectrum needs one column of strings, got shape {A.shape}; say features=<the column>."
        )
    strings = A[:, 0].tolist()
    odd = next((entry for entry in strings if not isinstance(entry, str)), None)
    if odd is not None:
        raise ValueError(
            f"Spectrum needs strings, got {odd!r}; say features=<the column of strings>."
        )
    return strings
