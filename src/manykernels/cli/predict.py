"""``manykernels predict``."""

import csv
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ._output import Json, ends_well, note, print_json


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
            help="Where to write the predictions, as CSV; the standard output by default.",
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
    from .._files import write_output
    from ._input import Origin, load_model

    pipeline = load_model(model)
    _check_columns(pipeline, scores, probabilities)
    X, y = Origin.of(pipeline).read(data, target)
    predictions = pipeline.predict(X)
    values = pipeline.decision_function(X) if scores else None
    chances = pipeline.predict_proba(X) if probabilities else None
    score = None if y is None else _score(y, predictions, pipeline)
    if out is not None:
        lines = _lines(pipeline, predictions, values, chances)
        write_output(out, (line.encode() for line in lines))
    if json:
        kept = {"predictions": predictions, "decision_values": values, "probabilities": chances}
        kept = {} if out is not None else kept
        classes = getattr(pipeline, "classes_", None)
        print_json(
            {
                "model": str(model),
                "rows": len(predictions),
                "classes": classes,
                "out": out and str(out),
                **({} if score is None else {"measure": score[0], "score": score[1]}),
                **kept,
            }
        )
        return
    if out is None:
        sys.stdout.writelines(_lines(pipeline, predictions, values, chances))
        sys.stdout.flush()
    if score is not None:
        note(f"{score[0]} {score[1]:.4f} on {len(predictions)} rows")


def _check_columns(model, scores, probabilities):
    """Raise for columns that the model cannot fill."""
    if scores and not hasattr(model, "decision_function"):
        raise ValueError(
            "--scores are decision values, which regression does not have; leave it out."
        )
    if probabilities and not hasattr(model, "predict_proba"):
        raise ValueError(
            "This model has no probabilities: train a classifier with --tune, which calibrates "
            "them on held-out rows, or with --loss logistic."
        )


def _score(y, predictions, model):
    """The measure and its value; None if no label is one of the model's classes: LIBSVM text always
    has labels, true or not.
    """
    import numpy as np
    from sklearn.metrics import r2_score

    from ._input import last_step

    if hasattr(last_step(model), "nu"):  # novelties have no truth to compare with
        return None
    if not hasattr(model, "classes_"):
        return "R²", float(r2_score(y, predictions))
    classes = model.classes_
    if (y.dtype.kind in "fiub") != (classes.dtype.kind in "fiub"):
        y, predictions, classes = (labels.astype(str) for labels in (y, predictions, classes))
    return ("accuracy", float(np.mean(y == predictions))) if np.isin(y, classes).any() else None


def _lines(model, predictions, values, chances):
    """The predictions as lines of CSV: labels, decision values and probabilities as far as they are
    there, under a header.

    Entries are quoted where they must be, with breaks of lines in them, too.
    """
    classes = getattr(model, "classes_", None)
    first = "prediction" if classes is None and predictions.dtype.kind == "f" else "label"
    tables = [(first, predictions), ("score", values), ("probability", chances)]
    header, columns = [], []
    for name, table in tables:
        if table is not None:
            table = table.reshape(len(predictions), -1)
            header += _names(name, table.shape[1], None if name == first else classes)
            columns += table.T.tolist()
    lines: list[str] = []
    writer = csv.writer(_Lines(lines))
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return lines


class _Lines(NamedTuple):
    """What `csv` writes to: carriage returns are quoted only where lines end in them, too, so they
    are taken off here.
    """

    kept: list

    def write(self, line):
        self.kept.append(line.removesuffix("\r\n") + "\n")


def _names(name, count, classes):
    """Names of columns: of one by itself, of those of classes, or by number."""
    if classes is not None and count == 1:  # of two classes
        return [f"{name}:{classes[1]}"]
    if classes is not None and count == len(classes):
        return [f"{name}:{label}" for label in classes.tolist()]
    return [name] if count == 1 else [f"{name}:{place}" for place in range(count)]
