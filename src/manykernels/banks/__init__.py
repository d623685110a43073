"""Banks: many kernels on one data set, and all the n×n work on them."""

from .base import Bank, SumBank
from .between import KernelsOnPoints
from .columns import ColumnBank
from .combination import CombinationBank
from .dense import DenseBank
from .factors import FactorBank
from .holder import KernelHolder
from .made import MadeBank
from .make import make_bank
from .masked import MaskedBank
from .missing import MissingBank
from .tiled import TiledBank

__all__ = [
    "Bank",
    "ColumnBank",
    "CombinationBank",
    "DenseBank",
    "FactorBank",
    "KernelHolder",
    "KernelsOnPoints",
    "MadeBank",
    "MaskedBank",
    "MissingBank",
    "SumBank",
    "TiledBank",
    "make_bank",
]
