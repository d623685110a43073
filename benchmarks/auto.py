"""The regret of ``solver="auto"``: its time beside that of the fastest solver.

Problems of 100 to 5,000 points and 3 to 1,000 kernels (Gaussians on random feature subsets, unit
mean diagonal, and the same by Nystroem's method), p = 1, 1.33, 2, 4, inf, hinge, squared hinge and
squared loss, C = 0.1, 10, 1000: as many as PROBLEMS of each kind, drawn at random from that grid
with a fixed seed. Every solver that fits runs to a gap of 1e-3 within
its own budget, and is dropped when it has taken SLACK times as long as the fastest before it; the
regret of a problem is the time of "auto" over that of the fastest solver that certified the gap.
Seconds are the processor's, the smaller of two runs where they decide.
"""

import time
from itertools import product

import numpy as np
from sklearn.datasets import make_classification, make_regression

from manykernels.banks import ResolvedKernels, make_bank
from manykernels.kernels import KernelCollection
from manykernels.losses import Hinge, Squared, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import SOLVERS, choose_solver, drive

from .common import once, table

TOL, SLACK, REGRET = 1e-3, 1.2, 1.5
PROBLEMS = 20
NORMS, COSTS = (1.0, 1.33, 2.0, 4.0, np.inf), (0.1, 10.0, 1000.0)
LOSSES = (Hinge(), SquaredHinge(), Squared())
EXACT = ((100, 3), (100, 100), (300, 1000), (500, 10), (1000, 100), (2000, 10), (5000, 3))
FACTORED = ((1000, 5, 50), (2000, 20, 20), (5000, 5, 50), (5000, 3, 200))  # and the rank
FEATURES, INFORMATIVE, SHARE = 20, 5, 0.3  # and the features in a subset
FIXED = ("uniform", "alignment")  # whose weights are set by a rule
# the fast ones first, so that the others are dropped early
ORDER = ("newton", "primal", "interior", "smo", "group_lasso", "spg")


def kernels(m, seed=0):
    """Gaussians on random feature subsets; widths are relative to the number of features."""
    rng = np.random.default_rng(seed)
    masks = rng.random((m, FEATURES)) < SHARE
    masks[:, 0] |= ~masks.any(axis=1)
    return KernelCollection.masked_rbf(2.0 ** rng.uniform(-5, 1, m) / masks.sum(axis=1), masks)


def points(n, loss):
    """Points, and labels or values of unit variance."""
    options = {"n_samples": n, "n_features": FEATURES, "n_informative": INFORMATIVE}
    if loss.separates:
        X, y = make_classification(**options, flip_y=0.1, random_state=0)
        return X, 2.0 * y - 1.0
    X, y = make_regression(**options, noise=10.0, random_state=0)
    return X, (y - y.mean()) / y.std()


def problem(size, p, loss, C):
    """Of (points, kernels) on exact kernels, of (points, kernels, rank) on factors."""
    n, m, *rank = size
    X, y = points(n, loss)
    if rank:
        bank = Nystroem(*rank).fit(ResolvedKernels.from_data(kernels(m), X), X)
    else:
        bank = make_bank(kernels(m), X, dtype=np.float32)
    return Problem(bank, y, np.full(n, C), PNormBall(p), loss)


def drawn(sizes, seed=0):
    """Some of the grid."""
    grid = list(product(sizes, NORMS, LOSSES, COSTS))
    chosen = np.random.default_rng(seed).permutation(len(grid))[:PROBLEMS]
    return [grid[i] for i in np.sort(chosen)]


def timed(stated, solver, cap=np.inf):
    """Seconds of a solver to the gap; infinite if it was too slow or gave up."""
    began = time.process_time()
    run = RunState(stated, watch=lambda record: time.process_time() - began > cap)
    result = drive(choose_solver(solver, run), run, tol=TOL)
    seconds = time.process_time() - began
    return seconds if abs(result.duality_gap) <= TOL else np.inf


def names(stated):
    """The solvers that fit, without those that learn no weights."""
    run, others = RunState(stated), (name for name in SOLVERS if name not in (*ORDER, *FIXED))
    return [name for name in (*ORDER, *others) if SOLVERS[name]().fits(run)]


def compared(size, p, loss, C):
    """A row of the table."""
    stated = problem(size, p, loss, C)
    choice = choose_solver("auto", RunState(stated)).called
    auto = min(timed(stated, "auto") for _ in range(2))
    best, fastest = "auto", auto
    for name in names(stated):
        seconds = timed(stated, name, SLACK * fastest)
        if seconds < SLACK * fastest:
            seconds = min(seconds, timed(stated, name, SLACK * fastest))
        if seconds < fastest:
            best, fastest = name, seconds
    row = {
        "points, kernels, rank": ", ".join(map(str, size)),
        "p": p,
        "loss": repr(loss),
        "C": C,
        "auto": choice,
        "auto (s)": auto,
        "fastest": best,
        "fastest (s)": fastest,
        "regret": auto / fastest,
    }
    print(row, flush=True)
    return row


def compile_loops(sizes):
    """Loops are compiled, or read in, before anything is timed."""
    small = (60, 5, *([10] if len(sizes[0]) > 2 else []))
    for p, loss in product((1.0, 2.0, np.inf), LOSSES):
        stated = problem(small, p, loss, 10.0)
        for name in names(stated):
            timed(stated, name, 1.0)


def regrets(sizes):
    compile_loops(sizes)
    rows = [once(str(one), compared, *one) for one in drawn(sizes)]
    ratios = [row["regret"] for row in rows]
    bad = sorted((row for row in rows if row["regret"] > REGRET), key=lambda row: -row["regret"])
    if bad:
        table(f"Regret above {REGRET:g}", bad)
    print(
        f"{len(rows)} problems: regret {np.median(ratios):.2f} in the median, "
        f"{np.quantile(ratios, 0.9):.2f} at 90 %, {max(ratios):.2f} at worst; "
        f"above {REGRET:g}: {len(bad)}"
    )
    return rows


def exact():
    """Regret of the choice of a solver on exact kernels, problems drawn at random."""
    return regrets(EXACT)


def factored():
    """Regret of the choice of a solver on factors, problems drawn at random."""
    return regrets(FACTORED)


STEPS = {"exact": exact, "factored": factored}
GUESSED = {"exact": 500, "factored": 400}
QUICK = {
    "PROBLEMS": 1,
    "COSTS": (10.0,),
    "EXACT": ((100, 3), (200, 50)),
    "FACTORED": ((500, 3, 20),),
}
