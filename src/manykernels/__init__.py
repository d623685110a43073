"""manykernels: multiple kernel learning at the speed of one kernel, with certificates.

Names load on first use, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING

from ._lazy import lazy_names
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
        kernel_drift,
        path,
        plan,
        shapley_values,
        sparsity_path,
        stability,
    )
    from .kernels import KernelCollection
    from .persistence import Predictor, load, save

_WHERE = {
    "Checkpoint": ".estimators",
    "KernelCollection": ".kernels",
    "MKLClassifier": ".estimators",
    "MKLClassifierCV": ".estimators",
    "MKLFeatureSelector": ".estimators",
    "MKLOneClass": ".estimators",
    "MKLRegressor": ".estimators",
    "MKLRegressorCV": ".estimators",
    "Predictor": ".persistence",
    "compress": ".compression",
    "explain": ".estimators",
    "group_importance": ".estimators",
    "kernel_drift": ".estimators",
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
    "Predictor",
    "compress",
    "explain",
    "group_importance",
    "kernel_drift",
    "load",
    "path",
    "plan",
    "report",
    "save",
    "shapley_values",
    "sparsity_path",
    "stability",
]


__getattr__, __dir__ = lazy_names(__name__, _WHERE)
