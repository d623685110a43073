"""Kernels, and collections of them."""

from .base import Kernel
from .callable import FunctionKernel
from .collection import KernelBank
from .grids import paper_bank
from .precomputed import Precomputed
from .vector import RBF, Laplacian, Linear, Polynomial

__all__ = [
    "RBF",
    "FunctionKernel",
    "Kernel",
    "KernelBank",
    "Laplacian",
    "Linear",
    "Polynomial",
    "Precomputed",
    "paper_bank",
]
