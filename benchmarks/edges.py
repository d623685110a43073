"""Edges: what happens where a method comes to its limits.

``ends``: every solver of the table on the papers' small sets and wdbc (the papers' bank, unit
trace, C = 1, 10, 100, 1000, p = 1, 1.33, 2) and on two problems of low rank (ten Gaussians,
Nystroem of rank 100, hinge and squared hinge), to a gap of 1e-3: how often each solver ended with
which status, its largest time as a multiple of that of Newton's method (on factors: of the primal
or the interior-point method), and where. A run that takes CAP times as long is broken off, and
counts as STOPPED: there should be none.
"""

import time
from collections import Counter

import numpy as np

from manykernels.banks import KernelsOnPoints, make_bank
from manykernels.kernels import RBF, KernelCollection, paper_bank
from manykernels.losses import Hinge, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import choose_solver, drive

from .common import load, run_parts, table
from .small import SETS

SPARSE = ("spg", "pgd", "group_lasso", "mirror", "simple", "silp", "mwu")
SMOOTH = ("spg", "pgd", "smo", "group_lasso")
COSTS, NORMS = (1.0, 10.0, 100.0, 1000.0), {1.0: SPARSE, 1.33: SMOOTH, 2.0: SMOOTH}
FACTORED = {"magic": 5000, "cod_rna": 20_000}
RANK, GAMMAS = 100, 2.0 ** np.arange(-6, 4)
TOL, CAP = 1e-3, 60.0


def timed(problem, solver, cap=np.inf):
    """Result and seconds of a solver, broken off when the seconds are up.

    Seconds of the processor: on a shared machine those on the wall measure neighbours, and differ
    by a factor of five from run to run.
    """
    began = time.process_time()
    run = RunState(problem, watch=lambda record: time.process_time() - began > cap)
    result = drive(choose_solver(solver), run, tol=TOL)
    return result, time.process_time() - began


def small(names=(*SETS, "wdbc")):
    """Problems on exact kernels: name, problem, the solvers and the one to compare with."""
    for name in names:
        data = load(name)
        if data is None:
            continue
        X, y = data
        for C in COSTS:
            for p, solvers in NORMS.items():
                bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
                problem = Problem(bank, y, np.full(len(y), C), PNormBall(p))
                yield f"{name}, C = {C:g}, p = {p:g}", problem, solvers, "newton"


def factored(names=tuple(FACTORED)):
    """The same on low-rank factors."""
    for name in names:
        data = load(name)
        if data is None:
            continue
        some = np.random.default_rng(0).permutation(len(data[1]))[: FACTORED[name]]
        X, y = data[0][some], data[1][some]
        kernels = KernelCollection([RBF(gamma) for gamma in GAMMAS])
        bank = Nystroem(RANK).fit(KernelsOnPoints.from_data(kernels, X), X)
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
            result, seconds = timed(problem, solver, CAP * reference)
            rows.append(
                {
                    "solver": solver,
                    "problem": where,
                    "seconds": seconds,
                    "ratio": seconds / reference,
                    "status": result.status.name,
                    "gap": result.duality_gap,
                    "iterations": result.n_iter,
                }
            )
            print(rows[-1], flush=True)
    return rows


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
    compile_loops()
    rows = compared(small())
    if rows:
        table("Exact kernels: the longest time beside Newton's method, and all ends", worst(rows))
    low = compared(factored())
    if low:
        table("Low rank: beside the primal or the interior-point method", worst(low))
    return rows + low


def main(out, parts=None):
    run_parts("edges", {"ends": ends}, parts, out)
