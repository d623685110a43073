"""Products of kernels: the parts of SPG-GMKL one by one (Jain et al., KDD 2012, tables 5, 7 and 9),
and leukemia.

``K = exp(-sum_f d_f (x_f - z_f)^2)`` with one weight per feature, the l1 penalty for p = 1 and half
the squared p-norm else, C = 10, standardized features, four fifths of each set. PGD is projected
gradient descent with Armijo's rule and precise SVMs; N adds the averaged line search, S the
spectral step length, all as in the paper; SPG is ours, with both, rough SVMs far from the end and
what its docstring names. A run is stopped after LIMIT seconds, so the SVM solves of the slow ones
are lower bounds. The column "paper" has the seconds printed there for PGD and SPG-GMKL, on the
machines of the day; a dash means that it did not converge.

"to 1 %" are the SVM solves until the objective is within 1 % of the best of all methods.

What was learned
----------------
* Rough SVMs must not decide: an SVM solved to 0.1 can have a small gradient by chance, and an
  objective that is 10 to 15 % too
  large. SPG ends on SVMs solved to 1e-3.
* Steps that multiply the weights turn K into the identity, a plateau where every gradient vanishes.
  Doubling their sum at most
  per iteration keeps clear of it.
* With 7129 weights every entry of the first gradient is below the tolerance of 0.04, and PGD stops
  where it began (p = 1) or
  early; SPG ends lower, after a long tail. On leukemia alone it needs more solves than PGD, and it
  decides the totals.
* The problem is not convex, and the methods may end in different minima: compare objectives before
  times.
* Where the SVM has several solutions, W has a kink and no gradient becomes small; SPG then ends
  when W no longer falls.
* The slopes of all 7129 features of leukemia cost one kernel and one matrix product of 38 points: 4
  ms.
"""

import time

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels.banks import CombinationBank
from manykernels.combinations import Product
from manykernels.problem import Problem
from manykernels.regularizers import L1, SquaredPNorm
from manykernels.solvers import SPG, solve

from .common import DATA, in_new_process, load, megabytes, once, run_parts, table, until
from .papers import SPG_TABLES_5_9

SETS = ("australian", "liver", "sonar", "breast_cancer", "diabetes", "wpbc", "leukemia")
NORMS = (1.0, 1.1, 1.33, 2.0)
C, LIMIT = 10.0, 40.0
PARTS = {
    "PGD": (False, False),
    "PGD+N": (False, True),
    "PGD+S": (True, False),
    "PGD+N+S": (True, True),
}
PAPER = SPG_TABLES_5_9  # seconds of PGD and of SPG-GMKL; None where it did not converge


def solver(name):
    if name == "SPG":
        return SPG()
    spectral, nonmonotone = PARTS[name]
    return SPG(spectral, nonmonotone, False, proximal=False, cautious=False)


def fit(X, y, name, p):
    """One run, stopped as by Ctrl-C when the time is up."""
    began = time.perf_counter()
    problem = Problem(
        CombinationBank(Product().fit(X)),
        y,
        np.full(len(y), C),
        L1() if p == 1.0 else SquaredPNorm(p),
    )
    result = solve(problem, solver(name), watch=until(LIMIT))
    return result, time.perf_counter() - began


def one_set(name):
    data = load(name)
    if data is None:
        return []
    X, y = data
    if name != "leukemia":
        X, _, y, _ = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    return [row for p in NORMS for row in once(f"{name} {p}", one_norm, name, X, y, p)]


def one_norm(name, X, y, p):
    runs = {method: fit(X, y, method, p) for method in (*PARTS, "SPG")}
    best, rows = min(result.objective for result, _ in runs.values()), []
    for method, (result, seconds) in runs.items():
        pgd, spg = PAPER[name].get(p, (None, None))
        near = (record.svm_solves for record in result.history if record.objective <= 1.01 * best)
        rows.append(
            {
                "set": name,
                "p": p,
                "method": method,
                "seconds": seconds,
                "SVM solves": result.counters.svm_solves,
                "to 1 %": next(near, "-"),
                "end": result.status.name,
                "objective": float(result.objective),
                "features": int(np.count_nonzero(result.weights > 1e-3 * result.weights.max())),
                "paper s": {"PGD": pgd, "SPG": spg}.get(method, ""),
            }
        )
    return rows


LEUKEMIA = """
import json
from benchmarks.products import leukemia_fit
print(json.dumps(leukemia_fit()))
"""


def leukemia_fit():
    """The l1 product on 7129 genes of 38 patients, judged on the 34 others."""
    from manykernels import MKLFeatureSelector

    with np.load(DATA / "leukemia.npz") as archive:
        train, labels, test, truth = (
            archive[name].astype(float) for name in ("X", "y", "X_test", "y_test")
        )
    scaler = StandardScaler().fit(train)
    before = megabytes("VmRSS")
    began = time.perf_counter()
    selector = MKLFeatureSelector(C=C, starts=3, random_state=0).fit(
        scaler.transform(train), labels
    )
    seconds = time.perf_counter() - began
    right = int(np.sum(selector.estimator_.predict(scaler.transform(test)) == truth))
    return {
        "seconds": seconds,
        "genes kept": int(selector.get_support().sum()),
        "right of 34": right,
        "objective": selector.estimator_.result_.objective,
        "other starts": str(
            [round(other.objective, 3) for other in selector.estimator_.other_results_]
        ),
        "MB in all": megabytes("VmHWM"),
        "MB above before": megabytes("VmHWM") - before,
    }


def runs():
    """The parts of SPG-GMKL one by one."""
    rows = []
    for name in SETS:
        rows += (found := one_set(name))
        if found:
            table(name, found)
    printed = [row for row in rows if row["p"] in PAPER[row["set"]]]
    results = {
        "runs": rows,
        "totals": totals(rows),
        "totals of the paper's problems": totals(printed),
    }
    if rows:
        table("SVM solves in all", results["totals"])
        table(
            "SVM solves on the problems of the paper's tables",
            results["totals of the paper's problems"],
        )
    return results


def leukemia():
    """Genes of leukemia that are selected."""
    if not (DATA / "leukemia.npz").exists():
        return []
    rows = [in_new_process(LEUKEMIA)]
    table("leukemia: genes selected by MKLFeatureSelector", rows)
    return rows


def totals(rows):
    """SVM solves and seconds of every method, and their ratio to those of PGD."""
    sums = {
        m: [
            sum(row[what] for row in rows if row["method"] == m)
            for what in ("SVM solves", "seconds")
        ]
        for m in (*PARTS, "SPG")
    }
    ends = {
        m: sum(row["end"] in ("STATIONARY", "FLAT") for row in rows if row["method"] == m)
        for m in sums
    }
    count = len(rows) // len(sums) if rows else 0
    return [
        {
            "method": m,
            "SVM solves": solves,
            "over PGD's": solves / max(sums["PGD"][0], 1),
            "seconds": s,
            "ended": f"{ends[m]} of {count}",
        }
        for m, (solves, s) in sums.items()
    ]


STEPS = {"runs": runs, "leukemia": leukemia}
QUICK = {"SETS": ("liver", "wpbc"), "NORMS": (1.0, 2.0), "LIMIT": 1.0}


def main(out, parts=None):
    run_parts("products", STEPS, parts, out)
