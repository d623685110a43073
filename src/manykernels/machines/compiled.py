"""The working-set method on a GPU: calls of its compiled programs."""

from .._arrays import Array

# Tolerance, relative to the slopes, for which float32 is enough: with a smaller one rounding would
# decide.
ROUGH_TOLERANCE = 2e-5
# Rows and columns that a program of a sum visits at a time: more take more registers.
SUM_BLOCK = (16, 256)


def solve_set(
    square: Array,
    bounds: tuple[Array, ...],
    part: tuple[Array, Array],
    count: Array,
    tol: Array,
    steps: Array,
    most: int,
    rough: bool = False,
) -> None:
    """SMO on a working set, as `manykernels._loops.smo.smo`, in one launch; nothing is copied.

    One program does it: its threads hold the vectors, and a step costs two maxima over them and two
    rows of the kernel from the second-level cache, about a microsecond for 2,048 points.

    Parameters
    ----------
    square : (q, q) tensor
    bounds : tuple of (q,) float64 tensors
        Diagonal with the ridge, lower and upper bounds, kinks and ridge.
    part : pair of (q,) float64 tensors
        Coefficients, which are updated, and F, which is not.
    count, steps : (1,) int64 tensors
        Points of the set, of which those behind have no part; to the other are added the steps.
    tol : (1,) float64 tensor
    most : int
        Steps at most.
    rough : bool
        Keep slopes in float32, which is faster: for tolerances that are no less than
        ROUGH_TOLERANCE of them. Coefficients are in float64 in any case.
    """
    size = 1 << max(5, (len(square) - 1).bit_length())
    from . import programs

    program = programs.rough_smo if rough else programs.smo
    program[(1,)](
        square, len(square), *bounds, *part, count, tol, steps, most, Q=size,
        num_warps=max(1, min(8, size // 128)),
    )  # fmt: skip


def add_rows(rows: Array, change: Array, out: Array) -> None:
    """``out += change @ rows`` in float64; rows whose change is zero are not read."""
    count, n = rows.shape
    height, width = SUM_BLOCK
    from .programs import add_rows as compiled

    compiled[(-(-n // width),)](rows, change, out, count, n, BM=height, BN=width)
