"""Kernels from a plain function."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Features, Kernel


@dataclass(frozen=True)
class FunctionKernel(Kernel):
    """A kernel from a function ``function(A, B) -> (len(A), len(B))``, as scikit-learn's pairwise
    functions are.

    A function in a list of kernels is wrapped in one of these. So are the kernel objects of
    scikit-learn's ``gaussian_process.kernels``; of those the ``diag`` is used too.

    Parameters
    ----------
    function : callable
    features : as for `Kernel`
    title : str, optional
        A name for tables and plots.
    reads : {"numbers", "categories", "strings"}
        As for `Kernel`: a function of strings gets arrays of objects of shape (n, 1).
    """

    function: Any
    features: Features = None
    title: str | None = None
    reads: str = "numbers"

    def block(self, A: Any, B: Any) -> np.ndarray:
        values = np.asarray(self.function(A, B), dtype=float)
        if values.shape != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"The kernel {self.label} returned shape {values.shape} for {A.shape[0]} and "
                f"{B.shape[0]} rows; "
                f"it must return ({A.shape[0]}, {B.shape[0]})."
            )
        return values

    def diagonal(self, A: Any) -> np.ndarray:
        return (
            np.asarray(self.function.diag(A), dtype=float)
            if self.needs_data
            else super().diagonal(A)
        )

    @property
    def needs_data(self) -> bool:
        return callable(getattr(self.function, "diag", None))

    def resolved(self, A: Any, sample_weight: np.ndarray | None) -> "FunctionKernel":
        """This kernel, after a look at whether ``diag`` and values belong together."""
        if self.needs_data and not np.allclose(
            self.diagonal(A[:1]), np.diagonal(self.block(A[:1], A[:1])), rtol=1e-6
        ):
            raise ValueError(
                f"The kernel {self.label} has another diagonal than its values: noise, such as a "
                "WhiteKernel's, is not a "
                "kernel between samples. Leave it out; C says how far errors count."
            )
        return self

    @property
    def label(self) -> str:
        if self.title:
            return self.title
        return (
            str(self.function)
            if self.needs_data
            else getattr(self.function, "__name__", type(self.function).__name__)
        )
