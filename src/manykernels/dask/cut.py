"""How the work is cut: by kernels or by points.

By points a round of Newton's method adds up Gram matrices of the columns of all factors, by kernels
sums of kernel matrices of the points. Whichever are fewer, columns or points, makes the smaller
ones: with 12,000 columns on 1,500 points and the squared hinge a fit by points took 36 times as
long as by kernels, with as many columns as points about the same.
"""

from typing import Any

import numpy as np

from ..kernels import KernelCollection
from ..kernels.grids import auto_count
from .cluster import ROOM, Cluster
from .kernels import pass_bytes


def choose_cut(n: int, columns: int | None, cluster: Cluster) -> str:
    """The cut, "kernels" or "points".

    Parameters
    ----------
    n : int
        Points.
    columns : int or None
        Of all factors together; None without an approximation, which a cut by points needs.
    cluster : Cluster
        Whose workers must have the memory for a pass by kernels.
    """
    if columns is None:
        return "kernels"
    if columns <= n:
        return "points"
    memory, needed = cluster.memory, pass_bytes(n, np.float32, cluster)
    return "points" if memory and needed > ROOM * memory else "kernels"


def factor_columns(approximation: Any, kernels: Any, n: int, features: int) -> int | None:
    """How many columns the factors of all kernels have at most, before they are made."""
    if approximation is None:
        return None
    if isinstance(kernels, str):
        count = auto_count(features, single=kernels == "auto")
    else:
        count = len(KernelCollection.of(kernels))
    return count * min(approximation.rank, n)
