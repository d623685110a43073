"""Banks: many kernels on one data set, and all the n×n work on them."""

from .base import Bank, SumBank
from .between import KernelsOnPoints
from .combination import CombinationBank
from .dense import DenseBank
from .columns import ColumnBank
from .factors import FactorBank
from .made import MadeBank
from .holder import KernelHolder
from .make import make_bank
from .masked import MaskedBank
from .missing import MissingBank
from .tiled import TiledBank

__all__ = [
    "Bank",
    "CombinationBank",
    "DenseBank",
    "ColumnBank",
    "FactorBank",
    "MadeBank",
    "KernelHolder",
    "KernelsOnPoints",
    "MaskedBank",
    "MissingBank",
    "SumBank",
    "TiledBank",
    "make_bank",
]
