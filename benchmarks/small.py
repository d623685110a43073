"""The papers' small data sets: every solver side by side, and next to the cheapest thing one could do instead.

Five folds of each set with the papers' bank (Gaussians of ten widths and polynomials of degree 1 to 3, on every feature and on
all; unit trace), C = 100, standardised. Seconds include the evaluation of kernels. "averaged kernel + SVC" builds the mean of
the same kernels with scikit-learn's pairwise functions and trains one SVC on it; ``ratio`` is a solver's time over that on the
same fold, one after the other. The column headed "paper" has the seconds printed by Jain et al. (KDD 2012, tables 2 and 4; one
core of a 2.1 GHz AMD 6172, kernels precomputed; the l1 penalty where we have the ball of p = 1).
"""

import time

import numpy as np
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from manykernels.kernels import paper_bank
from manykernels.kernels.grids import PAPER_DEGREES, PAPER_WIDTHS
from manykernels.problem import Problem
from manykernels.regularisers import PNormBall
from manykernels.solvers import choose_solver, drive

from .common import load, save, table

SETS = ("wpbc", "sonar", "liver", "ionosphere", "breast_cancer", "australian", "diabetes")
NORMS = {
    1.0: ("newton", "mirror", "spg"),
    1.1: ("newton", "spg"),
    1.33: ("newton", "spg", "group_lasso"),
    2.0: ("newton", "spg"),
}
PAPER = {  # seconds of SPG-GMKL for p = 1.1, 1.33, 2 and, from table 4, of its l1 penalty
    "australian": {1.0: 10.1, 1.1: 7.0, 1.33: 6.9, 2.0: 6.0},
    "liver": {1.1: 0.8, 1.33: 0.7, 2.0: 0.6},
    "sonar": {1.0: 273.4, 1.1: 9.0, 1.33: 4.2, 2.0: 3.1},
    "breast_cancer": {1.0: 5.1, 1.1: 8.6, 1.33: 3.3, 2.0: 2.7},
    "diabetes": {1.1: 4.1, 1.33: 3.0, 2.0: 2.5},
    "wpbc": {1.0: 6.2, 1.1: 1.2, 1.33: 1.3, 2.0: 1.2},
    "ionosphere": {1.0: 39.2},
}
C, TOL, FOLDS = 100.0, 1e-3, 5


def averaged(X, y):
    """The mean of the same kernels by scikit-learn's functions, unit trace, and one SVC."""
    n, d = X.shape
    total, m = np.zeros((n, n)), 0
    for columns in [[f] for f in range(d)] + [slice(None)]:
        A = X[:, columns]
        kernels = [rbf_kernel(A, gamma=1 / (2 * w * w)) for w in PAPER_WIDTHS]
        kernels += [polynomial_kernel(A, degree=q, gamma=1.0, coef0=1.0) for q in PAPER_DEGREES]
        for K in kernels:
            total += K / np.trace(K)
            m += 1
    return SVC(C=C, kernel="precomputed", tol=1e-3).fit(total / m, y)


def learned(X, y, solver, p):
    """Weights by a solver, kernels on the fly."""
    bank = paper_bank(X).fit(X, normalise="trace", dtype=np.float32)
    problem = Problem(bank, y, np.full(len(y), C), PNormBall(p))
    return bank, drive(choose_solver(solver), problem, tol=TOL)


def accuracy(bank, result, X, y):
    scores = bank.cross(X).decision(result.weights, result.beta[0]) + result.intercept[0]
    return float(np.mean(np.sign(scores) == y))


def timed(function, *arguments):
    began = time.perf_counter()
    value = function(*arguments)
    return value, time.perf_counter() - began


def one_set(name):
    data = load(name)
    if data is None:
        return []
    X, y = data
    rows = {}
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        _, plain = timed(averaged, X[train], y[train])
        for p, solvers in NORMS.items():
            for solver in solvers:
                (bank, result), seconds = timed(learned, X[train], y[train], solver, p)
                rows.setdefault((p, solver), []).append(
                    (
                        seconds,
                        seconds / plain,
                        result.counters.svm_solves,
                        result.counters.kernel_passes,
                        np.count_nonzero(result.weights > 1e-6 * result.weights.max()),
                        result.duality_gap,
                        accuracy(bank, result, X[test], y[test]),
                    )
                )
    return [_row(name, p, solver, np.array(values)) for (p, solver), values in rows.items()]


def _row(name, p, solver, values):
    seconds, ratio, solves, passes, kernels, gap, accuracies = values.T
    return {
        "set": name,
        "p": p,
        "solver": solver,
        "seconds": float(seconds.mean()),
        "ratio": float(np.median(ratio)),
        "SVM solves": float(solves.mean()),
        "passes": float(passes.mean()),
        "kernels": float(kernels.mean()),
        "largest gap": float(gap.max()),
        "accuracy %": float(100 * accuracies.mean()),
        "paper, SPG s": PAPER.get(name, {}).get(p, "") if solver == "spg" else "",
    }


def main(out):
    learned(np.random.default_rng(0).standard_normal((60, 3)), np.where(np.arange(60) % 2, 1.0, -1.0), "newton", 1.0)  # compile
    results = {name: one_set(name) for name in SETS}
    rows = [row for name in SETS for row in results[name]]
    if rows:
        table(f"C = {C:g}, gap {TOL:g}; ratio: time over that of the averaged kernel + SVC", rows)
        save("small", results, out)
