"""Marks of a training problem: SHA-256 of the data and of every parameter that defines the problem.

Two fits with the same marks have the same optimum, so that one can go on where the other stopped.
"""

import hashlib
import types

import numpy as np
from scipy import sparse

from ...banks import Bank
from ...banks.spec import PAIRWISE
from ...kernels import Kernel, KernelCollection, Precomputed
from ...kernels.base import resolve_features

# how a problem is solved, and not what it is
FREE = (
    "tol",
    "max_iter",
    "solver",
    "cache_size",
    "device",
    "n_jobs",
    "random_state",
    "checkpoint",
    "callbacks",
    "verbose",
    "client",
    "cut",
    "parts",
    "timeout",
)
ROWS = 8  # on which a kernel of the user's is tried
CHUNK = 2**24  # entries of a large array that are hashed at a time


def fingerprint(estimator, X, targets, cost):
    """Marks by name: of the data, and of each parameter.

    Parameters
    ----------
    X : distinct training points
    targets, cost : arrays
    """
    categories = getattr(estimator, "categories_", {})  # what codes in X stand for
    marks = {
        "estimator": _mark(type(estimator).__name__, None),
        "data": _mark([X, targets, cost, categories], None),
    }
    points = _Points(X[:ROWS], getattr(estimator, "feature_names_in_", None))
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["kernels"], (str, Bank, KernelCollection)):
        # functions become kernels, which have values
        parameters["kernels"] = KernelCollection(parameters["kernels"])
    return marks | {
        name: _mark(value, points) for name, value in parameters.items() if name not in FREE
    }


class _Points:
    """A few rows, to try kernels on."""

    def __init__(self, rows, feature_names):
        self.rows, self.feature_names = rows, feature_names

    def values(self, kernel):
        """Values of a kernel between the rows, in float32: sums in another order are the same."""
        columns = resolve_features(kernel.features, self.rows.shape[1], self.feature_names)
        A = self.rows if columns is None else self.rows[:, columns]
        if not sparse.issparse(A):
            A = A[~np.isnan(A).any(axis=1)]
            if not len(A):  # these rows lack what the kernel sees
                return np.empty((0, 0), dtype=np.float32)
        kernel = kernel.resolved(A, np.ones(A.shape[0])) if kernel.needs_data else kernel
        return np.asarray(kernel.block(A, A), dtype=np.float32)


def mark(value):
    """The mark of any value."""
    return _mark(value, None)


def _mark(value, points):
    checksum = hashlib.sha256()
    _feed(checksum, value, points)
    return checksum.hexdigest()


def _feed(checksum, value, points):
    """Add a value, what it is before what it holds."""
    if isinstance(value, (float, int, np.floating, np.integer)) and not isinstance(
        value, (bool, np.bool_)
    ):
        value = float(value) if float(value) == value else value  # 1 is 1.0
    checksum.update(f"<{type(value).__module__}.{type(value).__qualname__}>".encode())
    if value is None or isinstance(
        value, (bool, int, float, complex, str, bytes, np.generic, slice, range)
    ):
        checksum.update(repr(value).encode())
    elif sparse.issparse(value):
        value = sparse.csr_array(value)
        _feed(
            checksum,
            [
                list(value.shape),
                value.data,
                value.indices.astype(np.int64),
                value.indptr.astype(np.int64),
            ],
            points,
        )
    elif isinstance(value, np.ndarray):
        _feed_array(checksum, value, points)
    elif isinstance(value, dict):
        _feed(checksum, [list(pair) for pair in value.items()], points)
    elif isinstance(value, (list, tuple)):
        checksum.update(f"{len(value)}".encode())
        for one in value:
            _feed(checksum, one, points)
    elif isinstance(value, (set, frozenset)):
        _feed(checksum, sorted(value, key=repr), points)
    else:
        _feed_object(checksum, value, points)


def _feed_array(checksum, array, points):
    checksum.update(f"{array.dtype}{array.shape}".encode())
    if array.dtype.hasobject:
        return _feed(checksum, array.ravel().tolist(), points)
    if array.ndim == 0:
        return checksum.update(array.tobytes())
    step = max(1, CHUNK // max(1, int(np.prod(array.shape[1:]))))
    for start in range(0, len(array), step):  # a memory map is not read at once
        checksum.update(np.ascontiguousarray(array[start : start + step]).tobytes())


def _feed_object(checksum, value, points):
    """A function by its name, anything else by its public attributes; kernels of the user's by
    their values, too.
    """
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)):
        return checksum.update(f"{value.__module__}.{value.__qualname__}".encode())
    held = {
        name: one
        for name, one in getattr(value, "__dict__", {}).items()
        if not name.startswith("_")
    }
    for name in ("threads", "device"):  # how and where, not what
        held.pop(name, None)
    tried = (
        isinstance(value, Kernel)
        and type(value) not in PAIRWISE
        and not isinstance(value, Precomputed)
    )
    if tried and value.reads != "strings" and points is not None:
        held["values"] = points.values(value)
    elif callable(value) and not held:
        held["name"] = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    _feed(checksum, dict(sorted(held.items())), points)
