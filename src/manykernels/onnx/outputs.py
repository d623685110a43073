"""From decision values to labels and probabilities, in a graph."""

from itertools import combinations
from typing import Any

import numpy as np
from onnx import TensorProto

from ..estimators.outcomes import TIE
from .nodes import Nodes


def has_probabilities(model: Any) -> bool:
    """Whether a classifier has `predict_proba`."""
    return hasattr(model, "predict_proba")


def class_labels(model: Any) -> np.ndarray:
    """The classes as int64 or as texts; raise if they are neither."""
    classes = np.asarray(model.classes_)
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(object)
    if classes.dtype.kind not in "biuf" or (classes != classes.astype(np.int64)).any():
        raise ValueError(
            "Classes cannot be converted to ONNX unless they are texts or whole numbers, got "
            f"{classes[:5].tolist()}: train with labels of one of these kinds."
        )
    return classes.astype(np.int64)


def write_label(nodes: Nodes, model: Any, decision: str, probabilities: str | None) -> str:
    """The class of each row, (n,).

    Parameters
    ----------
    nodes : Nodes
    model : MKLClassifier
    decision, probabilities : names
        What `write_decision` and `write_probabilities` gave; None if there are none.
    """
    if probabilities is not None:
        best = nodes("ArgMax", probabilities, axis=1, keepdims=0)
    elif model.classes_.size == 2:
        best = nodes.cast(nodes("Greater", decision, np.array(0.0)), TensorProto.INT64)
    else:
        best = nodes("ArgMax", decision, axis=1, keepdims=0)
    return nodes("Gather", class_labels(model), best, axis=0)


def write_decision(nodes: Nodes, model: Any, scores: str) -> str:
    """What `decision_function` gives, (n,) or (n, n_classes), from all outputs' (n, t) scores."""
    if model.classes_.size == 2:
        return nodes("Squeeze", scores, np.array([1]))
    return _votes(nodes, model.classes_.size, scores) if model.multiclass == "ovo" else scores


def _votes(nodes, count, scores):
    """Pairs won by every class, and less than a third of a vote for the distances."""
    pairs = list(combinations(range(count), 2))
    first, second = (np.eye(count)[list(side)] for side in zip(*pairs, strict=True))
    won = nodes.cast(nodes("Greater", scores, np.array(0.0)))
    votes = nodes("Add", nodes("MatMul", won, second - first), first.sum(axis=0))
    sums = nodes("MatMul", scores, second - first)
    scale = nodes("Mul", nodes("Add", nodes("Abs", sums), np.array(1.0)), np.array(3.0))
    return nodes("Add", votes, nodes("Div", sums, scale))


def write_probabilities(nodes: Nodes, model: Any, scores: str) -> str:
    """What `predict_proba` gives, (n, n_classes), from all outputs' (n, t) scores."""
    if hasattr(model, "calibration_kind_"):
        return _calibrated(nodes, model, scores)
    if model.classes_.size == 2:
        both = nodes("Concat", nodes("Neg", scores), scores, axis=1)
        return nodes("Sigmoid", both)
    # the logarithm of a sigmoid, for scores of any size
    size = nodes("Exp", nodes("Neg", nodes("Abs", scores)))
    tail = nodes("Log", nodes("Add", size, np.array(1.0)))
    logarithms = nodes("Sub", nodes("Min", scores, np.array(0.0)), tail)
    return nodes("Softmax", logarithms, axis=1)


def _calibrated(nodes, model, scores):
    tables = model.calibration_table_
    if model.calibration_kind_ == "sigmoid":
        slopes, offsets = np.array(tables).T
        each = nodes("Sigmoid", nodes("Add", nodes("Mul", scores, slopes), offsets))
    else:
        columns = [nodes("Gather", scores, np.array([c]), axis=1) for c in range(len(tables))]
        parts = [_steps(nodes, x, *table) for x, table in zip(columns, tables, strict=True)]
        each = parts[0] if len(parts) == 1 else nodes("Concat", *parts, axis=1)
    if model.classes_.size == 2:
        return nodes("Concat", nodes("Sub", np.array(1.0), each), each, axis=1)
    each = nodes("Add", each, nodes("Mul", nodes("Sigmoid", scores), np.array(TIE)))
    return nodes("Div", each, nodes.total(each, 1, keepdims=True))


def _steps(nodes, x, places, values):
    """A monotone function through some points, (n, 1): its value at the first and the share of
    every rise that x has behind it.
    """
    if places.size == 1:
        return nodes("Add", nodes("Mul", x, np.array(0.0)), values)
    before, after = places[:-1], places[1:]
    inside = nodes("Min", nodes("Max", x, before), after)
    shares = nodes("Div", nodes("Sub", inside, before), after - before)
    return nodes("Add", nodes("MatMul", shares, np.diff(values)[:, None]), values[:1])
