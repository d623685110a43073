"""SPG-GMKL (Jain, Vishwanathan and Varma, KDD 2012): what its parts bring, and how the objective
falls.

``components``: table 7. Sums of kernels, half the squared p-norm with p = 1.1, the papers' bank of
unit trace, C = 100, four fifths of each set; and rows of a9a, as many as Adult-1 and Adult-2 have,
with 50 Gaussians and C = 1. PGD is projected gradient descent with Armijo's rule and precise SVMs,
N the averaged line search, S the spectral step; SPG has both, rough SVMs far from the end, and what
its docstring names. A run is stopped after LIMIT seconds, and its gap says how far it came.

``curves``: figure 1. The objective against seconds for PGD and SPG on rows of a9a and w8a and on
sonar with many kernels on random columns.
"""

import time

import numpy as np
from sklearn.model_selection import train_test_split

from manykernels.banks import make_bank
from manykernels.kernels import KernelCollection, paper_bank
from manykernels.problem import Problem
from manykernels.regularizers import SquaredPNorm
from manykernels.solvers import SPG, solve

from .common import load, once, read, table, until
from .large import gaussians
from .million import kernels as masked_kernels
from .products import PARTS, solver

SETS = ("australian", "sonar", "breast_cancer", "diabetes", "wpbc")
ADULT = {"a9a, 1605 rows": 1605, "a9a, 2265 rows": 2265}  # as many as Adult-1 and Adult-2
P, C, LIMIT = 1.1, 100.0, 30.0
ENDLESS = 10**6  # iterations: without a number, slow methods give up before the limit
CURVES = {"a9a": 4000, "w8a": 4000}  # rows
MASKED, POINTS_OF_CURVE = 20_000, 40


def problems():
    """Problems of the table by name."""
    for name in SETS:
        data = load(name)
        if data is not None:
            X, _, y, _ = train_test_split(*data, test_size=0.2, stratify=data[1], random_state=0)
            bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
            yield name, Problem(bank, y, np.full(len(y), C), SquaredPNorm(P))
    for name, rows in ADULT.items():
        if read("a9a") is not None:
            yield name, on_rows("a9a", rows, P)


def on_rows(name, count, p):
    """Fifty Gaussians on some random rows of a set."""
    X, y = read(name)[:2]
    rows = np.random.default_rng(0).permutation(len(y))[:count]
    X, y = X[rows], y[rows]
    bank = make_bank(KernelCollection(gaussians(X)), X, dtype=np.float32)
    return Problem(bank, y, np.full(len(y), 1.0), SquaredPNorm(p))


def timed(problem, method):
    began = time.perf_counter()
    result = solve(problem, method, max_iter=ENDLESS, watch=until(LIMIT))
    return result, time.perf_counter() - began


def compare(name, problem):
    row = {"set": name, "n": problem.bank.n, "kernels": problem.bank.m}
    timed(problem, SPG())  # compiles, and holds what is held
    for method in (*PARTS, "SPG"):
        result, seconds = timed(problem, solver(method))
        row |= {
            f"{method} s": seconds,
            f"{method} SVMs": result.counters.svm_solves,
            f"{method} gap": result.duality_gap,
        }
    return row


def components():
    """Seconds, SVMs and gaps of the parts of SPG-GMKL, hinge, p = 1.1, C = 100, a gap of 1e-3, 30
    s at most.
    """
    rows = []
    for name, problem in problems():
        rows.append(once(name, compare, name, problem))
        table("Parts of SPG-GMKL", rows[-1:])
    return rows


def curves():
    """Objective against seconds, p = 1.1, C = 100."""
    stated = {name: (lambda name=name: on_rows(name, CURVES[name], 1.33)) for name in CURVES}
    if read("sonar") is not None:
        stated[f"sonar, {MASKED} kernels"] = many
    rows = []
    for name, make in stated.items():
        if read(name.split(",")[0]) is None:
            continue
        problem = make()
        for method in ("PGD", "SPG"):
            result, _ = timed(problem, solver(method))
            history = [record for record in result.history if np.isfinite(record.objective)]
            places = np.unique(np.linspace(0, len(history) - 1, POINTS_OF_CURVE).astype(int))
            rows += [
                {
                    "set": name,
                    "method": method,
                    "seconds": history[k].seconds,
                    "objective": history[k].objective,
                    "gap": history[k].gap,
                }
                for k in places
            ]
    return rows


def many():
    """Sonar with Gaussians on random columns."""
    X, y = load("sonar")
    bank = make_bank(masked_kernels(MASKED), X, normalize="trace", dtype=np.float32)
    return Problem(bank, y, np.full(len(y), C), SquaredPNorm(1.33))


STEPS = {"components": components, "curves": curves}
QUICK = {
    "SETS": ("wpbc",),
    "ADULT": {"a9a, 400 rows": 400},
    "LIMIT": 0.7,
    "CURVES": {"a9a": 500},
    "MASKED": 500,
}
