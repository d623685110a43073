"""MKLGL's study of the norm: accuracy against p (Xu et al., ICML 2010, tables 2 and 3).

Simulated data: 400 points with 34 features, labels the sign of the mean of the features, one linear
kernel per feature. Real data: the 13 kernels of the papers on all features of bci, usps and coil2.
Half of the data for training, unit trace, C = 100, TRIALS random splits.

What was learned: with C = 100 the paper's accuracies on usps and coil2 come out to half a percent,
and so does the rise with p. It is a matter of regularization, though, not of the norm: the weights
of a p-norm ball grow with p, and kernels of unit trace are small. The "sum of kernels", the least
accurate in the paper, is the same kernel as p = 1000 up to a factor (the figures are those of the
mean, weights 1/m). The column "tuned" chooses C for every p by three folds of the training half
along `manykernels.path`, and there most of the rise is gone.
"""

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, path
from manykernels.banks import make_bank
from manykernels.kernels import RBF, Linear, Polynomial, paper_bank
from manykernels.kernels.grids import PAPER_DEGREES, PAPER_WIDTHS
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.solvers import choose_solver, solve

from .common import load, table, until
from .papers import MKLGL_TABLES_2_3

CURVES, SECONDS, POINTS_OF_CURVE = (
    ("ionosphere", "breast_cancer", "sonar", "diabetes"),
    20.0,
    40,
)
REAL = ("bci", "usps", "coil2")
NORMS = (1, 2, 3, 4, 10, 100, 1000)
C, TRIALS, TUNED_TRIALS, COSTS = 100.0, 20, 5, (1.0, 10.0, 100.0, 1000.0, 1e4)


def simulated():
    X = np.random.default_rng(0).standard_normal((400, 34))
    return X, np.sign(X.mean(axis=1)), [Linear(features=[f]) for f in range(34)]


def real(name):
    data = load(name)
    if data is None:
        return None
    return *data, [RBF(1 / (2 * w * w)) for w in PAPER_WIDTHS] + [
        Polynomial(q) for q in PAPER_DEGREES
    ]


def half(X, y, seed, share=0.5):
    """A random half (or another share) to test on and the rest to train on, standardized by the
    latter.
    """
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=share, stratify=y, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def estimator(kernels, key, cost):
    """The solver of the paper; on the simplex, uniform weights are the mean of the kernels."""
    solver, p = (
        ("uniform", 1.0) if key == "mean" else ("newton" if key == 1 else "group_lasso", float(key))
    )
    return MKLClassifier(kernels, solver=solver, p=p, C=cost, normalize="trace")


def tuned(X, y, kernels, key, seed):
    """Test accuracy with C chosen by three folds of the training half."""
    X_train, X_test, y_train, y_test = half(X, y, seed)
    model = estimator(kernels, key, 1.0)
    scores = []
    for fold, held in StratifiedKFold(3, shuffle=True, random_state=seed).split(X_train, y_train):
        scores.append(
            path(model, X_train[fold], y_train[fold], C=COSTS).scores(X_train[held], y_train[held])
        )
    best = COSTS[int(np.argmax(np.mean(scores, axis=0)))]
    return model.set_params(C=best).fit(X_train, y_train).score(X_test, y_test)


def study(name, X, y, kernels):
    rows = []
    for key in ("mean", *NORMS):
        accuracies, seconds, gaps = [], [], []
        for trial in range(TRIALS):
            X_train, X_test, y_train, y_test = half(X, y, trial)
            began = time.perf_counter()
            model = estimator(kernels, key, C).fit(X_train, y_train)
            seconds.append(time.perf_counter() - began)
            accuracies.append(model.score(X_test, y_test))
            gaps.append(model.result_.duality_gap)
        best = [tuned(X, y, kernels, key, trial) for trial in range(TUNED_TRIALS)]
        rows.append(
            {
                "set": name,
                "p": "mean of kernels" if key == "mean" else str(key),
                "accuracy %": 100 * float(np.mean(accuracies)),
                "deviation": 100 * float(np.std(accuracies)),
                "paper %": MKLGL_TABLES_2_3[name][key],
                "tuned %": 100 * float(np.mean(best)),
                "seconds": float(np.mean(seconds)),
                "largest gap": float(np.max(gaps)),
            }
        )
    return rows


def norms():
    """Accuracy against p, hinge, C = 100 and tuned, a gap of 1e-3."""
    results = []
    problems = {"simulated": simulated(), **{name: real(name) for name in REAL}}
    with warnings.catch_warnings():
        # uniform weights are not optimal, and are not meant to be
        warnings.simplefilter("ignore", ConvergenceWarning)
        for name, data in problems.items():
            if data is not None:
                results += study(name, *data)
                table(name, [row for row in results if row["set"] == name])
    return results


def curves():
    """Objective against seconds, and of the best point so far the weights that are the five
    largest at the end (figures 1 and 2).
    """
    rows = []
    for name in CURVES:
        data = load(name)
        if data is None:
            continue
        X, _, y, _ = half(*data, 0, share=0.2)
        for method in ("simple", "group_lasso"):
            bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
            problem = Problem(bank, y, np.full(len(y), C), PNormBall(1.0))
            weights = []

            def keep(best, record, weights=weights):
                weights.append(np.array(best.weights))

            result = solve(problem, choose_solver(method), watch=until(SECONDS), keep=keep)
            top = np.argsort(result.weights)[::-1][:5]
            count = min(len(result.history), len(weights))
            for k in np.unique(np.linspace(0, count - 1, POINTS_OF_CURVE).astype(int)):
                record = result.history[k]
                rows.append(
                    {
                        "set": name,
                        "method": method,
                        "seconds": record.seconds,
                        "objective": record.objective,
                        "gap": record.gap,
                        "SVM solves": record.svm_solves,
                        "weights": [float(weights[k][j]) for j in top],
                    }
                )
            print(name, method, rows[-1], flush=True)
    return rows


STEPS = {"norms": norms, "curves": curves}
QUICK = {
    "CURVES": ("sonar",),
    "SECONDS": 2.0,
    "REAL": (),
    "NORMS": (1, 1000),
    "COSTS": (10.0, 1000.0),
    "TRIALS": 2,
    "TUNED_TRIALS": 1,
}
