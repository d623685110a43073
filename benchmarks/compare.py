"""Peers in one run, each in an environment that is made for it (see `benchmarks.peers`).

``grams``: the same Gaussians (five widths on all columns, one on each column, unit diagonal) and C
for all. Peers get Gram matrices that are computed already; ours gets the points, and its seconds
include the kernels. Seconds are medians after a run that warms up, or of one that is long; memory
is the peak of the process, its imports included. Weights are judged by our `Problem`: they are put
on the simplex (or on the sphere of p = 2), one SVM is trained with them to 1e-8, and
`Problem.certificate` says how far the pair is from the optimum of p = 1 (of p = 2); "above" is the
same against the best bound that we know. Uniform weights, ridge regression and EasyMKL optimize
something else: for them it says how far that is from the MKL problem, not that they failed.
Sparsity is the number of kernels with more than a thousandth of the largest weight.

``lasso``: the group lasso of celer and skglm on random Fourier features of gene sets, squared loss.
With S the sum of the norms of the groups, a solution for the penalty alpha is that of our problem
with p = 1 and cost ``S / (2 n alpha)``, so that the certificate judges their very solution, and
ours solves the same problem, to 1e-3 and to 1e-5.

``path``: the same as a path of a hundred penalties, beside adelie, too, in processor seconds. The
tolerance of a package is divided by ten until the certificates of its whole path are as small as
ours, or until all of that took longer than PATIENCE. Ours begins each problem where the one before
ended.

Groups are gene sets, views of digits, and single columns. To a gap of 1e-3 adelie needs a tolerance
of 1e-10 to 1e-12, celer one of 1e-4 to 1e-8, skglm one of 1e-4 to 1e-6. What made ours quick:
coefficients of the features are carried from problem to problem, because those that the
coefficients of the points give have lost too much (first gaps of 0.05 in the place of 0.5 at the
end of a path); and a problem begins with a step in the space of the change from the problem before,
which takes two products with the factors and is all that most of them need. Before, 700 cells took
1.7 times adelie's time, and five or ten groups of a hundred columns more than ten times, since a
system of all columns was solved.

scMKL is beside ours in the benchmark ``groups`` (part ``scmkl``), TorchKM, which is for GPUs, in
``gpu_lowrank`` (part ``peers``).
"""

import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels.banks import FactorBank, ResolvedKernels, make_bank
from manykernels.kernels import RBF, KernelCollection, on_groups
from manykernels.losses import Hinge, Squared
from manykernels.lowrank import RandomFourier
from manykernels.machines import DenseMachine
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import choose_solver, solve

from . import peers
from .cells import correlated, simulate
from .common import file_of, median_of, once, read, table

SETS = ("sonar", "heart", "wdbc", "diabetes")
ROWS, C, REPEATS, PATIENCE = 500, 10.0, 3, 300
FACTORS = 2.0 ** np.arange(-3, 2)  # of one over the number of columns: gammas on all columns
WHO = {  # environment, and what it does there
    "SVC, mean of kernels": ("ours", "average"),
    "SVC, tuned (36 pairs)": ("ours", "tuned"),
    "LinearSVC on Nyström": ("ours", "nystroem"),
    "MKLpy AverageMKL": ("mklpy", "AverageMKL"),
    "MKLpy EasyMKL": ("mklpy", "EasyMKL"),
    "himalaya, gradient": ("himalaya", "gradient"),
    "himalaya, random": ("himalaya", "random"),
    "ours, p = 1": ("ours", "l1"),
    "ours, p = 2": ("ours", "l2"),
}
CELLS, COLUMNS, PENALTIES = ("pbmc_dc_mono", "pbmc_t_rest", "simulated"), 100, (0.3, 0.1, 0.03)
MADE = {"simulated": simulate, "correlated": correlated}
TABLES = ("pbmc_dc_mono", "pbmc_t_rest", "simulated", "correlated", "mfeat", "wdbc", "magic")
SIMULATED, MOST_ROWS = 2000, 5000  # made cells; rows of a table at most
PATH, LAST_PENALTY, GAP = 100, 1e-2, 1e-3  # penalties, the last as a part of the largest; gap
PATH_TOLERANCES = {"adelie": 1e-7, "celer": 1e-4, "skglm": 1e-4}  # their own defaults
SMALLEST_TOLERANCE = 1e-16


def bank_of(X):
    """Gammas and masks of the columns: Gaussians on all columns, and one on each."""
    d = X.shape[1]
    gammas = np.concatenate([FACTORS / d, np.full(d, 0.5)])
    masks = np.vstack([np.ones((len(FACTORS), d), dtype=bool), np.eye(d, dtype=bool)])
    return gammas, masks


def stated(X, y, gammas, masks, p):
    bank = make_bank(KernelCollection.masked_rbf(gammas, masks), X, dtype=np.float64)
    return Problem(bank, y, np.full(len(y), C), PNormBall(p))


def judged(problem, weights, p, best):
    """The certificate of somebody's weights, and how far they are above the best bound known."""
    norm = weights.sum() if p == 1.0 else np.sqrt((weights**2).sum())
    d = weights / norm
    machine = DenseMachine().solve(
        problem.bank.combine(d), Hinge(), problem.targets[0], problem.cost[0], tol=1e-8
    )
    certificate = problem.certificate(d, machine.beta)
    return certificate.gap, max(0.0, 1.0 - best / certificate.primal)


def one_set(name):
    X, y = read(name)[:2]
    rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
    parts = train_test_split(X[rows], y[rows], test_size=0.25, stratify=y[rows], random_state=0)
    scaler = StandardScaler().fit(parts[0])
    X, X_test, y, y_test = scaler.transform(parts[0]), scaler.transform(parts[1]), *parts[2:]
    gammas, masks = bank_of(X)
    kernels = [RBF(g, features=np.flatnonzero(m)) for g, m in zip(gammas, masks, strict=True)]
    problems = {p: stated(X, y, gammas, masks, p) for p in (1.0, 2.0)}
    bests = {p: solve(one, choose_solver("newton"), tol=1e-6) for p, one in problems.items()}
    bounds = {p: one.certificate.dual for p, one in bests.items()}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grams.npz"
        arrays = {"K": np.stack([k.block(X, X) for k in kernels])}
        arrays |= {"K_test": np.stack([k.block(X_test, X) for k in kernels]), "C": C}
        arrays |= {"X": X, "X_test": X_test, "y": y, "y_test": y_test}
        np.savez(path, **arrays, gammas=gammas, masks=masks)
        for title, (peer, who) in WHO.items():
            row = {"set": name, "points": len(y), "kernels": len(kernels), "who": title}
            found.append(row | measured(peer, who, path, problems, bounds))
            table(name, found[-1:])
    return found


def measured(peer, who, path, problems, bounds):
    """What a peer took and found, and what its weights are worth; or why it did not."""
    try:
        outcome = peers.run(peer, "grams", path, who, REPEATS, timeout=PATIENCE)
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}"}
    row = {name: outcome[name] for name in ("seconds", "MB")}
    row["accuracy %"] = 100 * outcome["accuracy"]
    if outcome["weights"] is not None:
        weights = np.maximum(outcome["weights"], 0.0)
        row["kernels used"] = int((weights > 1e-3 * weights.max()).sum())
        for p, problem in problems.items():
            gap, above = judged(problem, weights, p, bounds[p])
            row |= {f"certified gap, p = {p:g}": gap, f"above, p = {p:g}": above}
    return row


def grams():
    """Kernels, points and C (10) are the same for all."""
    rows = []
    for name in SETS:
        if read(name) is not None:
            rows += once(name, one_set, name)
    return rows


def cells(name):
    """Rows, their classes and groups of columns, which are sets of genes, views, or single columns;
    None where they are not here.
    """
    if name in MADE:
        X, y, groups = MADE[name](SIMULATED)
        return X.toarray(), np.where(y > 0, 1.0, -1.0), groups
    path = file_of(name)
    if path is None:
        return None
    with np.load(path) as file:
        y = file["y"].astype(float)
        if "views" in file.files:
            views = [file[f"X_{view}"] for view in file["views"]]
            X, ends = np.hstack(views), np.cumsum([0, *(view.shape[1] for view in views)])
            members = np.arange(X.shape[1])
        else:
            X = file["X"]
            has_sets = "members" in file.files
            ends = file["offsets"] if has_sets else np.arange(X.shape[1] + 1)
            members = file["members"] if has_sets else np.arange(X.shape[1])
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:MOST_ROWS])
    return X[rows], y[rows], {k: members[a:b] for k, (a, b) in enumerate(pairwise(ends))}


def features(name):
    """Random features of sets of genes without their means, offsets, and types less their mean."""
    X, y, groups = cells(name)
    X = StandardScaler().fit_transform(X)
    kernels = on_groups({str(k): own for k, own in groups.items()}, [RBF("median")])
    found = RandomFourier(COLUMNS).fit(ResolvedKernels.from_data(kernels, X), X, dtype=np.float64)
    Z = found.whole()
    Z -= Z.mean(axis=0)
    return Z, np.arange(0, Z.shape[1] + 1, COLUMNS), y - y.mean()


def one_penalty(name, share):
    """Solutions for a share of the largest penalty that leaves a group."""
    Z, offsets, centered = features(name)
    n, groups = len(centered), range(len(offsets) - 1)
    alpha = share * max(np.linalg.norm(b) for b in np.split(Z.T @ centered, len(groups))) / n
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lasso.npz"
        np.savez(path, Z=Z, y=centered, alpha=alpha, size=COLUMNS)
        row = {"set": name, "rows": n, "groups": len(groups), "columns": Z.shape[1]}
        row["penalty"] = share
        cost = None
        for who in ("celer", "skglm"):
            try:
                outcome = peers.run(who, "lasso", path, who, REPEATS, timeout=PATIENCE)
            except Exception as error:
                rows.append(row | {"who": who, "failed": str(error).strip().splitlines()[-1][:120]})
                continue
            w = np.array(outcome["coefficients"])
            norms = np.array([np.linalg.norm(part) for part in np.split(w, len(groups))])
            own = norms.sum() / (2 * n * alpha)
            cost = cost or own
            problem = Problem(
                FactorBank(Z, offsets, None), centered, np.full(n, own), PNormBall(1.0), Squared()
            )
            beta = 2.0 * own * (centered - Z @ w)
            gap = problem.certificate(norms / norms.sum(), beta).gap
            rows.append(
                row
                | {"who": who, "seconds": outcome["seconds"], "MB": outcome["MB"]}
                | {"groups used": int((norms > 1e-6 * norms.max()).sum()), "certified gap": gap}
            )
    return rows + [row | ours for ours in _ours(Z, offsets, centered, cost)]


def _ours(Z, offsets, y, cost):
    """The same problem by our solver, to two tolerances."""
    if cost is None:
        return
    for tol in (1e-3, 1e-5):

        def fit(tol=tol):
            bank = FactorBank(Z, offsets, None)
            problem = Problem(bank, y, np.full(len(y), cost), PNormBall(1.0), Squared())
            return solve(problem, choose_solver("auto", RunState(problem)), tol=tol)

        result = fit()
        weights = result.weights
        yield {
            "who": f"ours, to {tol:g}",
            "seconds": median_of(fit, REPEATS, warm=0),
            "groups used": int((weights > 1e-6 * weights.max()).sum()),
            "certified gap": result.duality_gap,
        }


def lasso():
    """Group lasso (squared loss) on the same random features."""
    rows = []
    for name in CELLS:
        if cells(name) is None:
            continue
        for share in PENALTIES:
            found = once(f"{name} {share}", one_penalty, name, share)
            table(f"{name}, {share:g} of the largest penalty", found)
            rows += found
    return rows


def one_path(name):
    """A path of every package to our gaps, and ours."""
    Z, offsets, y = features(name)
    largest = max(np.linalg.norm(b) for b in np.split(Z.T @ y, len(offsets) - 1)) / len(y)
    alphas = largest * np.geomspace(1.0, LAST_PENALTY, PATH + 1)[1:]
    row = {"set": name, "rows": len(y), "groups": len(offsets) - 1, "columns": Z.shape[1]}
    rows, costs = [], None
    for who in PATH_TOLERANCES:
        found = once(f"{name}, path of {who}", _their_path, who, Z, offsets, y, alphas)
        costs = found.pop("costs", costs)
        rows.append(row | {"who": who} | found)
    return rows if costs is None else [*rows, row | _our_path(Z, offsets, y, costs)]


def _their_path(who, Z, offsets, y, alphas):
    """The path of a package to our gap, and the costs at which its solutions are ours; or why there
    is none, and the smallest gap.
    """
    tol, found, end = PATH_TOLERANCES[who], {}, time.monotonic() + PATIENCE
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "path.npz", Path(folder) / "found.npy"
        np.savez(path, Z=Z, y=y, alphas=alphas, size=COLUMNS)
        while tol > SMALLEST_TOLERANCE:
            left = max(end - time.monotonic(), 1.0)
            try:
                answer = peers.run(who, "lasso_path", path, who, tol, out, timeout=left)
            except subprocess.TimeoutExpired:
                return found | {"failed": f"more than {PATIENCE} s"}
            except RuntimeError as error:
                return found | {"failed": str(error).strip().splitlines()[-1][:120]}
            gaps, costs = zip(*_judged(Z, offsets, y, alphas, np.load(out)), strict=True)
            found = {"largest gap": max(gaps), "tolerance": tol}
            if max(gaps) <= GAP:
                return answer | found | {"costs": costs}
            tol *= 0.1
    return found | {"failed": "no gap as small"}


def _judged(Z, offsets, y, alphas, coefficients):
    """The certified gap of every solution, and the cost at which it is one of ours."""
    bank = FactorBank(Z, offsets, None)
    for alpha, w in zip(alphas, coefficients, strict=True):
        norms = np.sqrt(bank.squared_norms(w[None]))
        cost = max(norms.sum() / (2 * len(y) * alpha), 1e-12)
        problem = Problem(bank, y, np.full(len(y), cost), PNormBall(1.0), Squared())
        weights = norms / norms.sum() if norms.any() else np.full(len(norms), 1 / len(norms))
        yield problem.certificate(weights, 2.0 * cost * (y - Z @ w)).gap, cost


def _our_path(Z, offsets, y, costs):
    """Our path over the same problems."""

    def solved():
        bank, before = FactorBank(Z, offsets, None), None
        for cost in costs:
            problem = Problem(bank, y, np.full(len(y), cost), PNormBall(1.0), Squared())
            solver = choose_solver("auto", RunState(problem))
            before = solve(problem, solver, tol=GAP, start=before)
            yield before.duality_gap

    next(solved())  # compiled, then
    wall, cpu = time.perf_counter(), time.process_time()
    gaps = list(solved())
    found = {"who": "ours", "seconds": time.perf_counter() - wall}
    return found | {"processor seconds": time.process_time() - cpu, "largest gap": max(gaps)}


def paths():
    """Group lasso (squared loss) over a hundred penalties, to gaps of 1e-3."""
    rows = []
    for name in TABLES:
        if cells(name) is None:
            continue
        found = once(f"{name} path", one_path, name)
        best = found[-1].get("processor seconds", np.nan)
        for row in found[:-1]:
            if "failed" not in row:
                row["ours to theirs"] = best / row["processor seconds"]
        table(f"{name}, {PATH} penalties", found)
        rows += found
    return rows


STEPS = {"grams": grams, "lasso": lasso, "path": paths}
SPLIT = {"grams": "SETS", "lasso": "CELLS", "path": "TABLES"}
NEEDS = {
    "grams": ("mklpy", "himalaya"),
    "lasso": ("celer", "skglm"),
    "path": ("celer", "skglm", "adelie"),
}
GUESSED = {"path": 400}
QUICK = {
    "SETS": ("heart",),
    "ROWS": 150,
    "REPEATS": 1,
    "CELLS": ("pbmc_dc_mono",),
    "TABLES": ("pbmc_dc_mono",),
    "COLUMNS": 20,
    "PENALTIES": (0.3,),
    "PATH": 10,
}
