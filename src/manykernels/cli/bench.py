"""``manykernels bench``."""

from typing import Annotated

import typer

from ._output import Json, ends_well, print_json, print_table
from ._signals import starting

COLUMNS = ("columns", "method", "training s", "prediction s", "test accuracy", "kernels used")
KEYS = ("columns", "method", "training_seconds", "prediction_seconds", "accuracy", "kernels")


@ends_well
def bench(
    name: Annotated[
        str, typer.Argument(help="A data set of manykernels datasets list, with classes.")
    ] = "breast_cancer",
    p: Annotated[float, typer.Option("--p", help="Norm of the kernel weights.", min=1.0)] = 1.0,
    C: Annotated[float, typer.Option("--C", help="Cost of an error.")] = 1.0,
    points: Annotated[int, typer.Option(help="Rows at most, drawn at random.", min=20)] = 1000,
    copies: Annotated[
        int,
        typer.Option(help="Shuffled copies of every column, which say nothing, besides.", min=0),
    ] = 3,
    seed: Annotated[
        int, typer.Option(help="For the choice of rows, and for shuffling.", min=0)
    ] = 0,
    json: Json = False,
):
    """Time learned kernel weights beside the plain mean of the same kernels with one SVC of
    scikit-learn, and beside the SVC alone: on the columns as they are, where all sources are good
    and a mean is hard to beat, and among columns that say nothing, where weights pay.
    """
    with starting():
        from ._comparison import compare

    found = compare(name, p, C, points, copies, seed)
    if json:
        print_json(
            {
                "dataset": name,
                "rows": found.rows,
                "test_rows": found.test_rows,
                "n_kernels": found.n_kernels,
                "methods": [dict(zip(KEYS, method, strict=True)) for method in found.methods],
            }
        )
        return
    print_table(
        f"{name}: {found.rows} rows to train on, {found.test_rows} to test on, "
        f"{' and '.join(map(str, found.n_kernels.values()))} kernels",
        found.methods,
        COLUMNS,
    )
