"""manykernels: multiple kernel learning at the speed of one kernel, with certificates.

Names load on first use, so that importing the package costs nothing.
"""

from importlib import import_module

from ._version import __version__

_WHERE = {
    "Checkpoint": ".estimators",
    "MKLClassifier": ".estimators",
    "MKLFeatureSelector": ".estimators",
    "MKLOneClass": ".estimators",
    "MKLRegressor": ".estimators",
    "KernelCollection": ".kernels",
    "SPG": ".solvers",
    "load": ".persistence",
    "path": ".estimators",
    "report": ".display",
    "save": ".persistence",
}

__all__ = [
    "SPG",
    "Checkpoint",
    "KernelCollection",
    "MKLClassifier",
    "MKLFeatureSelector",
    "MKLOneClass",
    "MKLRegressor",
    "load",
    "path",
    "report",
    "save",
]


def __getattr__(name):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *__all__])
