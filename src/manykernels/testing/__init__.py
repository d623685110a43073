"""Public checks for people who write their own parts.

A check tries the laws that the rest of the library relies on, on random points, and raises an
AssertionError that names the first law broken.
"""

from .banks import check_bank
from .kernels import check_combination, check_kernel
from .regularizers import check_regularizer
from .solvers import check_solver

__all__ = ["check_bank", "check_combination", "check_kernel", "check_regularizer", "check_solver"]
