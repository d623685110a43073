"""Sets of classes and intervals that hold the truth as often as they say: cross-conformal
prediction (Vovk, Annals of Mathematics and Artificial Intelligence 74, 2015; Barber et al., Annals
of Statistics 49, 2021).

Every fold of a cross-validation has a model, and rows that it never saw. A class, or a value, is
ruled out for a new row if it fits the folds' models worse than almost all held-out rows do, each of
them judged by the model of its own fold. Nothing else is learned from the held-out rows: scores are
margins and residuals as the models have them, and not calibrated probabilities.
"""

import numbers
from typing import Any, NamedTuple

import numpy as np

from ..banks import MissingBank
from .data.units import in_units

# Rows with a pattern of missing views, times 1 - confidence_level, from which on rows with that
# pattern are compared with them alone; with fewer, sets of single patterns would be very uncertain.
ENOUGH = 5.0
# Difference of scores, relative to those of a fold, up to which they are equal: kernels of the grid
# were in float32.
ROUNDING = 1e-6
ENTRIES_AT_ONCE = 2**22  # ends of intervals that are sorted together


class HeldOutFold(NamedTuple):
    """What a fold says of the rows that it holds out.

    Attributes
    ----------
    model : fitted MKL estimator
        Of the other rows.
    scores : (t, n) array
        How badly they fit it: minus the margin of the true class, or absolute residuals.
    codes : (n,) int
        Numbers of their classes; zeros in a regression.
    weight : (n,) array
        How often each counts.
    presence : (n, views) bool
        The views that they have, if rows may lack some.
    """

    model: Any
    scores: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    presence: np.ndarray

    @property
    def rounding(self):
        """Difference up to which scores are equal."""
        finite = self.scores[np.isfinite(self.scores)]
        return ROUNDING * float(np.median(np.abs(finite))) if finite.size else 0.0


def check_level(confidence_level):
    """The share of errors that is allowed; raise unless the level is between 0 and 1."""
    if not isinstance(confidence_level, numbers.Real) or not 0.0 < confidence_level < 1.0:
        raise ValueError(
            f"confidence_level must be a number between 0 and 1, got {confidence_level!r}."
        )
    # 1 - 0.9 is a little less than a tenth
    return round(1.0 - float(confidence_level), 12)


def presence(model, X):
    """The views that rows have in their own units, (n, views) bool; no views if none may lack any.

    Parameters
    ----------
    model : fitted MKL estimator
    X : checked points
    """
    if isinstance(model.bank_, MissingBank):
        return model.bank_.views.presence(X)
    return np.ones((X.shape[0], 0), dtype=bool)


def fold_scores(model, folds, X):
    """Decision values of new rows by the model of every fold, a list of (t, n), and the views that
    the rows have.
    """
    grams = model.decision_.grams_of(X)
    if grams is not None:
        found = [fold.model.decision_.scores(grams) for fold in folds]
        return found, np.ones((len(grams[0]), 0), dtype=bool)
    raw, categories = model._read_new(X, in_units=False)
    there = presence(model, raw)
    if not there.all() and not all(isinstance(fold.model.bank_, MissingBank) for fold in folds):
        raise ValueError(
            "Some rows lack views, and no row of the training did, so that there are none to "
            "compare them with: give complete rows."
        )
    found = [fold.model.decision_.scores(in_units(fold.model, raw), categories) for fold in folds]
    return found, there


def misfits(model, scores, classes):
    """Minus the margins of all classes, (n, n_classes): the largest decision value of the others
    less that of the class. A class that the model does not know fits nowhere.

    Parameters
    ----------
    model : fitted MKLClassifier
    scores : (t, n) array
        Its decision values.
    classes : array
        All classes.
    """
    values = model._by_class(scores)
    values = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    order = np.sort(values, axis=1)
    others = np.where(values == order[:, -1:], order[:, -2:-1], order[:, -1:])
    out = np.full((len(values), classes.size), np.inf)
    out[:, np.searchsorted(classes, model.classes_)] = others - values
    return out


def class_sets(folds, found, there, alpha, by_class):
    """Which classes are not ruled out, (n, n_classes) bool.

    Parameters
    ----------
    folds : list of HeldOutFold
    found : list of (n, n_classes) arrays
        The misfits of new rows for every fold.
    there : (n, views) bool
        The views that they have.
    alpha : float
    by_class : bool
        Whether a class is compared with held-out rows of that class alone.
    """
    out = np.empty(found[0].shape, dtype=bool)
    for rows, kept in _patterns(folds, there, alpha):
        for c in range(out.shape[1]):
            worse, total = 0.0, 0.0
            for fold, misfit, keep in zip(folds, found, kept, strict=True):
                keep = keep & (fold.codes == c) if by_class else keep
                order = np.argsort(fold.scores[0, keep], kind="stable")
                below = np.concatenate([[0.0], np.cumsum(fold.weight[keep][order])])
                least = misfit[rows, c] - fold.rounding
                places = np.searchsorted(fold.scores[0, keep][order], least, "left")
                worse, total = worse + below[-1] - below[places], total + below[-1]
            out[rows, c] = 1.0 + worse > alpha * (1.0 + total)
    return out


def intervals(folds, found, there, alpha):
    """The smallest intervals of all values that are not ruled out, (n, t, 2).

    A value is ruled out unless enough of the intervals ``prediction of the fold +- residual`` of
    all held-out rows hold it.

    Parameters
    ----------
    folds, there, alpha
        See `class_sets`.
    found : list of (t, n) arrays
        Predictions for the new rows by every fold.
    """
    outputs, n = found[0].shape
    out = np.empty((n, outputs, 2))
    for rows, kept in _patterns(folds, there, alpha):
        weight = np.concatenate([fold.weight[keep] for fold, keep in zip(folds, kept, strict=True)])
        # whoever holds the value counts, and the new row itself
        needed = alpha * (1.0 + weight.sum()) - 1.0
        step = max(1, ENTRIES_AT_ONCE // max(2 * weight.size, 1))
        for start in range(0, rows.size, step):
            some = rows[start : start + step]
            for c in range(outputs):
                parts = zip(folds, found, kept, strict=True)
                ends = [(new[c, some], fold.scores[c, keep]) for fold, new, keep in parts]
                low = np.concatenate([at[:, None] - off for at, off in ends], axis=1)
                high = np.concatenate([at[:, None] + off for at, off in ends], axis=1)
                out[some, c, 0] = _first(low, high, weight, needed)
                out[some, c, 1] = -_first(-high, -low, weight, needed)
    return np.sort(out, axis=2)  # where no value is held often enough, both ends are the same


def _first(low, high, weight, needed):
    """The smallest value that intervals of more than the needed weight hold, (n,)."""
    if needed < 0.0:
        return np.full(len(low), -np.inf)
    ends = np.concatenate([low, high], axis=1)
    changes = np.concatenate([weight, -weight])
    # a value at which one interval ends and another begins is in both
    order = np.argsort(ends, axis=1, kind="stable")
    held = np.cumsum(changes[order], axis=1) > needed + 1e-9
    place = np.argmax(held, axis=1)
    first = np.take_along_axis(ends, np.take_along_axis(order, place[:, None], 1), 1)[:, 0]
    return np.where(held.any(axis=1), first, np.median(0.5 * (low + high), axis=1))


def _patterns(folds, there, alpha):
    """New rows in groups, each with the held-out rows of every fold that it is compared with: those
    that lack the same views if they are enough, all otherwise.
    """
    everything = [np.ones(fold.weight.size, dtype=bool) for fold in folds]
    if there.all():
        patterns, of = there[:1], np.zeros(len(there), dtype=int)
    else:
        patterns, of = np.unique(there, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        same = [
            (fold.presence == pattern).all(axis=1) if fold.presence.shape[1] else every
            for fold, every in zip(folds, everything, strict=True)
        ]
        count = sum(int(one.sum()) for one in same)
        yield np.flatnonzero(of.ravel() == number), same if alpha * count >= ENOUGH else everything
