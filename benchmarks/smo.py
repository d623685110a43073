"""SMO-MKL (Vishwanathan, Sun, Theera-Ampornpunt and Varma, NIPS 2010): its table and its figure.

``norms``: table 1. Half the squared p-norm, seven p, C = 100, the papers' bank of unit trace, gap
1e-3, FOLDS folds: mean seconds of one fit, kernels with weight and accuracy for SMO-MKL, and
seconds of Newton's method on the same. The paper's clock began when all Gram matrices were there:
so does ours in "given"; "on the fly" begins at the points.

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

from .common import fit_within, load, once, read, table, until
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


def bank_on(X, storage):
    """The papers' kernels, on the fly or as Gram matrices that are made at once."""
    return make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32, storage=storage)


def fitted(X, y, solver, p, storage="auto"):
    """Bank, result and seconds of a fit, with those of kernels that are computed on the fly and
    without those of Gram matrices ("dense").
    """
    began = time.perf_counter()
    bank = bank_on(X, storage)
    began = time.perf_counter() if storage == "dense" else began
    problem = Problem(bank, y, np.full(len(y), C), SquaredPNorm(p))
    result = solve(problem, choose_solver(solver), tol=1e-3, watch=until(LIMIT))
    return bank, result, time.perf_counter() - began


def one_set(name, p):
    X, y = load(name)
    ways = [(solver, storage) for solver in ("smo", "newton") for storage in ("dense", "auto")]
    for way in ways:
        fitted(X[:60], y[:60], way[0], p, way[1])  # compiles
    seconds, scores, kernels, gaps = {way: [] for way in ways}, [], [], []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(X, y):
        for solver, storage in reversed(ways):
            bank, result, took = fitted(X[train], y[train], solver, p, storage)
            seconds[solver, storage].append(took)
            gaps.append(result.duality_gap)
        scores.append(100 * accuracy(bank, result, X[test], y[test]))
        kernels.append(int((result.weights > 1e-3 * result.weights.max()).sum()))
    means = [float(np.mean(seconds[way])) for way in ways]
    return {
        "set": name,
        "p": p,
        "SMO-MKL s, kernels given": means[0],
        "SMO-MKL s, on the fly": means[1],
        "Newton s, kernels given": means[2],
        "Newton s, on the fly": means[3],
        "accuracy %": float(np.mean(scores)),
        "kernels": float(np.mean(kernels)),
        "largest gap": float(np.max(gaps)),
    }


def norms():
    """SMO-MKL against p, seconds of one fit: hinge, half the squared p-norm, C = 100, a gap of
    1e-3.
    """
    rows = []
    for name in SETS:
        if load(name) is None:
            continue
        for p in NORMS:
            rows.append(once(f"{name} {p}", one_set, name, p))
        table(name, [row for row in rows if row["set"] == name])
    return rows


def kernels():
    """SMO-MKL against the number of kernels on sonar: half the squared p-norm, C = 100, a gap of
    1e-3, 60 s at most.
    """
    data, rows = load("sonar"), []
    if data is None:
        return rows
    for p in (1.33, 2.0):
        regularizer = SquaredPNorm(p)
        for count in (100, *COUNTS):
            model = MKLClassifier(
                masked_kernels(count), regularizer=regularizer, C=C, normalize="trace", solver="smo"
            )
            row = {"p": p, "kernels": count} | fit_within(LIMIT, model, *data)
            rows += [row] if count > 100 else []  # the first compiles
            print(row, flush=True)
    return rows


def points():
    """SMO-MKL against the number of points: fifty Gaussians, half the squared p-norm, C = 1, a gap
    of 1e-2, 60 s at most.
    """
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
                    label = f"{name} {p:g} {n} {solver}"
                    row |= once(label, fit_within, LIMIT, model, X[some], y[some])
                    rows += [row] if n > 200 else []  # the first compiles
                    print(row, flush=True)
    return rows


STEPS = {"norms": norms, "kernels": kernels, "points": points}
SPLIT = {"norms": "SETS", "points": "SIZES"}
GUESSED = {"points": 600}
QUICK = {
    "SETS": ("liver",),
    "NORMS": (1.1, 2.0),
    "FOLDS": 2,
    "COUNTS": (300, 1000),
    "SIZES": {"a9a": (500, 1000)},
    "LIMIT": 3,
}
