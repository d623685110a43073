"""Tuning: C and p by cross-validation, beside scikit-learn's grid search.

``grid``: 8 C times 4 p on 5 folds and the training on everything (`MKLClassifierCV`, the papers'
bank) on the small sets and on 800 rows of a9a (123 columns, 1612 kernels), beside
``GridSearchCV(SVC)`` with as many candidates, and beside ``GridSearchCV(MKLClassifier)`` on the
same grid, where that takes no longer than a few minutes; the largest difference of the scores.
``device``: on a GPU, all 32,561 points of a9a, ten Gaussians, ten values of C on five folds, exact
and with Nyström factors, beside TorchKM's Nyström SVC (one kernel) with the same folds and values
of C, where it is installed; seconds, and accuracy on the test part.
``calibration``: expected calibration error (ten bins of equal size) and Brier score of held-out
rows of the small sets beside ``CalibratedClassifierCV(SVC)``.

What was learned
----------------
* Folds as rows of one bank and passes for 80 problems at a time take most of the cost out of the
  kernels: a request costs 2 ms where a pass cost 40 (768 points, 117 kernels). What is left is the
  quadratic programs, of which p = 1 has most: two thirds of the time.
* The matrix library takes its number of threads from the thread that first set it alone
  (threadpoolctl's ownership): passes that another thread served ran on one core until their columns
  were shared out by hand. With the last products of every problem remembered (certificates and
  decision values ask for them again) and sums of few kernels left to themselves, a grid on sonar
  went from 14 to 9 s.
* Threads do not help the rest, a million small calls from Python that hold its lock; of the time
  that is left half is such calls and a third the passes.
* Starting from a C that is thousands of times smaller makes SVMs of millions of steps; from the
  next value of a grid it saves a third.
"""

import time
import warnings
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import (
    GridSearchCV,
    PredefinedSplit,
    StratifiedKFold,
    cross_val_predict,
)
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier, MKLClassifierCV
from manykernels.kernels import RBF, KernelCollection, paper_bank
from manykernels.lowrank import Nystroem

from .common import read, table
from .small import SETS

COSTS, NORMS = np.logspace(-2.0, 1.5, 8), (1.0, 1.33, 2.0, float("inf"))
ROWS = {"a9a": 800}
MOST = 10**6  # rows of any set
LONGEST = 600  # kernels times points that are worth a grid search one by one, in thousands


def grid():
    """One call, C and p, beside grid searches, the papers' bank."""
    rows = []
    for name in _sets():
        X, y = _data(name)
        kernels, cv = paper_bank(X), StratifiedKFold(5, shuffle=True, random_state=0)
        _timed(MKLClassifierCV(kernels, Cs=[0.1, 1.0], ps=NORMS, cv=cv), X[:80], y[:80])
        ours, seconds = _timed(MKLClassifierCV(kernels, Cs=COSTS, ps=NORMS, cv=cv), X, y)
        other = {"C": np.logspace(-1, 2.5, 8), "gamma": np.logspace(-3, 0, 4)}
        svc, svc_seconds = _timed(GridSearchCV(SVC(), other, cv=cv), X, y)
        row = {
            "set": name,
            "points": len(y),
            "kernels": len(kernels),
            "seconds": seconds,
            "of SVC's grid": seconds / svc_seconds,
            "score": ours.best_score_,
            "SVC's score": svc.best_score_,
            "C": ours.C_,
            "p": ours.p_,
        }
        if len(kernels) * len(y) <= 1000 * LONGEST:
            search = GridSearchCV(MKLClassifier(kernels), {"C": COSTS, "p": NORMS}, cv=cv)
            one_by_one, long = _timed(search, X, y)
            scores = [one_by_one.cv_results_[f"split{fold}_test_score"] for fold in range(5)]
            row["times as fast as one by one"] = long / seconds
            difference = np.abs(np.reshape(scores, ours.scores_.shape) - ours.scores_)
            row["largest difference"] = difference.max()
        rows.append({"times as fast as one by one": np.nan, "largest difference": np.nan} | row)
        table("C and p by cross-validation", rows[-1:])
    table("C and p by cross-validation", rows)
    return rows


def calibration():
    """Probabilities of held-out rows."""
    rows = []
    for name in SETS:
        if read(name) is None:
            continue
        X, y = _data(name)
        kernels, cv = paper_bank(X), StratifiedKFold(5, shuffle=True, random_state=1)
        ours = MKLClassifierCV(kernels, Cs=COSTS[2:6], ps=(1.33,), cv=5)
        theirs = CalibratedClassifierCV(SVC())
        row = {"set": name, "points": len(y)}
        for title, model in (("ours", ours), ("SVC", theirs)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = cross_val_predict(model, X, y, cv=cv, method="predict_proba")[:, 1]
            truth = y == np.unique(y)[1]
            row[f"error, {title}"] = calibration_error(truth, found)
            row[f"Brier, {title}"] = brier_score_loss(truth, found)
        rows.append(row)
    table("Calibration on held-out rows", rows)
    means = {key: np.mean([row[key] for row in rows]) for key in rows[0] if "," in key}
    table("Means", [means])
    return [*rows, means]


def device():
    """A grid of 10 C and 5 folds on a GPU, p = 1.33."""
    import torch

    if not torch.cuda.is_available():
        print("skipped: there is no GPU")
        return []
    data = read("a9a")
    if data is None:
        return []
    X, y, X_test, y_test = (part.toarray() if sparse.issparse(part) else part for part in data)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    fold_of = np.zeros(len(y), dtype=int)
    for number, (_, test) in enumerate(folds):
        fold_of[test] = number + 1
    costs = np.logspace(-1, 2, 10)
    kernels = KernelCollection([RBF(gamma=float(2.0**g)) for g in range(-9, 1)])
    tuned = partial(
        MKLClassifierCV, kernels, Cs=costs, ps=(1.33,), cv=PredefinedSplit(fold_of), device="cuda"
    )
    models = _torchkm(costs, fold_of) | {
        "Nyström, rank 100 each, squared hinge": tuned(
            approximation=Nystroem(rank=100, random_state=0), loss="squared_hinge"
        ),
        "Nyström, rank 100 each, hinge": tuned(approximation=Nystroem(rank=100, random_state=0)),
        "exact, hinge": tuned(),
    }
    small = np.random.default_rng(0).permutation(len(y))[:2000]
    rows = []
    for name, model in models.items():
        if "TorchKM" in name:
            model.set_params(foldid=fold_of[small])
            _timed(model, X[small], y[small])  # compiles and loads
            model.set_params(foldid=fold_of)
        else:
            _timed(clone(model).set_params(cv=3), X[small], y[small])
        model, seconds = _timed(model, X, y)
        rows.append(
            {
                "model": name,
                "seconds": seconds,
                "test accuracy": float(np.mean(model.predict(X_test) == y_test)),
                "C": getattr(model, "C_", np.nan),
            }
        )
        table("a9a on a GPU: 5 folds, 10 C", rows[-1:])
    table("a9a on a GPU: 5 folds, 10 C", rows)
    return rows


def _torchkm(costs, fold_of):
    """TorchKM's classifier of low rank, if it is installed."""
    try:
        from torchkm.estimators import TorchKMSVC
    except ImportError:
        print("TorchKM is not installed")
        return {}
    return {
        "TorchKM, 2,000 landmarks": TorchKMSVC(
            kernel="rbf", Cs=costs[::-1].copy(), foldid=fold_of, device="cuda", low_rank=True
        )
    }


def calibration_error(truth, found, bins=10):
    """Mean difference of probability and frequency over bins of equal size."""
    order = np.argsort(found, kind="stable")
    parts = np.array_split(order, bins)
    gaps = [abs(truth[part].mean() - found[part].mean()) * part.size for part in parts if part.size]
    return float(np.sum(gaps) / found.size)


def _sets():
    return [name for name in (*SETS, *ROWS) if read(name) is not None]


def _data(name):
    X, y = read(name)[:2]
    X = X.toarray() if sparse.issparse(X) else X
    rows = np.random.default_rng(0).permutation(len(y))[: min(ROWS.get(name, len(y)), MOST)]
    return StandardScaler().fit_transform(X[rows]), y[rows]


def _timed(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        return model.fit(X, y), time.perf_counter() - began


STEPS = {"grid": grid, "calibration": calibration, "device": device}
NEEDS = {"device": ("GPU",)}
GUESSED = {"device": 250}
QUICK = {
    "SETS": ("liver",),
    "ROWS": {},
    "COSTS": np.logspace(-1.0, 1.0, 6),
    "NORMS": (1.0, 2.0),
    "MOST": 150,
}
