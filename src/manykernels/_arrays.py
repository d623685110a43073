"""One set of formulas for arrays of NumPy's and for tensors of PyTorch's.

Vectors with an entry per point stay where a bank computes: on a device the formulas of losses and
solvers run there. They use what both libraries have under one name with the same arguments
(``where``, ``clip``, ``sign``, ``stack``, ``@``, ``sum``); the few other things are here.
"""

import sys
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from scipy import linalg, special
from scipy.linalg.blas import dtrmm

# An array of NumPy's or a tensor of PyTorch's, which need not be installed: no type of either
# library says both.
Array: TypeAlias = Any


def is_tensor(x: Any) -> bool:
    """True if something is a tensor of PyTorch's, which is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Any) -> Any:
    """The library of an array: NumPy or PyTorch."""
    return sys.modules["torch"] if is_tensor(x) else np


def special_functions(x: Any) -> ModuleType:
    """The special functions for an array: SciPy's or PyTorch's, which have the same names."""
    return namespace(x).special if is_tensor(x) else special


def ascending(x: Any) -> Any:
    """Places of the entries of a vector in ascending order, equal ones in any."""
    return x.argsort(stable=True) if is_tensor(x) else np.argsort(x)


def places(condition: Any) -> Any:
    """Places where a vector of bools is true."""
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


# --- matrices and their factors -------------------------------------------------------------------


def brought(*vectors: Any) -> tuple[np.ndarray, ...]:
    """Vectors in the memory of the host; those of a device come in one transfer."""
    if not is_tensor(vectors[0]):
        return vectors
    ends = np.cumsum([len(vector) for vector in vectors[:-1]])
    return tuple(np.split(here(namespace(vectors[0]).concatenate(vectors)), ends))


def beside(array: Any, *others: Any) -> tuple[Any, ...]:
    """Short arrays of the host where another array is, in float64; those of a device go there in
    one transfer, if they are not there already.
    """
    if not is_tensor(array) or is_tensor(others[0]):
        return others
    torch = namespace(array)
    joined = np.concatenate(others)
    there = torch.as_tensor(joined, dtype=torch.float64, device=array.device)
    return there.split([len(other) for other in others])


def as_dtype_of(x: Any, other: Any) -> Any:
    """An array in the precision of another one; itself if it has that."""
    return x.to(other.dtype) if is_tensor(x) else x.astype(other.dtype, copy=False)


def contiguous(x: Any) -> Any:
    """An array with its rows one after the other in memory."""
    return x.contiguous() if is_tensor(x) else np.ascontiguousarray(x)


def largest_places(x: Any, count: int) -> Any:
    """Places of the largest entries of a vector, so many at most."""
    return x.topk(min(count, len(x))).indices if is_tensor(x) else np.argsort(x)[-count:]


def squared_lengths(rows: Any) -> Any:
    """Squared lengths of the rows of a matrix, summed in float64."""
    if is_tensor(rows):
        return rows.double().square().sum(dim=1)
    return np.einsum("ij,ij->i", rows, rows, dtype=float)


def diagonal(matrix: Any) -> Any:
    """The diagonal of a matrix, to read and to write."""
    return matrix.diagonal() if is_tensor(matrix) else np.einsum("ii->i", matrix)


def congruent(root: Any, H: Any) -> Any:
    """``C' H C`` for a lower triangle C and a symmetric matrix H."""
    if is_tensor(H):
        return root.T @ (H @ root)
    half = dtrmm(1.0, root, H.T, side=1, lower=1)
    return dtrmm(1.0, root, half, lower=1, trans_a=1, overwrite_b=1)


def cholesky_root(matrix: Any) -> Any:
    """The lower triangle C with ``C C'`` a positive definite matrix.

    Raises NumPy's LinAlgError for a matrix that is not.
    """
    if not is_tensor(matrix):
        return linalg.cholesky(matrix, lower=True, check_finite=False)
    root, failed = namespace(matrix).linalg.cholesky_ex(matrix)
    if int(failed):
        raise np.linalg.LinAlgError
    return root


def cholesky_factors(matrix: Any) -> tuple[Any, bool]:
    """The factorization of a positive definite matrix that `cholesky_solution` takes."""
    if is_tensor(matrix):
        return cholesky_root(matrix), True
    return linalg.cho_factor(matrix, check_finite=False)


def cholesky_solution(factors: tuple[Any, bool], right: Any) -> Any:
    """The solution of equations for a right-hand side, a vector."""
    if is_tensor(right):
        return namespace(right).cholesky_solve(right[:, None], factors[0])[:, 0]
    return linalg.cho_solve(factors, right, check_finite=False)
