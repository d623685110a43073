"""One set of formulas for arrays of NumPy's and for tensors of PyTorch's.

Vectors with an entry per point stay where a bank computes: on a device the formulas of losses and
solvers run there. They use what both libraries have under one name with the same arguments
(``where``, ``clip``, ``sign``, ``stack``, ``@``, ``sum``); the few other things are here.
"""

import sys
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from scipy import special

# An array of NumPy's or a tensor of PyTorch's, which need not be installed: no type of either
# library says both.
Array: TypeAlias = Any


def is_tensor(x: Any) -> bool:
    """True for a tensor of PyTorch's, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Any) -> Any:
    """The library of an array: NumPy or PyTorch."""
    return sys.modules["torch"] if is_tensor(x) else np


def special_functions(x: Any) -> ModuleType:
    """The special functions for an array: SciPy's or PyTorch's, which have the same names."""
    return namespace(x).special if is_tensor(x) else special


def ascending(x: Any) -> Any:
    """Places of the entries of a vector in ascending order; equal ones stay in theirs."""
    return x.argsort(stable=True) if is_tensor(x) else np.argsort(x, kind="stable")


def places(condition: Any) -> Any:
    """Places at which a vector of bools is true."""
    return condition.nonzero().ravel() if is_tensor(condition) else np.flatnonzero(condition)


def sums_by(place: Any, values: Any, count: int) -> Any:
    """Sums of the values that belong to each of so many places."""
    if is_tensor(values):
        return values.new_zeros(count).index_add_(0, place, values)
    return np.bincount(place, values, minlength=count)


def smallest(x: Any) -> float:
    """The smallest entry; infinite if there is none."""
    return float(x.min()) if len(x) else np.inf


def length(x: Any) -> float:
    """Euclidean length of a vector."""
    return float(x @ x) ** 0.5


def same(a: Any, b: Any) -> bool:
    """True if two arrays have the same entries."""
    return bool((a == b).all())


def here(x: Any) -> np.ndarray:
    """An array in the memory of the host."""
    return x.cpu().numpy() if is_tensor(x) else x
