"""The thresholds by which a plan decides what a fit does, in one table.

Each is a size, a count or a tolerance at which another way becomes faster or needs less memory. A
field says what lies on its two sides and which benchmark set it: run that benchmark before you
change the number. Tests lower the table (`lowered`), so that small data go every way.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any


def _threshold(value: Any, meaning: str, benchmark: str) -> Any:
    return field(default=value, metadata={"meaning": meaning, "benchmark": benchmark})


@dataclass(frozen=True)
class Thresholds:
    """The table. `meaning` and `benchmark` of a field are in its metadata; see `rows`."""

    single_precision_tolerance: float = _threshold(
        1e-5, "relative gap below which kernels are computed in float64", "small"
    )
    rounding_share: float = _threshold(
        0.25,
        "part of the allowed gap that rounding of float32 kernels may take before they are made "
        "anew in float64",
        "small",
    )
    held_gram_bytes: int = _threshold(
        2**31,
        "bytes of which Gram matrices may take `held_gram_share`, whatever the budget",
        "defaults",
    )
    held_gram_share: float = _threshold(
        0.25,
        "part of the memory budget that Gram matrices may take to be held for all passes",
        "defaults",
    )
    factor_columns: int = _threshold(
        64, "columns up to which a kernel of small rank is held as its factor", "fits"
    )
    factor_share: float = _threshold(
        1 / 8, "part of the points that these columns may be at most", "fits"
    )
    linear_share: float = _threshold(
        1 / 64,
        "part of the points that the columns of a linear kernel may be, to be its factor",
        "fits",
    )
    stored_share: float = _threshold(
        0.15,
        "part of the entries of a sparse table that is stored, from which on exact kernels are "
        "computed sooner of an array",
        "groups",
    )
    array_share: float = _threshold(
        0.25, "part of the memory budget that such an array may take", "groups"
    )
    dense_point_bytes: float = _threshold(
        4.0,
        "times the bytes of a sparse point that a dense one may take for points of a compressed "
        "model to be moved",
        "compression",
    )
    held_product_bytes: int = _threshold(
        2**24, "bytes of products of all kernels that Newton's method holds in any case", "million"
    )
    kernels_for_part: int = _threshold(
        10_000, "kernels from which on a sample or a working set of them is solved first", "million"
    )
    points_for_sample: int = _threshold(
        10_000, "points from which on a sample of them is solved first", "large"
    )
    sample_points: int = _threshold(4000, "points of the first sample", "large")
    sample_points_of_combinations: int = _threshold(
        2000,
        "points of the sample where kernels are no sums, on which all starts are tried",
        "products",
    )
    sample_points_per_feature: int = _threshold(
        8,
        "points of the sample for every random feature of a product, at least",
        "products",
    )
    second_sample_points: int = _threshold(40_000, "points of the second sample", "large")
    sample_growth: int = _threshold(
        5, "times a sample that the next one, or all points, must be at least", "large"
    )
    factorized_points: int = _threshold(
        800,
        "points up to which systems of equations of smooth losses are factorized, and not solved "
        "by conjugate gradients",
        "fits",
    )
    copied_kernel_points: int = _threshold(
        5000, "points up to which a combined kernel is copied from its device for the SVM", "gpu"
    )
    separate_column_sets: int = _threshold(
        10,
        "different sets of columns from which on low-rank kernels are taken to have no small space "
        "in common",
        "groups",
    )
    block_columns: int = _threshold(
        2000,
        "columns of factors from which on Newton's method on groups beats systems of equations, "
        "for smooth losses",
        "groups",
    )
    block_columns_with_corners: int = _threshold(4000, "the same for losses with corners", "groups")
    block_operations: float = _threshold(
        5e8,
        "multiplications that Newton's method on groups of factors may take, from which on it is "
        "tried first where all factors are held",
        "groups",
    )
    block_points_per_column: int = _threshold(
        10,
        "points per column of factors up to which that is so, for smooth losses",
        "groups",
    )
    points_per_column_with_corners: int = _threshold(
        36,
        "points per column of factors from which on the method of multipliers beats the "
        "interior-point method, for losses with corners",
        "lowrank",
    )
    points_per_exact_column: int = _threshold(
        10,
        "points per column from which on kernels that are all held as their factors are solved in "
        "the space of these",
        "fits",
    )
    shared_basis_columns: int = _threshold(
        256, "columns of factors from which on a smaller common space is looked for", "lowrank"
    )
    shared_basis_share: float = _threshold(
        0.6, "part of the columns that the common space may have at most", "lowrank"
    )
    listed_subsets: int = _threshold(
        32,
        "kernels of feature subsets up to which each is computed by itself, by products of "
        "matrices, and not all of them pair by pair",
        "gpu",
    )
    device_entries: int = _threshold(
        2**23, "entries of all kernels from which on a GPU is faster than 16 cores", "gpu"
    )
    device_entries_of_subsets: int = _threshold(
        2**21, "the same for kernels of feature subsets, which cost the host more", "gpu"
    )
    device_entries_of_grids: int = _threshold(
        2**21, "the same for the kernels of one fold of a grid", "gpu"
    )
    device_start: int = _threshold(
        2**4,
        "times as many entries from which on device='auto' takes a GPU that this process has not "
        "used yet: it saves more than the import of PyTorch costs",
        "gpu",
    )
    device_operations_on_factors: int = _threshold(
        2**30, "multiplications of factors from which on they go to a GPU", "gpu_lowrank"
    )
    device_operations_by_default: int = _threshold(2**34, "the same for device='auto'", "gpu")
    device_points_of_tables: int = _threshold(
        2000, "points from which on a GPU beats kernels that the host looks up in a table", "gpu"
    )
    device_points_of_samples: int = _threshold(
        1000, "points on which device='auto' looks how wide factors of small rank are", "gpu"
    )
    lockstep_points: int = _threshold(
        10_000,
        "training points up to which cells of a grid go through a device in lockstep",
        "gpu_grids",
    )
    lockstep_columns: int = _threshold(
        1000, "columns of low-rank factors up to which they do", "gpu_grids"
    )
    lockstep_share: float = _threshold(
        0.3, "part of a device's free memory that kernels of a fold may take for that", "gpu_grids"
    )
    lockstep_problems: float = _threshold(
        0.8, "part of what is left that problems may take beside each other", "gpu_grids"
    )
    uncompiled_entries: int = _threshold(
        2**26,
        "values of kernels at pairs of new rows and support vectors up to which predictions are "
        "computed by NumPy alone",
        "serving",
    )
    unloaded_entries: int = _threshold(
        2**30,
        "the same for a `Predictor`, which would have to load its estimator for compiled loops",
        "serving",
    )
    rows_per_node: int = _threshold(
        8,
        "new rows for each node of a table from which on Gaussians of single columns are looked up "
        "in tables",
        "serving",
    )
    models_side_by_side: int = _threshold(
        4, "models that must fit into memory at once to be trained side by side", "tuning"
    )
    problems_per_batch: int = _threshold(
        12, "problems side by side that make a pass over the kernels worthwhile", "tuning"
    )


TABLE = Thresholds()


def thresholds() -> Thresholds:
    """The table that holds at the moment."""
    return TABLE


def rows() -> list[dict[str, Any]]:
    """The table for people: name, value, meaning and benchmark of every threshold."""
    return [
        {"name": one.name, "value": getattr(TABLE, one.name), **one.metadata}
        for one in fields(Thresholds)
    ]


@contextmanager
def lowered(**changed: Any) -> Iterator[None]:
    """A context in which some thresholds have other values, for tests and benchmarks."""
    global TABLE
    before, TABLE = TABLE, replace(TABLE, **changed)
    try:
        yield
    finally:
        TABLE = before
