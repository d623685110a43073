"""Kernels of categories."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Features, Kernel
from .vector import pair_distances


@dataclass(frozen=True)
class Hamming(Kernel):
    """The share of columns in which two rows are equal, ``sum_f w_f [x_f = y_f] / sum_f w_f``.

    For categories: strings, pandas or polars categories, numbers that stand for kinds. A category
    that was not there in training is equal to none.

    Parameters
    ----------
    features : as for `Kernel`
    weights : sequence of float, optional
        One per column, zero or more; all equal by default.
    """

    features: Features = None
    weights: Sequence[float] | None = None
    unit_diagonal = True
    reads = "categories"

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> "Hamming":
        if self.weights is None:
            return self
        weights = np.asarray(self.weights, dtype=float)
        if (
            weights.shape != A.shape[1:]
            or not np.isfinite(weights).all()
            or weights.min() < 0
            or not weights.any()
        ):
            raise ValueError(
                f"Hamming needs one weight of at least zero for each of its {A.shape[1]} columns, "
                "and one above zero, "
                f"got {self.weights!r}."
            )
        return self

    @property
    def needs_data(self) -> bool:
        return self.weights is not None

    def block(self, A: Any, B: Any) -> np.ndarray:
        weights = None if self.weights is None else np.asarray(self.weights, dtype=float)
        return 1.0 - pair_distances(A, B, "hamming", w=weights)

    @property
    def label(self) -> str:
        return "Hamming" if self.weights is None else "Hamming(weighted)"
