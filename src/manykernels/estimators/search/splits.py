"""Splits of rows into those to train on and those that are held out, checked before any work."""

import reprlib

import numpy as np


def listed(cv):
    """Pairs of rows as a list, if each is one; whatever else makes splits as it is.

    scikit-learn takes pairs apart before they can be looked at.
    """
    if hasattr(cv, "split") or isinstance(cv, str) or not np.iterable(cv):
        return cv
    pairs = list(cv)
    for number, pair in enumerate(pairs):
        _parts(pair, number)
    return pairs


def checked_splits(pairs, weight, labels=None):
    """Splits as a list of pairs of index arrays; raise where one cannot be trained on.

    Parameters
    ----------
    pairs : iterable of pairs
        Numbers of rows, or masks of all rows.
    weight : (n,) array
        Of the rows.
    labels : (n,) array, optional
        Of the rows, of which every part to train on needs two.
    """
    splits = []
    for number, pair in enumerate(pairs):
        parts = _parts(pair, number)
        train = _rows(parts[0], f"training rows of split {number}", len(weight))
        test = _rows(parts[1], f"test rows of split {number}", len(weight))
        if not weight[train].any():
            raise ValueError(
                f"The training rows of split {number} all have a sample weight of zero: nothing is "
                "left to learn from. Leave such rows out, or give another cv."
            )
        if labels is not None and len(only := np.unique(labels[train][weight[train] > 0])) == 1:
            raise ValueError(
                f"The training rows of split {number} are all of the class {only[0]!s}: give a cv "
                "with fewer splits, or one that leaves some rows of every class in all of them."
            )
        splits.append((train, test))
    if not splits:
        raise ValueError("cv gave no splits: give a number of folds, a splitter, or pairs of rows.")
    return splits


def refuse_weightless_tests(splits, weight):
    """Raise if a weighted score would have nothing to weigh."""
    for number, (_, test) in enumerate(splits):
        if not weight[test].any():
            raise ValueError(
                f"The test rows of split {number} all have a sample weight of zero, so that they "
                "have no score: leave such rows out, or give a cv whose folds mix them with others."
            )


def _parts(pair, number):
    """The two parts of a split."""
    parts = list(pair) if np.iterable(pair) and not isinstance(pair, str) else []
    if len(parts) != 2:
        raise ValueError(
            "cv must give pairs of training and test rows, as arrays of row numbers; split "
            f"{number} is {reprlib.repr(pair)}."
        )
    return parts


def _rows(part, name, n):
    """Row numbers of a part, of n rows."""
    rows = np.asarray(part)
    if rows.dtype == bool and rows.shape == (n,):
        rows = np.flatnonzero(rows)
    if rows.size == 0:
        raise ValueError(f"There are no {name}: give fewer folds, or another cv.")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise ValueError(
            f"The {name} must be a list of row numbers or a mask of {n} rows, got an array of "
            f"{rows.dtype} of shape {rows.shape}."
        )
    if rows.min() < -n or rows.max() >= n:
        wrong = rows.min() if rows.min() < -n else rows.max()
        raise ValueError(
            f"The {name} have row {wrong}, and X has {n} rows, from 0 to {n - 1}: give row numbers "
            "of the X that fit is given."
        )
    return rows % n
