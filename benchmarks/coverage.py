"""Sets and intervals that cover: how often they hold the truth, how large they are, what they cost.

``classes``: `MKLClassifierCV.predict_set` at 80, 90 and 95 % on random splits of every set: trained
on at most 300 rows, judged on at most 700 others. The share of sets that hold the true class, and
their mean size. ``numbers``: the same for `MKLRegressorCV.predict_interval`, with the median width,
on the regression sets that scikit-learn bundles and on Friedman's three functions. Both beside
MAPIE (in an environment of its own) with the same models of the same folds: LAC scores of softmax
or logistic probabilities, aggregated by cross-validation, and the method "plus". The last row of
each table has the mean coverage, how many sets are within three binomial errors of the level (of
the rows that judge and of the rows that calibrate), and the median size beside MAPIE's. ``cost``:
seconds for the models of the folds beside those of the whole fit.

What was learned
----------------
* Margins of the folds' models do as well as calibrated probabilities, and nothing has to be learned
  from held-out rows, which the proof does not allow.
* The models of the folds are there when the grid is done: keeping them costs a copy of their
  support vectors. Training them again would cost some percent of the grid.
* The smallest interval around all values that are not ruled out is inside of the one of CV+.
"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

from manykernels import MKLClassifierCV, MKLRegressorCV
from manykernels.estimators.search.tuned import Tuned

from . import peers
from .common import once, read, table
from .defaults import SETS as TWO_CLASSES
from .missing import views

LEVELS = (0.8, 0.9, 0.95)
TRAIN, TEST = 300, 700
SPLITS = 3
# too few rows of leukemia for 95 %
SETS = tuple(name for name in TWO_CLASSES if name != "leukemia")
VIEWS = ("mfeat", "tcga_breast")
TIMED = ("wdbc", "magic", "mfeat")  # sets of `cost`
GRID = {"kernels": "whole", "Cs": 4, "ps": (2.0,)}
NUMBERS = ("progression", "friedman1", "friedman2", "friedman3")


def classified(name):
    """Points and classes of a set; None where it is not here."""
    if name in VIEWS:
        data = views(name)
        return None if data is None else (data[0], data[2])
    data = read(name)
    return None if data is None else (data[0], data[1])


def measured(name):
    """Points and targets."""
    if name == "progression":
        return load_diabetes(return_X_y=True)
    make = {"friedman1": make_friedman1, "friedman2": make_friedman2, "friedman3": make_friedman3}
    return make[name](
        1000, noise={"friedman2": 50.0, "friedman3": 0.1}.get(name, 1.0), random_state=0
    )


def split(X, y, seed):
    """Rows to train on and to judge."""
    order = np.random.default_rng(seed).permutation(len(y))
    size = min(TRAIN, len(y) // 2)
    some = [order[:size], order[size : size + TEST]]
    X = X.tocsr() if sparse.issparse(X) else X
    return [(X[rows].toarray() if sparse.issparse(X) else X[rows], y[rows]) for rows in some]


def tried(name, seed):
    """What one split of a set says, ours and MAPIE's."""
    numbers = name in NUMBERS
    X, y = (measured if numbers else classified)(name)
    (X, y), (X_new, y_new) = split(X, y, seed)
    known = np.isin(y_new, y) | numbers
    X_new, y_new = X_new[known], y_new[known]
    model = (MKLRegressorCV if numbers else MKLClassifierCV)(**GRID)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    if numbers:
        ours = [model.predict_interval(X_new, level) for level in LEVELS]
    else:
        ours = [model.predict_set(X_new, level) for level in LEVELS]
        y_new = np.searchsorted(model.classes_, y_new)
        y = np.searchsorted(model.classes_, y)
    theirs = beside(model, X, y, X_new, numbers)
    judge = judged_intervals if numbers else judged_sets
    return {
        "calibrated": len(y),
        "judged": len(y_new),
        "ours": [judge(one, y_new) for one in ours],
        "mapie": [judge(np.array(one), y_new) for one in theirs],
    }


def judged_sets(sets, y):
    sets = sets.astype(bool)
    return [float(sets[np.arange(len(y)), y].mean()), float(sets.sum(axis=1).mean())]


def judged_intervals(ends, y):
    return [
        float(((ends[:, 0] <= y) & (y <= ends[:, 1])).mean()),
        float(np.median(ends[:, 1] - ends[:, 0])),
    ]


def beside(model, X, y, X_new, numbers):
    """What MAPIE makes of the same models of the same folds."""
    folds = np.empty(len(y), dtype=int)
    splits = model_splits(model, X, y, numbers)
    for number, (_, test) in enumerate(splits):
        folds[test] = number
    everything = np.concatenate([X, X_new])
    scores = [fold.model._scores(everything) for fold in model.held_out_folds_]
    found = np.stack([one[0] if numbers else probabilities(one) for one in scores])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "folds.npz"
        np.savez(path, folds=folds, table=found, y=y, levels=np.array(LEVELS))
        return peers.run("mapie", "mapie_sets", path)["found"]


def model_splits(model, X, y, numbers):
    """The folds of a model, which are scikit-learn's own."""
    from sklearn.model_selection import check_cv

    return list(check_cv(None, y, classifier=not numbers).split(X, y))


def probabilities(scores):
    """Of decision values: logistic for two classes, and softmax for more."""
    if len(scores) == 1:
        positive = 1.0 / (1.0 + np.exp(-2.0 * scores[0]))
        return np.stack([1.0 - positive, positive], axis=1)
    parts = np.exp(scores.T - scores.max(axis=0)[:, None])
    return parts / parts.sum(axis=1, keepdims=True)


def summed(names, what):
    """A table of all sets, and the last row with what they say together."""
    rows = []
    for name in names:
        data = (measured if name in NUMBERS else classified)(name)
        if data is None:
            continue
        found = [once(f"{name} {seed}", tried, name, seed) for seed in range(SPLITS)]
        row = {"set": name, "rows": found[0]["calibrated"], "judged": found[0]["judged"]}
        for place, level in enumerate(LEVELS):
            ours, theirs = (
                np.mean([one[who][place] for one in found], axis=0) for who in ("ours", "mapie")
            )
            counts = [SPLITS * found[0][name] for name in ("judged", "calibrated")]
            error = np.sqrt(level * (1.0 - level) * sum(1.0 / count for count in counts))
            row |= {
                f"{level:.0%}": 100.0 * float(ours[0]),
                f"{level:.0%} errors": float((ours[0] - level) / error),
                f"{level:.0%} {what}": float(ours[1]),
                f"{level:.0%} mapie": float(theirs[1]),
                f"{level:.0%} mapie covers": 100.0 * float(theirs[0]),
            }
        rows.append(row)
    if rows:
        table(f"Coverage in %, in binomial errors from the level, and {what} beside MAPIE", rows)
        print(together(rows, what))
    return rows


def together(rows, what):
    """A sentence for every level."""
    words = []
    for level in LEVELS:
        name = f"{level:.0%}"
        cover = np.mean([row[name] for row in rows])
        within = sum(abs(row[f"{name} errors"]) <= 3.0 for row in rows)
        ratio = np.median([row[f"{name} {what}"] / row[f"{name} mapie"] for row in rows])
        words.append(
            f"{name}: mean coverage {cover:.1f} %, {within} of {len(rows)} sets within three "
            f"errors, median {what} {ratio:.3f} times MAPIE's"
        )
    return "\n".join(words)


def classes():
    """Sets of classes."""
    return summed((*SETS, *VIEWS), "size")


def numbers():
    """Intervals."""
    return summed(NUMBERS, "width")


def cost():
    """Of the models of the folds, beside the whole fit."""
    spent, keep = [], Tuned._folds

    def timed(self, task, found):
        began = time.perf_counter()
        folds = keep(self, task, found)
        spent.append(time.perf_counter() - began)
        return folds

    rows = []
    for name in TIMED:
        data = classified(name)
        if data is None:
            continue
        (X, y), (X_new, _) = split(*data, 0)
        Tuned._folds = timed
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = MKLClassifierCV(**GRID).fit(X, y)  # compiles
                began = time.perf_counter()
                model = MKLClassifierCV(**GRID).fit(X, y)
                whole = time.perf_counter() - began
        finally:
            Tuned._folds = keep
        began = time.perf_counter()
        model.predict(X_new)
        plain = time.perf_counter() - began
        began = time.perf_counter()
        model.predict_set(X_new)
        rows.append(
            {
                "set": name,
                "fit": whole,
                "folds": spent[-1],
                "share in %": 100.0 * spent[-1] / whole,
                "predict_set, times predict": (time.perf_counter() - began) / plain,
            }
        )
    table("Seconds for the models of the folds, beside the whole fit", rows)
    return rows


STEPS = {"classes": classes, "numbers": numbers, "cost": cost}
NEEDS = {"classes": ("mapie",), "numbers": ("mapie",)}
GUESSED = {"classes": 600, "numbers": 200, "cost": 40}
QUICK = {
    "SETS": ("sonar", "wdbc"),
    "VIEWS": (),
    "TIMED": ("wdbc",),
    "SPLITS": 1,
    "NUMBERS": ("progression",),
}
