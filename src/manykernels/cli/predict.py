"""``manykernels predict``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ._output import Json, ends_well, note, print_json
from ._signals import starting

STANDARD_OUTPUT = Path("-")


@ends_well
def predict(
    model: Annotated[Path, typer.Argument(help="A model that train wrote.")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Rows to predict, in any format that train reads; a target is not needed."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Where to write the predictions, as CSV; - is the standard output, as by default.",
        ),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Add columns of decision values; for several classes each."),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Add a column with the probability of every class; for models of train --tune or "
            "--loss logistic.",
        ),
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(help="Column to compare with; that of the training data by default."),
    ] = None,
    json: Json = False,
):
    """Predict the rows of a file, and score the predictions if the file holds targets.

    The predictions are CSV with a header: a column label (prediction for regression), then columns
    such as score:CLASS and probability:CLASS.
    """
    with starting():
        from ._prediction import Predictions

    out = None if out == STANDARD_OUTPUT else out
    found = Predictions.of(model, data, target, scores, probabilities)
    if out is not None:
        found.write(out)
    if json:
        print_json(found.described(out))
        return
    if out is None:
        sys.stdout.writelines(found.lines())
        sys.stdout.flush()
    if found.measures:
        words = [f"{name} {value:.4f}" for name, value in found.measures.items()]
        note(f"{', '.join(words)} on {len(found.predictions)} rows")
