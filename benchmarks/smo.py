"""SMO-MKL (Vishwanathan, Sun, Theera-Ampornpunt and Varma, NIPS 2010): its table and its figure.

``norms``: table 1. Half the squared p-norm, seven p, C = 100, the papers' bank of unit trace, gap
1e-3, FOLDS folds: seconds with the kernels, kernels with weight and accuracy for SMO-MKL, and
seconds of Newton's method on the same.

``kernels``: figure 1 a. Sonar with more and more Gaussians on random columns, computed on the fly.

``points``: figure 1 c and d. a9a and w8a with 50 Gaussians on the fly, C = 1, gap 1e-2, more and
more rows; a run is stopped after LIMIT seconds, and its gap says how far it came.
"""

import time

import numpy as np
from sklearn.model_selection import StratifiedKFold

from manykernels import MKLClassifier
from manykernels.banks import make_bank
from manykernels.kernels import paper_bank
from manykernels.problem import Problem
from manykernels.regularizers import SquaredPNorm
from manykernels.solvers import choose_solver, solve

from .common import at_most, load, once, read, run_parts, table, until
from .large import gaussians
from .million import kernels as masked_kernels
from .small import accuracy

SETS, NORMS = (
    ("australian", "ionosphere", "liver", "sonar"),
    (1.1, 1.33, 1.66, 2.0, 2.33, 2.66, 3.0),
)
C, FOLDS, LIMIT = 100.0, 5, 60
COUNTS = (10**3, 10**4, 10**5)
SIZES = {"a9a": (2000, 4000, 8000, 16_000, 32_561), "w8a": (6000, 12_000, 25_000, 49_749)}


def fitted(X, y, solver, p):
    began = time.perf_counter()
    bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
    problem = Problem(bank, y, np.full(len(y), C), SquaredPNorm(p))
    result = solve(problem, choose_solver(solver), tol=1e-3, watch=until(LIMIT))
    return bank, result, time.perf_counter() - began


def one_set(name, p):
    X, y = load(name)
    fitted(X[:60], y[:60], "smo", p)  # compiles
    seconds, scores, kernels, gaps, newton = [], [], [], [], []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        bank, result, took = fitted(X[train], y[train], "smo", p)
        seconds.append(took)
        scores.append(100 * accuracy(bank, result, X[test], y[test]))
        kernels.append(int((result.weights > 1e-3 * result.weights.max()).sum()))
        gaps.append(result.duality_gap)
        newton.append(fitted(X[train], y[train], "newton", p)[2])
    return {
        "set": name,
        "p": p,
        "SMO-MKL s": float(np.mean(seconds)),
        "Newton s": float(np.mean(newton)),
        "accuracy %": float(np.mean(scores)),
        "kernels": float(np.mean(kernels)),
        "largest gap": float(np.max(gaps)),
    }


def norms():
    """SMO-MKL against p."""
    rows = []
    for name in SETS:
        if load(name) is None:
            continue
        for p in NORMS:
            rows.append(once(f"{name} {p}", one_set, name, p))
        table(name, [row for row in rows if row["set"] == name])
    return rows


def stopped(model, X, y):
    """Seconds and gap of a fit that may be stopped."""
    began = time.perf_counter()
    with at_most(LIMIT):
        model.fit(X, y)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "gap": model.result_.duality_gap}


def kernels():
    """SMO-MKL against the number of kernels."""
    data, rows = load("sonar"), []
    if data is None:
        return rows
    for p in (1.33, 2.0):
        regularizer = SquaredPNorm(p)
        for count in (100, *COUNTS):
            model = MKLClassifier(
                masked_kernels(count), regularizer=regularizer, C=C, normalize="trace", solver="smo"
            )
            row = {"p": p, "kernels": count} | stopped(model, *data)
            rows += [row] if count > 100 else []  # the first compiles
            print(row, flush=True)
    return rows


def points():
    """SMO-MKL against the number of points."""
    rows = []
    for name, sizes in SIZES.items():
        if read(name) is None:
            continue
        X, y = read(name)[:2]
        order = np.random.default_rng(0).permutation(len(y))
        for p in (1.33, 2.0):
            options = {"regularizer": SquaredPNorm(p), "C": 1.0, "tol": 1e-2}
            for n in (200, *sizes):
                some = order[:n]
                for solver in ("smo", "newton"):
                    model = MKLClassifier(gaussians(X), solver=solver, **options)
                    row = {"set": name, "p": p, "solver": solver, "n": n}
                    row |= stopped(model, X[some], y[some])
                    rows += [row] if n > 200 else []  # the first compiles
                    print(row, flush=True)
    return rows


STEPS = {"norms": norms, "kernels": kernels, "points": points}
QUICK = {
    "SETS": ("liver",),
    "NORMS": (1.1, 2.0),
    "FOLDS": 2,
    "COUNTS": (300, 1000),
    "SIZES": {"a9a": (500, 1000)},
    "LIMIT": 3,
}


def main(out, parts=None):
    run_parts("smo", STEPS, parts, out)
