"""Kernels, and collections of them."""

from .base import Kernel
from .callable import FunctionKernel
from .categorical import Hamming
from .collection import KernelCollection
from .grids import paper_bank
from .groups import on_groups
from .precomputed import Precomputed
from .strings import Spectrum
from .vector import RBF, Laplacian, Linear, Polynomial

__all__ = [
    "RBF",
    "FunctionKernel",
    "Hamming",
    "Kernel",
    "KernelCollection",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "Spectrum",
    "on_groups",
    "paper_bank",
]
