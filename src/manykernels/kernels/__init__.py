"""Kernels, and collections of them."""

from .base import Kernel
from .callable import FunctionKernel
from .categorical import Hamming
from .collection import KernelCollection
from .grids import auto_bank, paper_bank
from .groups import on_groups
from .overlaps import MinMax, Tanimoto
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
    "MinMax",
    "Polynomial",
    "Precomputed",
    "Spectrum",
    "Tanimoto",
    "auto_bank",
    "on_groups",
    "paper_bank",
]
