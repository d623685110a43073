"""``manykernels predict``."""

from pathlib import Path
from typing import Annotated

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
        typer.Option("--out", "-o", help="Where to write the predictions, one per line."),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="Add decision values, after tabs; for several classes one each."
        ),
    ] = False,
    probabilities: Annotated[
        bool,
        typer.Option(
            "--probabilities",
            help="Add the probability of every class, after tabs; for models of train --tune or "
            "--loss logistic.",
        ),
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(help="Column to compare with; that of the training data by default."),
    ] = None,
    json: Json = False,
):
    """Predict the rows of a file, and score the predictions if the file holds targets."""
    from ._input import Origin, load_model

    pipeline = load_model(model)
    X, y = Origin.of(pipeline).read(data, target)
    predictions = pipeline.predict(X)
    values = _decision_values(pipeline, X) if scores else None
    chances = _probabilities(pipeline, X) if probabilities else None
    score = None if y is None else _score(y, predictions, pipeline)
    lines = _lines(predictions, values, chances)
    if out is not None:
        out.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
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
        typer.echo("\n".join(lines))
    if score is not None:
        note(f"{score[0]} {score[1]:.4f} on {len(predictions)} rows")


def _decision_values(model, X):
    if not hasattr(model, "decision_function"):
        raise ValueError(
            "--scores are decision values, which regression does not have; leave it out."
        )
    return model.decision_function(X)


def _probabilities(model, X):
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            "This model has no probabilities: train a classifier with --tune, which calibrates "
            "them on held-out rows, or with --loss logistic."
        )
    return model.predict_proba(X)


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


def _lines(predictions, *columns):
    """A line per row: its prediction, and what else was asked for."""
    labels = [str(label) for label in predictions.tolist()]
    given = [values.reshape(len(labels), -1).tolist() for values in columns if values is not None]
    rows = zip(labels, *given, strict=True)
    return [
        "\t".join([label, *(repr(x) for part in parts for x in part)]) for label, *parts in rows
    ]
