"""Tuning: C and p by cross-validation, beside scikit-learn's grid search.

``grid``: 8 C times 4 p on 5 folds and the training on everything (`MKLClassifierCV`, the papers'
bank) on the small sets and on 800 rows of a9a (123 columns, 1612 kernels), beside
``GridSearchCV(SVC)`` with as many candidates, and beside ``GridSearchCV(MKLClassifier)`` on the
same grid, where that takes no longer than a few minutes; the largest difference of the scores.
``calibration``: expected calibration error (ten bins of equal size) and Brier score of held-out
rows of the small sets beside ``CalibratedClassifierCV(SVC)``. ``probabilities``: these and the
log-loss at the defaults, trained on some thousand rows of larger sets, by the monotone function
that is the default there, by a sigmoid, and of ``CalibratedClassifierCV(SVC)``.
Grids on a GPU are ``python -m benchmarks gpu_grids``.

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

import numpy as np
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier, MKLClassifierCV
from manykernels.kernels import paper_bank

from .common import once, read, table
from .small import SETS

COSTS, NORMS = np.logspace(-2.0, 1.5, 8), (1.0, 1.33, 2.0, float("inf"))
ROWS = {"a9a": 800}
LARGE, TRAINED, TESTED = ("letter", "magic", "covtype", "cod_rna", "ijcnn1"), 1500, 5000
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


def probabilities():
    """Probabilities at the defaults, which are isotonic from 1,000 rows on, of rows not used."""
    rows = [once(name, probabilities_of, name) for name in LARGE if read(name) is not None]
    table("Probabilities of rows not used", rows)
    return rows


def probabilities_of(name):
    """A row of `probabilities`."""
    X, y = _data(name, TRAINED + TESTED)
    y = y == np.unique(y)[0]
    models = {
        "ours": MKLClassifierCV(),
        "sigmoid": MKLClassifierCV(calibration="sigmoid"),
        "SVC": CalibratedClassifierCV(SVC()),
    }
    row = {"set": name, "points": TRAINED}
    for title, model in models.items():
        model, _ = _timed(model, X[:TRAINED], y[:TRAINED])
        truth, found = y[TRAINED:], model.predict_proba(X[TRAINED:])[:, 1]
        row[f"log-loss, {title}"] = log_loss(truth, found)
        row[f"Brier, {title}"] = brier_score_loss(truth, found)
        row[f"error, {title}"] = calibration_error(truth, found)
    return row


def calibration_error(truth, found, bins=10):
    """Mean difference of probability and frequency over bins of equal size."""
    order = np.argsort(found, kind="stable")
    parts = np.array_split(order, bins)
    gaps = [abs(truth[part].mean() - found[part].mean()) * part.size for part in parts if part.size]
    return float(np.sum(gaps) / found.size)


def _sets():
    return [name for name in (*SETS, *ROWS) if read(name) is not None]


def _data(name, count=None):
    X, y = read(name)[:2]
    X = X.toarray() if sparse.issparse(X) else X
    count = min(count or ROWS.get(name, len(y)), MOST)
    rows = np.random.default_rng(0).permutation(len(y))[:count]
    return StandardScaler().fit_transform(X[rows]), y[rows]


def _timed(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        return model.fit(X, y), time.perf_counter() - began


STEPS = {"grid": grid, "calibration": calibration, "probabilities": probabilities}
GUESSED = {"probabilities": 600}
QUICK = {
    "SETS": ("liver",),
    "LARGE": ("letter",),
    "TRAINED": 100,
    "TESTED": 100,
    "ROWS": {},
    "COSTS": np.logspace(-1.0, 1.0, 6),
    "NORMS": (1.0, 2.0),
    "MOST": 200,
}
