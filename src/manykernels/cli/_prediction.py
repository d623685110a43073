"""What ``manykernels predict`` does: read a model and rows, and answer."""

import csv
from typing import Any, NamedTuple

import numpy as np

from .._files import write_output
from ._doubts import tell, unseen_categories
from ._input import Origin, last_step, load_predictor
from ._measures import Answers, measured

NAMED = ("predictions", "classes")  # what an answer says in labels


class Predictions(NamedTuple):
    """What a model says of the rows of a file.

    Attributes
    ----------
    path : path of the model
    model : pipeline or estimator
    predictions : (n,) or (n, n_targets) array
    values, chances : arrays of n rows, or None
        Decision values and probabilities, where they are asked for.
    measures : dict
        Their values by name, the first being the score; empty if the file holds no targets.
    """

    path: Any
    model: Any
    predictions: np.ndarray
    values: np.ndarray | None
    chances: np.ndarray | None
    measures: dict

    @classmethod
    def of(cls, path, data, target, scores, probabilities):
        """Those of a model's file for a file of rows."""
        model = load_predictor(path)
        _check_columns(model, scores, probabilities)
        X, y = Origin.of(model).read(data, target)
        tell(unseen_categories(last_step(model), X))
        answers = Answers.of(model, X)
        return cls(
            path,
            model,
            answers.predictions,
            answers.values if scores else None,
            answers.chances if probabilities else None,
            {} if y is None else _measures(y, answers, model),
        )

    def write(self, out):
        """Write them to a file, as CSV."""
        write_output(out, (line.encode() for line in self.lines()))

    def lines(self):
        """Lines of CSV: labels, decision values and probabilities as far as they are there, under
        a header.

        Entries are quoted where they must be, with breaks of lines in them, too.
        """
        predictions, classes = self.predictions, getattr(self.model, "classes_", None)
        first = "prediction" if classes is None and predictions.dtype.kind == "f" else "label"
        tables = [(first, predictions), ("score", self.values), ("probability", self.chances)]
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

    def described(self, out):
        """All of it as a mapping; without the predictions if they are in a file."""
        facts = {
            "model": str(self.path),
            "rows": len(self.predictions),
            "classes": getattr(self.model, "classes_", None),
            "out": out and str(out),
        }
        if self.measures:
            measure, score = next(iter(self.measures.items()))
            facts |= {"measure": measure, "score": score, "measures": self.measures}
        if out is None:
            facts["predictions"] = self.predictions
            facts |= {"decision_values": self.values, "probabilities": self.chances}
        return facts


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


def _measures(y, answers, model):
    """Measures by name; none if no label is one of the model's classes: LIBSVM text always has
    labels, true or not.
    """
    # novelties have no truth to compare with
    if getattr(model, "task", "") == "one class" or hasattr(last_step(model), "nu"):
        return {}
    classes = answers.classes
    if classes is not None and (y.dtype.kind in "fiub") != (classes.dtype.kind in "fiub"):
        words = (labels.astype(str) for labels in (answers.predictions, classes))
        y, answers = y.astype(str), answers._replace(**dict(zip(NAMED, words, strict=True)))
    if classes is not None and not np.isin(y, answers.classes).any():
        return {}
    return measured(answers, y, y)[0]


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
