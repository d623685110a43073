"""Solvers: algorithms for the kernel weights, all driven by one loop."""

from .base import Iterate, Solver, drive
from .choose import SOLVERS, choose_solver
from .spg import SPG

__all__ = ["SOLVERS", "SPG", "Iterate", "Solver", "choose_solver", "drive"]
