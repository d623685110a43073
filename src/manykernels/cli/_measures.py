"""How good predictions are, beside what could be said without any feature."""

import copy
from typing import Any, NamedTuple

import numpy as np

from ..persistence import Predictor

ACCURACY, BALANCED = "accuracy", "balanced accuracy"
AREA, BRIER = "area under the ROC curve", "Brier score"
DETERMINATION, ERROR = "R²", "mean absolute error"


class Answers(NamedTuple):
    """What a model says of some rows.

    Attributes
    ----------
    predictions : (n,) array
    classes : array, or None for regression
    values : (n,) array or (n, n_classes), optional
        Decision values.
    chances : (n, n_classes) array, optional
        Probabilities.
    """

    predictions: np.ndarray
    classes: np.ndarray | None = None
    values: Any = None
    chances: Any = None

    @classmethod
    def of(cls, model, X):
        """Those of a pipeline, estimator or Predictor; of the first two the kernels are computed
        once.
        """
        if isinstance(model, Predictor):
            values, chances = (
                getattr(model, name)(X) if hasattr(model, name) else None
                for name in ("decision_function", "predict_proba")
            )
            return cls(model.predict(X), getattr(model, "classes_", None), values, chances)
        while hasattr(model, "steps"):
            X = model[:-1].transform(X) if len(model) > 1 else X
            model = model[-1]
        return cls._from_scores(model, model._scores(X))

    @classmethod
    def held_out(cls, model):
        """Those of a tuned estimator at the rows that folds held out, and which rows these are."""
        values = model.oof_decision_
        known = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        return cls._from_scores(model, np.atleast_2d(values[known].T)), known

    @classmethod
    def _from_scores(cls, model, scores):
        """Those of an estimator that has computed its decision values, (t, n), already."""
        knows, rows = copy.copy(model), np.empty((scores.shape[1], 0))
        knows._scores = lambda rows: scores
        values, chances = (
            getattr(knows, name)(rows) if hasattr(knows, name) else None
            for name in ("decision_function", "predict_proba")
        )
        return cls(knows.predict(rows), getattr(model, "classes_", None), values, chances)


def measured(answers, y, training):
    """The measures of some answers, as two mappings: their values, and those of the best answer
    that is the same for all rows.

    Parameters
    ----------
    answers : Answers
    y : (n,) array
        What is true.
    training : array
        The targets that such a constant answer is made of.
    """
    if answers.classes is None:
        return _of_numbers(answers.predictions, y, training)
    return _of_classes(answers, y, training)


def _of_numbers(predictions, y, training):
    mean = np.full(len(y), np.mean(training))
    each = {DETERMINATION: _determination} if len(y) > 1 else {}
    each[ERROR] = _absolute_error
    return tuple(
        {name: float(measure(y, said)) for name, measure in each.items()}
        for said in (predictions, mean)
    )


def _of_classes(answers, y, training):
    classes, shares = answers.classes, _shares(training, answers.classes)
    commonest = np.full(len(y), classes[shares.argmax()])
    found = {
        ACCURACY: np.mean(y == answers.predictions),
        BALANCED: _mean_recall(y, answers.predictions),
        AREA: _area(y, answers.values, classes),
    }
    constant = {
        ACCURACY: np.mean(y == commonest),
        BALANCED: _mean_recall(y, commonest),
        AREA: 0.5,
    }
    if answers.chances is not None:
        found[BRIER] = _brier(y, answers.chances, classes)
        constant[BRIER] = _brier(y, np.tile(shares, (len(y), 1)), classes)
    known = {name: float(value) for name, value in found.items() if np.isfinite(value)}
    return known, {name: float(constant[name]) for name in known}


def _shares(y, classes):
    counts = np.array([np.count_nonzero(y == label) for label in classes])
    return counts / max(counts.sum(), 1)


def _mean_recall(y, predictions):
    """Mean, over the classes that are there, of the share of their rows that are found."""
    return np.mean([np.mean(predictions[y == label] == label) for label in np.unique(y)])


def _area(y, values, classes):
    """Area under the ROC curve; of several classes the mean, each against the rest. NaN where all
    rows are of one class.
    """
    if classes.size == 2:
        sides = [(y == classes[1], values)]
    else:
        sides = [(y == label, column) for label, column in zip(classes, values.T, strict=True)]
    areas = [_area_of(side, of) for side, of in sides if 0 < np.count_nonzero(side) < len(y)]
    return np.mean(areas) if areas else np.nan


def _area_of(positive, values):
    """The share of pairs of a positive and a negative row that the values put in order, equals
    counting half.
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * (counts - 1)
    ahead = np.count_nonzero(positive)
    above = ranks[places][positive].sum() - 0.5 * ahead * (ahead + 1)
    return above / (ahead * (len(positive) - ahead))


def _determination(y, said):
    """R², which is 1 for constant targets that are met, and 0 if they are not."""
    left, total = np.square(y - said).sum(), np.square(y - y.mean()).sum()
    return 1.0 - left / total if total > 0 else float(left == 0.0)


def _absolute_error(y, said):
    return np.abs(y - said).mean()


def _brier(y, chances, classes):
    """Mean squared error of the probabilities, summed over several classes."""
    errors = np.square(chances - (y[:, None] == classes)).sum(axis=1)
    return np.mean(errors) / (2.0 if classes.size == 2 else 1.0)
