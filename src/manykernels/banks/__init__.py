"""Banks: many kernels on one data set, and all the n×n work on them."""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
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

_WHERE = {
    "Bank": ".base",
    "ColumnBank": ".lowrank.columns",
    "CombinationBank": ".combination",
    "DenseBank": ".dense",
    "FactorBank": ".lowrank.factors",
    "KernelSet": ".kernel_set",
    "MaskedBank": ".masked",
    "MissingBank": ".missing",
    "OnDemandFactorBank": ".lowrank.on_demand",
    "ResolvedKernels": ".resolved",
    "SumBank": ".base",
    "TiledBank": ".tiled",
    "make_bank": ".make",
}

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

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
