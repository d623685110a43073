"""Kernels from a plain function."""

from dataclasses import dataclass

import numpy as np

from .base import Kernel


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel from a function ``function(A, B) -> (len(A), len(B))``, as scikit-learn's pairwise functions are.

    A function in a list of kernels is wrapped in one of these.
    """

    function: object
    features: object = None
    title: str | None = None

    def block(self, A, B):
        values = np.asarray(self.function(A, B), dtype=float)
        if values.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"The kernel {self.label} returned shape {values.shape} for {A.shape[0]} and {B.shape[0]} rows; "
                f"it must return ({A.shape[0]}, {B.shape[0]})."
            )
        return values

    @property
    def label(self):
        return self.title or getattr(self.function, "__name__", type(self.function).__name__)
