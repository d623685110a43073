"""Solvers: algorithms for the kernel weights, all driven by one loop."""

from .base import Iterate, Solver
from .choose import AUTO, SOLVERS, choose_solver
from .group_lasso import GroupLasso
from .loop import drive, solve
from .lowrank.blocks import Blocks
from .lowrank.interior import Interior
from .lowrank.primal import PrimalNewton
from .multiplicative import MultiplicativeWeights
from .newton import Newton
from .reference.gfb import GFB
from .smo_mkl import SMO
from .spg import SPG

__all__ = [
    "AUTO",
    "GFB",
    "SMO",
    "SOLVERS",
    "SPG",
    "Blocks",
    "GroupLasso",
    "Interior",
    "Iterate",
    "MultiplicativeWeights",
    "Newton",
    "PrimalNewton",
    "Solver",
    "choose_solver",
    "drive",
    "solve",
]
