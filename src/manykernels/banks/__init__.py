"""Banks: many kernels on one data set, and all the n×n work on them."""

from .base import Bank, SumBank
from .combination import CombinationBank
from .dense import DenseBank
from .kernel_set import KernelSet
from .lowrank.columns import ColumnBank
from .lowrank.factors import FactorBank
from .lowrank.on_demand import OnDemandFactorBank
from .make import make_bank
from .masked import MaskedBank
from .missing import MissingBank
from .resolved import ResolvedKernels
from .tiled import TiledBank

__all__ = [
    "Bank",
    "ColumnBank",
    "CombinationBank",
    "DenseBank",
    "FactorBank",
    "KernelSet",
    "MaskedBank",
    "MissingBank",
    "OnDemandFactorBank",
    "ResolvedKernels",
    "SumBank",
    "TiledBank",
    "make_bank",
]
