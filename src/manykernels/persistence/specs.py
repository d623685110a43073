"""Kernels and points as plain values, and back: the part of a bank that predicting needs.

Nothing here imports a bank, compiled loops or scikit-learn.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..banks.codes import check_readable
from ..banks.spec import NORMALIZATIONS, BankSpec
from ..kernels import FunctionKernel, KernelCollection, Precomputed
from ..kernels.points import is_sparse, narrowed
from ..kernels.vector import dense
from .values import (
    check_array,
    check_categories,
    check_indices,
    check_whole,
    require,
)


class Columns(NamedTuple):
    """How many columns X has, and their names, if there are such."""

    size: int
    names: Sequence[str] | None


def describe_spec(spec):
    """The kernels of a specification, for `rebuild_spec`."""
    return {
        "kernels": spec.collection(),
        "normalize": spec.normalize,
        "scales": spec.scales,
        "categories": spec.categories,
    }


def rebuild_spec(described, columns):
    """The specification that a description holds, for points with these columns."""
    collection, normalize = described["kernels"], normalization(described)
    require(type(collection) is KernelCollection, "The kernels are not a list of kernels.")
    scales = check_array(described["scales"], "The scales of the kernels", (len(collection),))
    require(scales.min() >= 0.0, "The scales of the kernels should not be negative.")
    categories = check_categories(described["categories"], "Categories by column", int)
    require(all(0 <= f < columns.size for f in categories), "There are categories of no column.")
    options = (normalize, scales, columns.size, columns.names, categories)
    return BankSpec.from_resolved(collection, *options)


def check_spec(spec, points):
    """Raise unless every kernel can be evaluated at the points of a file."""
    for f, entries in spec.categories.items():
        codes = dense(points[:, [f]]).ravel()
        known = (codes >= 0) & (codes < len(entries)) & (codes == np.floor(codes))
        require(known.all(), "There are codes of no category.")
    everything = range(points.shape[1])
    for k, kernel in enumerate(spec.kernels):
        require(not isinstance(kernel, FunctionKernel), "A model file holds no code.")
        if isinstance(kernel, Precomputed):
            continue
        columns = everything if spec.columns[k] is None else spec.columns[k]
        check_readable(kernel, spec.groups[k], columns, everything, spec.categories)
        require(not isinstance(getattr(kernel, "gamma", 1.0), str), "A kernel has no width.")
        if kernel.reads == "strings":
            texts = (isinstance(one, str) for f in columns for one in spec.categories[f])
            require(all(texts), "A kernel of strings sees something else.")
        kernel.resolved(spec.seen(k, points), None)  # checks its parameters


def normalization(described):
    """How the kernels of a description are normalized."""
    normalize = described["normalize"]
    good = normalize is None or (isinstance(normalize, str) and normalize in NORMALIZATIONS)
    require(good, "The kernels are normalized in no known way.")
    return normalize


def describe_points(points):
    """Points as a mapping of arrays."""
    if not is_sparse(points):
        return {"dense": narrowed(dense(points))}
    points = points.tocsr()
    return {
        "data": narrowed(points.data),
        "indices": points.indices,
        "indptr": points.indptr,
        "shape": list(points.shape),
    }


def rebuild_points(described, n_features):
    """The points of a description, which have so many columns."""
    if "dense" in described:
        points = check_array(described["dense"], "The points of the model", (None, None))
        points = points.astype(float, copy=False)
    else:
        points = _rebuild_sparse(described, n_features)
    require(points.shape[0] > 0, "The model has no points.")
    require(points.shape[1] == n_features, "The points have other columns.")
    return points


def _rebuild_sparse(described, n_features):
    """A CSR array, of which SciPy sees nothing that is not sound: its own check believes in the
    last row's end, and reading beyond an array kills the process.
    """
    from scipy import sparse

    n, width = (check_whole(size, "The shape of the points") for size in described["shape"])
    require(width == n_features, "The points have other columns.")
    data = check_array(described["data"], "The points of the model", (None,))
    indices = check_indices(
        described["indices"], "The columns of the points", n_features, data.size
    )
    indptr = check_array(described["indptr"], "The rows of the points", (n + 1,), "i")
    ordered = indptr[0] == 0 and indptr[-1] == data.size and (np.diff(indptr) >= 0).all()
    require(ordered, "The rows of the points do not follow each other.")
    points = sparse.csr_array((data.astype(float), indices, indptr), shape=(n, n_features))
    points.check_format(full_check=True)
    points.sum_duplicates()
    return points
