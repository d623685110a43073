"""Edges: what happens where a method comes to its limits.

``sparse``: p = 1 beside p = 1.33, whole fits with the bank made anew, on the papers' small sets,
wdbc and 1,500 points of magic and a9a (the papers' bank, unit trace, C = 1, 10, 100, 1000, gap
1e-3); and, for C = 100 on the small sets, beside the average of the kernels by scikit-learn and
one SVC on it. ``plain``: p = inf beside the one SVM that it is. ``masked``: Gaussians on random
feature subsets of sonar, C = 1, 10, 100, 1000, both normalizations. ``path``: 8 C times 4 p, beside
the same fits one by one.

``ends``: every solver of the table on the papers' small sets and wdbc (the papers' bank, unit
trace, C = 1, 10, 100, 1000, p = 1, 1.33, 2) and on two problems of low rank (ten Gaussians,
Nystroem of rank 100, hinge and squared hinge), to a gap of 1e-3: how often each solver ended with
which status, its largest time as a multiple of that of Newton's method (on factors: of the primal
or the interior-point method), and where. A run that takes CAP times as long is broken off, and
counts as STOPPED: there should be none.

What was learned
----------------
* Smoothing the kink of p = 1 took 5 to 24 steps where p = 1.33 takes 1 to 6, whatever the schedule
  of temperatures. A model that keeps the kernels apart takes as many steps as p = 1.33.
* A second-order method on the weights (the Hessian of the SVM's value) is as good for large C, and
  hopeless for small C, where nearly all coefficients are at a bound and the few that are not say
  nothing about the next step.
* Warm starts along C save a fifth of the passes, not more: the first SVM is already a good start.
* Holding the Gram matrices of a small problem costs as much as two passes that compute them, and a
  pass over them a fifth to a tenth of one: plain fits hold them too, up to 512 MB.
* Sums in float32 over held matrices are off by up to twice what `Problem.certificate` estimates
  for the rounding of the entries (7 sets, C up to 1e4); the estimate is asked to be below a quarter
  of the tolerance.
"""

import time
import warnings
from collections import Counter
from functools import partial

import numpy as np
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, path
from manykernels.banks import ResolvedKernels, make_bank
from manykernels.kernels import RBF, KernelCollection, paper_bank
from manykernels.losses import Hinge, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.machines import DenseMachine
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import choose_solver, drive, solve

from .common import best_of, in_turns, load, once, table
from .million import kernels as masked_kernels
from .small import SETS, averaged

SPARSE = ("spg", "pgd", "group_lasso", "mirror", "simple", "silp", "mwu")
SMOOTH = ("spg", "pgd", "smo", "group_lasso")
COSTS, NORMS = (1.0, 10.0, 100.0, 1000.0), {1.0: SPARSE, 1.33: SMOOTH, 2.0: SMOOTH}
FACTORED = {"magic": 5000, "cod_rna": 20_000}
RANK, GAMMAS = 100, 2.0 ** np.arange(-6, 4)
TOL, CAP = 1e-3, 60.0
ENDS = ("wpbc", "sonar", "liver", "ionosphere", "breast_cancer", "australian", "diabetes", "wdbc")
LARGE = {"magic": 1500, "a9a": 1500}  # points taken of them
MANY = 10**5  # masked kernels
PATH = {"C": np.logspace(-1, 3, 8), "p": [1.0, 1.33, 2.0, 4.0]}


def timed(problem, solver, cap=np.inf):
    """Result and seconds of a solver, broken off when the seconds are up.

    Seconds of the processor: on a shared machine those on the wall measure neighbours, and differ
    by a factor of five from run to run.
    """
    began = time.process_time()
    run = RunState(problem, watch=lambda record: time.process_time() - began > cap)
    result = drive(choose_solver(solver), run, tol=TOL)
    return result, time.process_time() - began


def small():
    """Problems on exact kernels: name, problem, the solvers and the one to compare with."""
    for name in ENDS:
        data = load(name)
        if data is None:
            continue
        X, y = data
        for C in COSTS:
            for p, solvers in NORMS.items():
                bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
                problem = Problem(bank, y, np.full(len(y), C), PNormBall(p))
                yield f"{name}, C = {C:g}, p = {p:g}", problem, solvers, "newton"


def factored():
    """The same on low-rank factors."""
    for name in FACTORED:
        data = load(name)
        if data is None:
            continue
        some = np.random.default_rng(0).permutation(len(data[1]))[: FACTORED[name]]
        X, y = data[0][some], data[1][some]
        kernels = KernelCollection([RBF(gamma) for gamma in GAMMAS])
        bank = Nystroem(RANK).fit(ResolvedKernels.from_data(kernels, X), X)
        for loss, best in ((SquaredHinge(), "primal"), (Hinge(), "interior")):
            for p, solvers in ((1.0, SPARSE), (2.0, SMOOTH)):
                problem = Problem(bank, y, np.full(len(y), 10.0), PNormBall(p), loss)
                yield f"{name}, {loss!r}, p = {p:g}", problem, (*solvers, "gfb"), best


def compared(problems):
    """A row for every solver and problem."""
    rows = []
    for where, problem, solvers, best in problems:
        reference = min(timed(problem, best)[1] for _ in range(2))
        for solver in solvers:
            found = once(f"{where}, {solver}", beside, problem, solver, reference)
            rows.append({"solver": solver, "problem": where} | found)
            print(rows[-1], flush=True)
    return rows


def beside(problem, solver, reference):
    """How a solver ends, and its seconds beside those of another."""
    result, seconds = timed(problem, solver, CAP * reference)
    return {
        "seconds": seconds,
        "ratio": seconds / reference,
        "status": result.status.name,
        "gap": float(result.duality_gap),
        "iterations": result.n_iter,
    }


def worst(rows):
    """Of every solver: how it ended, and where it took longest beside Newton's method."""
    out = []
    for solver in dict.fromkeys(row["solver"] for row in rows):
        mine = [row for row in rows if row["solver"] == solver]
        longest = max(mine, key=lambda row: row["ratio"])
        counts = Counter(row["status"] for row in mine)
        out.append(
            {
                "solver": solver,
                "worst ratio": longest["ratio"],
                "on": longest["problem"],
                "its end": f"{longest['status']}, gap {longest['gap']:.1e}",
                "all ends": ", ".join(f"{name} {n}" for name, n in counts.most_common()),
            }
        )
    return out


def compile_loops():
    """Loops in both precisions are compiled, or read in, before anything is timed."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.where(np.arange(60) % 2, 1.0, -1.0)
    for dtype in (np.float32, np.float64):
        for p, solvers in NORMS.items():
            bank = make_bank(paper_bank(X), X, normalize="trace", dtype=dtype)
            problem = Problem(bank, y, np.full(60, 10.0), PNormBall(p))
            for solver in ("newton", *solvers):
                timed(problem, solver, 1.0)


def ends():
    """How every solver ended on exact kernels, and its longest time beside Newton's method."""
    compile_loops()
    return ended(small())


def ends_low():
    """The same on factors, beside the primal or the interior-point method."""
    return ended(factored())


def ended(problems):
    rows = compared(problems)
    if rows:
        table("The longest time beside the reference, and all ends", worst(rows))
    return rows


def standardized(name, most=None):
    """Points and labels of a set, or some of them; None if it is not there."""
    data = load(name)
    if data is None:
        return None
    X, y = data
    some = np.random.default_rng(0).permutation(len(y))[:most] if most else slice(None)
    X = X[some].toarray() if hasattr(X, "toarray") else np.asarray(X[some], dtype=float)
    return StandardScaler().fit_transform(X), y[some]


def sets():
    """Name, points and labels of what there is of the sets."""
    for name in (*ENDS, *LARGE):
        data = standardized(name, LARGE.get(name))
        if data is not None:
            yield name, *data


def fitted(X, y, C, p):
    bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
    return solve(Problem(bank, y, np.full(len(y), C), PNormBall(p)), choose_solver("newton"))


def trained(X, y, C, p):
    """A whole fit, as a user makes it."""
    model = MKLClassifier(paper_bank(X), normalize="trace", C=C, p=p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the papers' bank has kernels that are the identity
        return model.fit(X, y).result_


def sparse():
    """p = 1 beside p = 1.33, the papers' bank, unit trace."""
    rows = []
    for name, X, y in sets():
        repeats = 1 if name in LARGE else 3
        for C in COSTS:
            result = trained(X, y, C, 1.0)
            one, other = in_turns([partial(trained, X, y, C, p) for p in (1.0, 1.33)], repeats)
            rows.append(
                {
                    "set": name,
                    "C": C,
                    "p = 1 (s)": one,
                    "p = 1.33 (s)": other,
                    "ratio": one / other,
                    "passes": result.counters.kernel_passes,
                    "kernels": int(np.count_nonzero(result.weights)),
                    "gap": result.duality_gap,
                    "status": result.status.name,
                    "beside averaging": one / best_of(partial(averaged, X, y), repeats)
                    if C == 100.0 and name in SETS
                    else np.nan,
                }
            )
            print(rows[-1], flush=True)
    table("p = 1 beside p = 1.33, and beside the average by scikit-learn and an SVC", rows)
    if rows:
        ratios = [row["ratio"] for row in rows]
        print(f"ratio: median {np.median(ratios):.2f}, largest {max(ratios):.2f}")
    return rows


def one_svm(X, y, C):
    bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
    kernel = bank.combine(np.ones(bank.m))
    return DenseMachine().solve(kernel, Hinge(), y, np.full(len(y), C))


def plain():
    """p = inf beside the one SVM that it is."""
    rows = []
    for name, X, y in sets():
        for C in COSTS:
            result = fitted(X, y, C, np.inf)
            ours, svm = in_turns([partial(fitted, X, y, C, np.inf), partial(one_svm, X, y, C)], 3)
            found = one_svm(X, y, C)
            rows.append(
                {
                    "set": name,
                    "C": C,
                    "p = inf (s)": ours,
                    "ratio": ours / svm,
                    "gap": result.duality_gap,
                    "gap of the SVM": (found.primal - found.dual) / found.primal,
                    "passes": result.counters.kernel_passes,
                }
            )
            print(rows[-1], flush=True)
    table("p = inf beside the one SVM that it is", rows)
    return rows


def masked():
    """A hundred thousand masked kernels on sonar."""
    data, rows = load("sonar"), []
    if data is None:
        return rows
    for p in (1.0, 1.33):
        for normalize in ("trace", "diagonal"):
            for C in COSTS:
                clf = MKLClassifier(masked_kernels(MANY), p=p, C=C, normalize=normalize)
                seconds = best_of(partial(clf.fit, *data), 1)
                result = clf.result_
                rows.append(
                    {
                        "p": p,
                        "normalize": normalize,
                        "C": C,
                        "seconds": seconds,
                        "passes": result.counters.kernel_passes,
                        "gap": result.duality_gap,
                        "kernels": int(np.count_nonzero(result.weights)),
                        "status": result.status.name,
                    }
                )
                print(rows[-1], flush=True)
    for p in (1.0, 1.33):
        easiest = min(row["seconds"] for row in rows if row["p"] == p)
        for row in rows:
            if row["p"] == p:
                row["times the easiest"] = row["seconds"] / easiest
    table(f"{MANY:,} masked kernels on sonar", rows)
    return rows


def paths():
    """A path over 8 C and 4 p, beside its fits one by one, the papers' bank."""
    rows = []
    warnings.simplefilter("ignore")
    for name in SETS:
        data = standardized(name, 600)
        if data is None:
            continue
        X, y = data
        options = {"kernels": paper_bank(X), "normalize": "trace"}
        began = time.perf_counter()
        path(MKLClassifier(**options), X, y, **PATH)
        together = time.perf_counter() - began
        for C in PATH["C"]:
            for p in PATH["p"]:
                MKLClassifier(**options, C=C, p=p).fit(X, y)
        alone = time.perf_counter() - began - together
        rows.append(
            {"set": name, "path (s)": together, "fits (s)": alone, "ratio": together / alone}
        )
        print(rows[-1], flush=True)
    table("A path over 8 C and 4 p, beside its fits one by one", rows)
    return rows


STEPS = {
    "sparse": sparse,
    "plain": plain,
    "masked": masked,
    "path": paths,
    "ends": ends,
    "ends_low": ends_low,
}
SPLIT = {"ends": "ENDS", "ends_low": "FACTORED"}
GUESSED = {"ends": 200, "ends_low": 400}
QUICK = {
    "SETS": ("liver",),
    "ENDS": ("liver",),
    "LARGE": {},
    "COSTS": (100.0,),
    "MANY": 300,
    "CAP": 2.0,
    "PATH": {"C": [1.0, 100.0], "p": [1.0, 2.0]},
    "FACTORED": {},
}
