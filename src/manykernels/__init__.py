"""manykernels: multiple kernel learning at the speed of one kernel, with certificates.

Names load on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__

if TYPE_CHECKING:  # what `__getattr__` does, for those who read without running
    from .compression import compress as compress
    from .display import report as report
    from .estimators import (
        Checkpoint,
        MKLClassifier,
        MKLClassifierCV,
        MKLFeatureSelector,
        MKLOneClass,
        MKLRegressor,
        MKLRegressorCV,
        explain,
        group_importance,
        path,
        plan,
        shapley_values,
        sparsity_path,
        stability,
    )
    from .kernels import KernelCollection
    from .persistence import load, save

_WHERE = {
    "Checkpoint": ".estimators",
    "KernelCollection": ".kernels",
    "MKLClassifier": ".estimators",
    "MKLClassifierCV": ".estimators",
    "MKLFeatureSelector": ".estimators",
    "MKLOneClass": ".estimators",
    "MKLRegressor": ".estimators",
    "MKLRegressorCV": ".estimators",
    "compress": ".compression",
    "explain": ".estimators",
    "group_importance": ".estimators",
    "load": ".persistence",
    "path": ".estimators",
    "plan": ".estimators",
    "report": ".display",
    "save": ".persistence",
    "shapley_values": ".estimators",
    "sparsity_path": ".estimators",
    "stability": ".estimators",
}

__all__ = [
    "Checkpoint",
    "KernelCollection",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLFeatureSelector",
    "MKLOneClass",
    "MKLRegressor",
    "MKLRegressorCV",
    "compress",
    "explain",
    "group_importance",
    "load",
    "path",
    "plan",
    "report",
    "save",
    "shapley_values",
    "sparsity_path",
    "stability",
]


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
