"""Banks: many kernels on one data set, and all the n×n work on them."""

from .base import Bank
from .between import KernelsOnPoints
from .choose import make_bank
from .combined import CombinationBank
from .dense import DenseBank
from .factors import FactorBank
from .masked import MaskedBank
from .tiled import TiledBank

__all__ = ["Bank", "CombinationBank", "DenseBank", "FactorBank", "KernelsOnPoints", "MaskedBank", "TiledBank", "make_bank"]
