"""Columns of strings and categories, which a bank holds as codes: who may read them, and what the
codes mean.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernels.base import READS, Kernel

ADVICE = {
    "numbers": "use Hamming(features=...) for categories, Spectrum(features=...) for strings, or "
    "encode the column as numbers",
    "strings": "give it a column of strings",
}


def check_readable(
    kernel: Kernel, group: Any, columns: Any, names: Any, categories: Mapping[int, list]
) -> None:
    """Raise if a kernel sees a column that it cannot read.

    Parameters
    ----------
    kernel : Kernel
    group : str
        Of the kernel; may be empty.
    columns : sequence of int
    names : sequence of str
        Of all columns.
    categories : dict
        Entries of the columns that hold strings or categories, by column.
    """
    if kernel.reads not in READS:
        raise ValueError(
            f"{kernel!r}: reads={kernel.reads!r} is not known; use {', '.join(map(repr, READS))}."
        )
    if kernel.reads == "categories" or (not categories and kernel.reads == "numbers"):
        return
    wanted = kernel.reads == "strings"
    wrong = [names[f] for f in columns if (f in categories) != wanted]
    if wrong:
        owner = f"Group {group!r}: {kernel.label}" if group else kernel.label
        what = "numbers" if wanted else "strings or categories"
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise ValueError(
            f"{owner} needs {kernel.reads}, but {wrong[:5]}{more} hold {what}: "
            f"{ADVICE[kernel.reads]}."
        )


def refuse_categories(categories: Mapping[int, list] | None, owner: str) -> None:
    """Raise if there are columns of strings or categories."""
    if categories:
        raise ValueError(
            f"{owner} needs numbers, but the columns {list(categories)[:5]} hold strings or "
            "categories: encode them as numbers."
        )


def decoded(X: Any, columns: Any, categories: Mapping[int, list]) -> Any:
    """The entries that codes stand for, (n, len(columns)) objects."""
    out = np.empty((X.shape[0], len(columns)), dtype=object)
    for place, f in enumerate(columns):
        entries = np.empty(len(categories[f]), dtype=object)
        entries[:] = categories[f]
        out[:, place] = entries[X[:, f].astype(np.intp)]
    return out
