"""Solvers: algorithms for the kernel weights, all driven by one loop."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import Iterate, Solver
from .choose import AUTO, SOLVERS, choose_solver
from .group_lasso import GroupLasso
from .loop import drive, solve
from .lowrank.blocks import Blocks
from .lowrank.interior import Interior
from .lowrank.multipliers import Multipliers
from .lowrank.primal import PrimalNewton
from .multiplicative import MultiplicativeWeights
from .newton import Newton
from .quasi_newton import QuasiNewton
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
    "Multipliers",
    "Newton",
    "PrimalNewton",
    "QuasiNewton",
    "Solver",
    "choose_solver",
    "drive",
    "solve",
]

if TYPE_CHECKING:
    from .reference.gfb import GFB


def __getattr__(name: str) -> Any:
    if name == "GFB":  # a method of a paper's tables, which no other fit imports
        return import_module(".reference.gfb", __name__).GFB
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
