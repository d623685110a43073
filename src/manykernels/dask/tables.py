"""Tables that people have on a cluster: Dask arrays and data frames, Parquet and Zarr by path."""

from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.delayed import Delayed
from scipy import sparse

from ..kernels.points import as_points, is_sparse
from .cluster import Cluster

PARQUET, ZARR = (".parquet", ".pq", ".parq"), (".zarr",)


def opened(X: Any) -> Any:
    """A Dask collection for the path of a Parquet or Zarr store; anything else as it is."""
    if not isinstance(X, str) and not hasattr(X, "__fspath__"):
        return X
    path = str(X)
    ending = path.rstrip("/*").lower()
    if ending.endswith(ZARR):
        return da.from_zarr(path)
    if ending.endswith(PARQUET) or path.endswith("/"):
        return dd.read_parquet(path)
    raise ValueError(
        f"{path!r} is neither Parquet ({', '.join(PARQUET)}, or a folder of such with a / at its "
        f"end) nor Zarr ({', '.join(ZARR)})."
    )


def is_collection(X: Any) -> bool:
    """Whether the rows are those of Dask."""
    return isinstance(X, (da.Array, dd.DataFrame, dd.Series))


def split_target(X: Any, y: Any) -> tuple[Any, Any]:
    """X and y, where y may be the name of a column of X."""
    if isinstance(y, str) and hasattr(X, "columns"):
        if y not in X.columns:
            raise ValueError(f"There is no column {y!r} in X; it has {list(X.columns)[:10]}.")
        return X.drop(columns=[y]), X[y]
    return X, y


def here(values: Any, cluster: Cluster) -> Any:
    """A Dask collection as an array or data frame in memory; anything else as it is."""
    if not is_collection(values):
        return values
    return cluster.answers([cluster.client.compute(values)])[0]


def sent(cluster: Cluster, blocks: Sequence) -> list:
    """Delayed blocks as futures, which the scheduler can have made again; others as they are."""
    if blocks and isinstance(blocks[0], Delayed):
        return cluster.client.compute(list(dask.optimize(*blocks)))
    return list(blocks)


def names_of(X: Any) -> list[str] | None:
    """Of the columns of a data frame."""
    columns = getattr(X, "columns", None)
    return None if columns is None else [str(name) for name in columns]


def row_count(block: Any) -> int:
    """Of a block."""
    return int(block.shape[0])


def chosen_rows(block: Any, chosen: Any) -> Any:
    """Some rows of a block."""
    return getattr(block, "iloc", block)[chosen]


def stacked(blocks: Sequence) -> Any:
    """Blocks of rows as one."""
    if len(blocks) == 1:
        return blocks[0]
    if hasattr(blocks[0], "iloc"):
        return pd.concat(blocks, ignore_index=True)
    return sparse.vstack(blocks, format="csr") if is_sparse(blocks[0]) else np.concatenate(blocks)


def as_numbers(block: Any, names: list[str] | None, first: int) -> Any:
    """A block as points, with its columns in the right order; raise where values are missing.

    Parameters
    ----------
    block : array, sparse matrix or data frame
    names : list of str, optional
        Of the columns.
    first : int
        Number of its first row, for the error.
    """
    if names is not None and hasattr(block, "columns"):
        block = block[names]
    if not is_sparse(block):
        block = np.asarray(block, dtype=float)
    if not np.isfinite(block.data if is_sparse(block) else block).all():
        raise ValueError(
            f"The block of {block.shape[0]} rows from row {first} on holds NaN or infinite values: "
            "impute them first."
        )
    return as_points(block)
