"""Advice where a view, a group of columns, is missing or has missing values."""

from collections.abc import Mapping

import numpy as np
from scipy import sparse

from ..kernels import KernelCollection
from ..kernels.base import resolve_features
from .categories import is_missing


def advice(kernels, X, names):
    """Words for an error about X: what is missing of which group of columns; nothing if that is not
    the trouble.

    Parameters
    ----------
    kernels : as estimators take them
    X : array, sparse matrix or data frame
    names : sequence of str, optional
        Of the columns that there should be.
    """
    grouped = isinstance(kernels, Mapping) or (
        isinstance(kernels, KernelCollection) and any(kernels.groups)
    )
    if not grouped or sparse.issparse(X) or len(getattr(X, "shape", ())) != 2:
        return ""
    names = None if names is None else list(map(str, names))
    groups = group_columns(kernels, X.shape[1] if names is None else len(names), names)
    absent = _absent(groups, X, names)
    lines = absent or _incomplete(groups, X)
    if not lines:
        return ""
    what = "give these columns" if absent else "impute the values, drop these rows"
    return (
        f"\n{' '.join(lines)}\nEvery kernel needs its columns: {what}, or train without the group."
    )


def group_columns(kernels, n_features, names):
    """The columns that the kernels of each named group see, as dict from group to ascending
    indices.
    """
    bank, groups = KernelCollection(kernels), {}
    for kernel, group in zip(bank.kernels, bank.groups, strict=True):
        try:
            columns = resolve_features(kernel.features, n_features, names)
        except ValueError:
            continue  # the bank says so
        if group:
            groups.setdefault(group, set()).update(
                range(n_features) if columns is None else columns.tolist()
            )
    return {group: sorted(columns) for group, columns in groups.items()}


def _absent(groups, X, names):
    if names is None or not hasattr(X, "columns"):
        return []
    here, lines = set(map(str, X.columns)), []
    for group, columns in groups.items():
        absent = [names[f] for f in columns if names[f] not in here]
        if absent:
            listed = ", ".join(map(repr, absent[:5])) + (" …" if len(absent) > 5 else "")
            lines.append(
                f"Group {group!r} lacks {len(absent)} of its {len(columns)} columns: {listed}."
            )
    return lines


def _incomplete(groups, X):
    X = np.asarray(X)
    if X.dtype.kind not in "fO":
        return []
    missing = (
        np.isnan(X) if X.dtype.kind == "f" else np.frompyfunc(is_missing, 1, 1)(X).astype(bool)
    )
    lines = []
    for group, columns in groups.items():
        mine = missing[:, [f for f in columns if f < missing.shape[1]]]
        some, every = mine.any(axis=1).sum(), mine.all(axis=1).sum()
        if some:
            whole = f", in {every} of them all" if every else ""
            lines.append(
                f"Group {group!r} has missing values in {some} of {len(mine)} rows{whole}."
            )
    return lines
