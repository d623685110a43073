"""Rows that lack whole views: what they cost, beside what else one could do with them.

Every row of training and test parts keeps one view, chosen at random, and loses each of the others
with the same probability. ``shares``: accuracy against that probability for ``missing="mean"`` and
``"scaled"``; for columns filled with their means, before the same estimator; and for complete rows
only, where enough are left (new rows are then at the means of the views that they lack). The digits
of mfeat (six views, ten classes), and three types of breast cancer (three views). ``one_view``:
models of complete rows, and models of rows that lack views with probability 0.4, predict rows that
have a single view, beside a model of that view alone. ``lost_view``: the test part of tcga_breast,
which has no proteins, beside a model that never saw them. ``cost``: a pass over the kernels where a
third of the views is missing, beside one of complete rows.

Gaussians of four widths and a linear kernel on every view, standardized, p = 2, C = 10; means over
some random splits, with half the width of a 95 % interval for the mean difference from "mean" in
brackets.

What was learned
----------------
* A sum over the views that are there is small beside one over all: with probability 0.6 "scaled" is
  right for 93.3 % of mfeat and "mean" for 89.7 %, and rows with one view are predicted far better.
* The number of views over that of the views present did as well as its root or better: 93.3 against
  92.1 % there, and no difference that splits of tcga_breast can tell.
* Complete rows are few: of six views with probability 0.2, a third of the rows is left.
* A model of one view alone predicts that view better than a model of all that is given one view,
  since the weights are those of all views; where it is known which view will be missing, train
  without it.
"""

import time
import warnings

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.banks import make_bank
from manykernels.kernels import on_groups

from .common import file_of, in_turns, table

SHARES = (0.0, 0.2, 0.4, 0.6)
SETS = {"mfeat": (300, 500, 3), "tcga_breast": (100, 50, 10)}  # rows, test rows, splits
POINTS = 2000  # of a pass
FEWEST = 30  # complete rows that are worth training on


def views(name):
    """Points, columns by view, classes, and the same of the test part if there is one (NaN for a
    view that it lacks); None where the data are not here.
    """
    path = file_of(name)
    if path is None:
        return None
    with np.load(path) as archive:
        parts = {view: archive[f"X_{view}"].astype(float) for view in archive["views"].tolist()}
        y, columns, at = archive["y_multi"], {}, 0
        for view, part in parts.items():
            columns[view], at = np.arange(at, at + part.shape[1]), at + part.shape[1]
        X, test = np.hstack(list(parts.values())), None
        if "y_test_multi" in archive:
            X_test = np.full((len(archive["y_test_multi"]), at), np.nan)
            for view in parts:
                if f"X_test_{view}" in archive:
                    X_test[:, columns[view]] = archive[f"X_test_{view}"]
            test = X_test, archive["y_test_multi"]
    return X, columns, y, test


def without(X, columns, share, seed):
    """X with views removed at random, at least one kept."""
    rng, out = np.random.default_rng(seed), X.copy()
    lost = rng.random((len(X), len(columns))) < share
    lost[np.arange(len(X)), rng.integers(len(columns), size=len(X))] = False
    for view, here in zip(columns.values(), lost.T, strict=True):
        out[np.ix_(here, view)] = np.nan
    return out


def model(columns, missing="mean", filled=False):
    machine = MKLClassifier(on_groups(columns), p=2.0, C=10.0, missing=missing)
    steps = [StandardScaler(), SimpleImputer(), machine] if filled else [StandardScaler(), machine]
    return make_pipeline(*steps)


def accuracy(machine, X, y, X_test, y_test):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kernels that are nearly the identity
        return float(100.0 * machine.fit(X, y).score(X_test, y_test))


def splits(X, y, name):
    train, test, count = SETS[name]
    return StratifiedShuffleSplit(count, test_size=test, train_size=train, random_state=0).split(
        X, y
    )


def shares():
    """Accuracy against the share of missing views."""
    rows = []
    for name in SETS:
        data = views(name)
        if data is None:
            continue
        X, columns, y, _ = data
        for share in SHARES:
            began, found = time.perf_counter(), {}
            for seed, (train, test) in enumerate(splits(X, y, name)):
                Z = without(X, columns, share, seed)
                complete = train[~np.isnan(Z[train]).any(axis=1)]
                machines = {
                    "mean": (model(columns), train),
                    "scaled": (model(columns, "scaled"), train),
                    "filled": (model(columns, "error", filled=True), train),
                }
                if len(complete) >= FEWEST and np.unique(y[complete]).size == np.unique(y).size:
                    machines["complete rows"] = model(columns), complete
                for title, (machine, used) in machines.items():
                    found.setdefault(title, []).append(
                        accuracy(machine, Z[used], y[used], Z[test], y[test])
                    )
            rows.append({"set": name, "missing": share, **_cells(found)})
            rows[-1]["seconds"] = time.perf_counter() - began
    if rows:
        table("Accuracy in % where each view is missing with a probability", rows)
    return rows


def _cells(found):
    """Means, and how sure their difference from "mean" is."""
    first, cells = np.array(found["mean"]), {"mean": f"{np.mean(found['mean']):.1f}"}
    for title in ("scaled", "filled", "complete rows"):
        if len(found.get(title, ())) < len(first):
            cells[title] = "–"
            continue
        apart = np.array(found[title]) - first
        sure = 1.96 * apart.std(ddof=1) / np.sqrt(len(apart))
        cells[title] = f"{np.mean(found[title]):.1f} ({sure:.1f})"
    return cells


def one_view():
    """Accuracy for rows that have one view only."""
    rows = []
    for name in SETS:
        data = views(name)
        if data is None:
            continue
        X, columns, y, _ = data
        found = {view: {} for view in columns}
        for seed, (train, test) in enumerate(splits(X, y, name)):
            lacking = without(X, columns, 0.4, seed)
            machines = {
                f"{rule}, {title}": (model(columns, rule), Z)
                for title, Z in (("complete", X), ("40 % missing", lacking))
                for rule in ("mean", "scaled")
            }
            for title, (machine, Z) in machines.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    machine.fit(Z[train], y[train])
                for view, own in columns.items():
                    alone = np.full_like(X[test], np.nan)
                    alone[:, own] = X[np.ix_(test, own)]
                    found[view].setdefault(title, []).append(100 * machine.score(alone, y[test]))
            for view, own in columns.items():
                machine = model({view: np.arange(own.size)}, "error")
                seen = X[:, own]
                found[view].setdefault("this view alone", []).append(
                    accuracy(machine, seen[train], y[train], seen[test], y[test])
                )
        rows += [
            {"set": name, "view": view}
            | {title: f"{np.mean(scores):.1f}" for title, scores in found[view].items()}
            for view in columns
        ]
    if rows:
        table("Accuracy in % for rows with one view", rows)
    return rows


def lost_view():
    """The test part of tcga_breast, which lacks a view."""
    data = views("tcga_breast")
    if data is None:
        return []
    X, columns, y, (X_test, y_test) = data
    there = ~np.isnan(X_test[0])
    known = {view: own for view, own in columns.items() if there[own].all()}  # the first columns
    rows = [
        {"model": f"three views, {rule}", "accuracy %": accuracy(made, X, y, X_test, y_test)}
        for rule, made in (("mean", model(columns)), ("scaled", model(columns, "scaled")))
    ]
    filled = accuracy(model(columns, "error", filled=True), X, y, X_test, y_test)
    rows.append({"model": "three views, filled", "accuracy %": filled})
    alone = accuracy(model(known, "error"), X[:, there], y, X_test[:, there], y_test)
    rows.append({"model": "the two views alone", "accuracy %": alone})
    table("Test rows of tcga_breast without proteins", rows)
    return rows


def cost():
    """Milliseconds of combined kernels and of products, complete and with views missing."""
    rng = np.random.default_rng(0)
    columns = {f"view {k}": np.arange(50 * k, 50 * k + 50) for k in range(6)}
    X = rng.standard_normal((POINTS, 300))
    lacking, weights, rows = without(X, columns, 0.4, 0), np.ones(30), []
    beta = rng.standard_normal(len(X))
    banks = {"complete": make_bank(on_groups(columns), X, dtype=np.float32)} | {
        rule: make_bank(on_groups(columns), lacking, dtype=np.float32, missing=rule)
        for rule in ("mean", "scaled")
    }
    for what in ("combine", "products"):
        given = weights if what == "combine" else beta
        works = [
            lambda bank=bank, what=what, given=given: getattr(bank, what)(given)
            for bank in banks.values()
        ]
        seconds = 1000.0 * in_turns(works)
        rows.append({"ms": what} | dict(zip(banks, seconds.tolist(), strict=True)))
    table(f"A pass over 30 kernels of {POINTS} rows, six views, a third missing", rows)
    return rows


STEPS = {"shares": shares, "one_view": one_view, "lost_view": lost_view, "cost": cost}
QUICK = {"SETS": {"tcga_breast": (100, 50, 2)}, "SHARES": (0.0, 0.4), "POINTS": 500}
