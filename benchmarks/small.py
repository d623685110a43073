"""The papers' small data sets: every solver side by side, and next to the cheapest thing one could
do instead.

Five folds of each set with the papers' bank (Gaussians of ten widths and polynomials of degree 1 to
3, on every feature and on all; unit trace), C = 100, gap 1e-3, standardized. Seconds include the
evaluation of kernels. "averaged kernel + SVC" builds the mean of the same kernels with
scikit-learn's pairwise functions and trains one SVC on it; ``ratio`` is a solver's time over that
on the same fold, one after the other. A fit is stopped after LIMIT seconds, and its gap then says
how far it came.

The columns "paper" are the seconds printed by Jain et al. (KDD 2012, tables 2 and 4; one core of a
2.1 GHz AMD 6172; the l1 penalty where we have the ball of p = 1) for SPG, by Vishwanathan et al.
(NIPS 2010, table 1; the squared norm where we have the ball) for SMO, and by Xu et al. (ICML 2010,
table 1; 20 splits of 80 %, p = 1) for MKLGL and SimpleMKL; all on precomputed kernels, on machines
of their day.

``orientation`` repeats two problems on which the authors' own C++ programs were timed (one core,
kernels precomputed and their reading excluded; on another machine than yours): 455 points and 403
kernels of WDBC, and 3200 points and 13 kernels.

What was learned
----------------
* Newton's method and SPG are equally fast for p = 2 at this gap; Newton's lead grows with precision
  and towards p = 1.
* SMO-MKL needs a few hundred updates only, but each touches the column of every kernel at two
  points: computing those columns
  takes longer than the updates. Columns of eight points at a time and one product pass per round
  halved its time.
* SILP's linear programs grow by a row per round and take hundreds of rounds; SimpleMKL's line
  searches take 10 to 20 SVMs each.
"""

import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Polynomial, paper_bank
from manykernels.kernels.grids import PAPER_DEGREES, PAPER_WIDTHS
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.solvers import choose_solver, solve

from . import papers
from .common import best_of, in_new_process, load, once, table, until

SETS = ("wpbc", "sonar", "liver", "ionosphere", "breast_cancer", "australian", "diabetes")
SMOOTH = ("newton", "spg", "smo", "group_lasso", "pgd", "alignment", "uniform")
NORMS = {
    1.0: ("newton", "spg", "pgd", "group_lasso", "mirror", "simple", "silp"),
    1.1: SMOOTH,
    1.33: SMOOTH,
    2.0: SMOOTH,
}
PAPER = {  # printed seconds by solver, set and p
    "pgd": {
        name: {p: pair[0] for p, pair in row.items()} for name, row in papers.SPG_TABLE_2.items()
    },
    "spg": {name: {1.0: row[3]} for name, row in papers.SPG_TABLE_4.items()},
    "smo": {
        name: {p: line[0] for p, line in row.items()} for name, row in papers.SMO_TABLE_1.items()
    },
    **{
        solver: {name: {1.0: row[solver][1]} for name, row in papers.MKLGL_TABLE_1.items()}
        for solver in ("simple", "group_lasso")
    },
}
for name, row in papers.SPG_TABLE_2.items():
    PAPER["spg"].setdefault(name, {}).update({p: pair[1] for p, pair in row.items()})
C, TOL, FOLDS, LIMIT = 100.0, 1e-3, 5, 3.0
ENDLESS = 10**6  # iterations: without a number, slow methods give up before the limit
MEASURED = ("newton", "spg", "smo", "group_lasso")  # whose memory is
SYNTHETIC, TIMES = 3200, 3


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


def learned(X, y, solver, p, limit=None):
    """Weights by a solver, kernels on the fly; stopped as by Ctrl-C when the time is up."""
    watch = until(limit or LIMIT)
    bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
    problem = Problem(bank, y, np.full(len(y), C), PNormBall(p))
    return bank, solve(problem, choose_solver(solver), tol=TOL, max_iter=ENDLESS, watch=watch)


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
        "paper s": PAPER.get(solver, {}).get(name, {}).get(p, ""),
    }


MEMORY = """
import json
from benchmarks import small
from benchmarks.common import load, megabytes
small.compile_loops()
X, y = load(NAME)
before = megabytes("VmRSS")
bank, result = small.learned(X, y, SOLVER, 1.33)
print(json.dumps({"points": bank.n, "kernels": bank.m, "MB": megabytes("VmHWM") - before,
                  "gap": result.duality_gap}))
"""


def memory():
    """Peak memory of a fit (p = 1.33, all points) above what the imports take, each in a process of
    its own.
    """
    rows = []
    for name in SETS:
        if load(name) is None:
            continue
        for solver in MEASURED:
            found = in_new_process(
                MEMORY.replace("NAME", repr(name)).replace("SOLVER", repr(solver))
            )
            rows.append(
                {
                    "set": name,
                    "solver": solver,
                    **found,
                    "MB of all Gram matrices": 4 * found["kernels"] * found["points"] ** 2 / 2**20,
                }
            )
    return rows


def orientation():
    """The problems on which the authors' programs were timed, C = 100: seconds with kernel
    evaluation, and theirs without.
    """
    rows = []
    if (data := load("wdbc")) is not None:
        X, y = data[0][:455], data[1][:455]
        for p in (1.1, 1.33, 2.0):
            theirs = {"smo": "1.05-1.6", "spg": 2.8 if p == 2.0 else ""}
            for solver in ("newton", "spg", "smo"):
                seconds = best_of(
                    lambda X=X, y=y, p=p, solver=solver: learned(X, y, solver, p), TIMES
                )
                rows.append(
                    {
                        "problem": "wdbc 455 x 403",
                        "p": p,
                        "solver": solver,
                        "seconds": seconds,
                        "C++ s": theirs.get(solver, ""),
                    }
                )
    X, y = make_classification(SYNTHETIC, 20, n_informative=10, flip_y=0.1, random_state=0)
    X, y = StandardScaler().fit_transform(X), np.where(y > 0, 1.0, -1.0)
    kernels = [RBF(1 / (2 * w * w)) for w in PAPER_WIDTHS] + [Polynomial(q) for q in PAPER_DEGREES]
    for solver, theirs in (("newton", ""), ("spg", 28), ("smo", 12)):

        def fit(solver=solver):
            bank = make_bank(KernelCollection(kernels), X, normalize="trace", dtype=np.float32)
            return solve(
                Problem(bank, y, np.full(len(y), C), PNormBall(2.0)), choose_solver(solver), tol=TOL
            )

        rows.append(
            {
                "problem": f"synthetic {SYNTHETIC} x 13",
                "p": 2.0,
                "solver": solver,
                "seconds": best_of(fit, TIMES),
                "C++ s": theirs,
            }
        )
    return rows


def compile_loops():
    X, y = np.random.default_rng(0).standard_normal((60, 3)), np.where(np.arange(60) % 2, 1.0, -1.0)
    for solver, p in (("newton", 1.0), ("smo", 2.0), ("spg", 2.0)):
        learned(X, y, solver, p)


def folds():
    """Every solver on five folds of every set: hinge, C = 100, the papers' bank of unit trace, a
    gap of 1e-3, 3 s at most.
    """
    compile_loops()
    results = []
    for name in SETS:
        rows = once(name, one_set, name)
        if rows:
            table(name, rows)
            results += rows
    return results


STEPS = {run.__name__: run for run in (folds, memory, orientation)}
QUICK = {
    "SETS": ("sonar",),
    "NORMS": {1.33: SMOOTH},
    "FOLDS": 2,
    "LIMIT": 0.3,
    "MEASURED": ("newton",),
    "TIMES": 1,
    "SYNTHETIC": 400,
}
