"""Grids on one GPU: C, p, folds and choices of kernels at once.

``defaults``: `MKLClassifierCV` at its defaults on 1,000 and 5,000 rows. ``a9a``: five folds and ten
C with ten Gaussians of rank 100 each, and with one. ``peers``: the latter beside TorchKM, where
that is installed. Everything is timed from NumPy arrays to the model, the training on everything
included, after a run on other data that warms up. ``gap`` is the relative gap of the model: of
exact kernels computed anew in float64 on the host, of low-rank ones what its certificate says.
"""

import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import PredefinedSplit, StratifiedKFold

from manykernels import MKLClassifierCV
from manykernels.kernels import RBF, KernelCollection
from manykernels.kernels.vector import dense
from manykernels.lowrank import Nystroem

from .common import read, table

ROWS = (1000, 5000)
HELD_OUT = 20_000
COSTS = np.logspace(-1, 2, 10)
REPEATS = 2


def drawn(n, seed=0):
    """Rows to train on, and others of the same kind."""
    options = {"n_informative": 8, "n_redundant": 2, "flip_y": 0.1, "random_state": seed}
    X, y = make_classification(n + HELD_OUT, 20, **options)
    return X[:n], y[:n], X[n:], y[n:]


def timed(model, X, y):
    """The fitted model of the shortest of some fits, and its seconds."""
    found = []
    for _ in range(REPEATS):
        one, began = clone(model), time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one.fit(X, y)
        found.append((time.perf_counter() - began, one))
    return min(found, key=lambda of: of[0])


def recomputed(model, X, y):
    """The relative gap of a model's weights and coefficients, computed anew on the host."""
    plain = model._plain(C=model.C_, p=model.p_, kernels=getattr(model, "kernels_", model.kernels))
    plain.set_params(device="cpu", tol=1e-6)
    prepared = plain._data(X, y, None)
    from manykernels.estimators.session import run_state

    problem = run_state(plain, prepared, None).problem
    result = model.result_
    return problem.certificate(result.weights, result.beta).gap


def row_of(name, seconds, model, X, y, X_test, y_test, exact=True):
    row = {"grid": name, "rows": len(y), "seconds": seconds}
    row |= {"C": model.C_, "p": model.p_, "CV score": 100 * model.best_score_}
    row |= {"left out": int(np.isnan(model.scores_).sum()), "cells": model.scores_.size}
    row |= {"accuracy": 100 * model.score(X_test, y_test)}
    row["gap"] = recomputed(model, X, y) if exact else model.result_.duality_gap
    way = model.plan_.solver.what
    print(row, way, flush=True)
    return row


def defaults(device="cuda"):
    rows = []
    timed(MKLClassifierCV(device=device), *drawn(300, 1)[:2])
    for n in ROWS:
        X, y, *test = drawn(n)
        seconds, model = timed(MKLClassifierCV(device=device), X, y)
        rows.append(row_of(f"defaults, {device}", seconds, model, X, y, *test))
    table("MKLClassifierCV() on a GPU", rows)
    return rows


def a9a_grids():
    """Ten Gaussians, and one as TorchKM's Nyström SVM has it."""
    ten = KernelCollection([RBF(gamma=float(2.0**g)) for g in range(-9, 1)])
    one = KernelCollection([RBF(gamma=2.0**-6)])
    for rank, kernels in ((100, ten), (100, one), (500, one)):
        for loss in ("squared_hinge", "hinge"):
            name = f"{len(kernels)} Gaussians, rank {rank} each, {loss}"
            yield (
                name,
                {
                    "kernels": kernels,
                    "loss": loss,
                    "approximation": Nystroem(rank=rank, random_state=0),
                },
            )


def a9a_folds():
    """Rows to train on, rows held out, and the fold of each of the first, from one on."""
    data = read("a9a")
    if data is None:
        return None
    X, y, X_test, y_test = dense(data[0]), data[1], dense(data[2]), data[3]
    fold_of = np.zeros(len(y), dtype=int)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    for number, (_, test) in enumerate(folds):
        fold_of[test] = number + 1
    return X, y, X_test, y_test, fold_of


def a9a(device="cuda", grids=None):
    data = a9a_folds()
    if data is None:
        return []
    *data, fold_of = data
    rows, (X, y) = [], data[:2]
    small = np.random.default_rng(0).permutation(len(y))[:2000]
    for name, options in grids or a9a_grids():
        grid = {"Cs": COSTS, "ps": (1.33,), "device": device}
        timed(MKLClassifierCV(**options, **grid, cv=3), X[small], y[small])
        model = MKLClassifierCV(**options, **grid, cv=PredefinedSplit(fold_of))
        seconds, model = timed(model, X, y)
        rows.append(row_of(name, seconds, model, *data, exact=False))
    table("a9a, 5 folds, 10 C", rows)
    return rows


def peers():
    """TorchKM's Nyström SVM with one Gaussian, 2,000 landmarks, and ours in the same run."""
    from torchkm.estimators import TorchKMSVC

    data = a9a_folds()
    if data is None:
        return []
    X, y, X_test, y_test, fold_of = data
    options = {"kernel": "rbf", "Cs": COSTS[::-1].copy(), "low_rank": True, "device": "cuda"}
    small = np.random.default_rng(0).permutation(len(y))[:2000]
    timed(TorchKMSVC(**options, foldid=fold_of[small]), X[small], y[small])
    seconds, model = timed(TorchKMSVC(**options, foldid=fold_of), X, y)
    row = {"grid": "TorchKM, 2,000 landmarks", "rows": len(y), "seconds": seconds}
    row |= {"accuracy": 100 * float(np.mean(model.predict(X_test) == y_test))}
    print(row, flush=True)
    ours = [one for one in a9a_grids() if one[0].startswith("1 ")]
    rows = [row, *a9a(grids=ours)]
    table("a9a, 5 folds, 10 C, beside TorchKM", rows)
    return rows


STEPS = {"defaults": defaults, "a9a": a9a, "peers": peers}
NEEDS = {"": ("GPU",), "a9a": ("a9a.npz",), "peers": ("a9a.npz", "torchkm")}
GUESSED = {"defaults": 60, "a9a": 60, "peers": 40}
QUICK = {"ROWS": (300,), "HELD_OUT": 500, "REPEATS": 1}
