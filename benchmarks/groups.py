"""Which groups matter, and how sure that is.

``stability``: thirty groups of five columns, of which three carry signal of ten strengths, 200
rows; for every strength some tables. Selected by `manykernels.stability` (p = 1, fifty pairs of
halves, at most four groups a model): how many of the three are stable, how many of the others are,
and the bound on their expected number. ``price``: a hundred halves, and ten splits of
`group_importance`, in units of one fit on all rows, on cells with gene sets. ``entries``: a path on
which groups enter one by one, beside one over as many values of C from the same range, as dense and
as sparse tables. ``density``: fits on sparse tables of a thousand columns, kept so and as arrays,
by the part of their entries that is stored.

``scmkl``, ``correlated``: paths of ten models beside scMKL's, on sets with genes of their own and
on sets that are active together, of which most get weight. ``as_many``: one fit with as many groups
as each model of scMKL's has, from one to twenty: processor seconds as ratios (ours to theirs), and
areas under the ROC curve, ours/theirs. ``large``: a path on fifty thousand cells.

What was learned
----------------
* Where sets are alike, rounds of block coordinate descent over the factors went on for thousands:
  13 groups of 200 columns, 6,000 cells and the logistic loss took 31 processor seconds. A step of
  Newton's method at fixed weights by conjugate gradients, and then the lengths of all groups at
  once in a space of four directions for each, takes one. The small problem has to be solved nearly
  exactly: with a fiftieth of the gap in the place of a hundred-thousandth for its error, there were
  five times the steps, because the gap is far larger than what is left to gain in the primal.
* A hundred halves cost eight to eleven fits: they share the kernels, begin where the model of all
  rows ended, and have half the rows.
* The bound is not tight: halves that agree by chance are rare where few groups are selected.
* A path to five groups trains about twice as many models as it keeps, to a gap that is a hundredth
  of the default: it costs up to three times a path over as many C if the Gram matrices stay in
  memory from one model to the next, and up to seventeen times if each computes them anew.
* Where the next group enters can be foretold: the logarithm of its quadratic form over the largest
  goes nearly straight to zero with log C. To aim at it by secants saves no models: the search for
  the second group needs as many as bisection (the lines bend where points leave their bounds), and
  forms cost a pass each. Longer steps after one in which nothing entered do save some.
* Of a sparse table exact kernels are made sooner as of an array from some 10 to 15 % of stored
  entries on, for 500 to 3,000 rows alike: below it is a draw, with 20 % arrays take six to nine
  tenths of the time, with 75 % a quarter to a half. Low-rank factors take the same time of both.
"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse

from manykernels import MKLClassifier, group_importance, path, stability, thresholds
from manykernels.kernels import RBF, Linear, on_groups

from . import peers
from .cells import correlated, save, simulate
from .common import file_of, once, table

ROWS, GROUPS, SIZE, TRUE = 200, 30, 5, 3
STRENGTHS = np.linspace(0.0, 1.8, 10)
TABLES = 4
MOST = 4  # groups that a model selects
SIZES, COLUMNS = (700, 5_000, 20_000), 200
CORRELATED = 6_000
CELLS, CELL_ROWS, HALVES = ("pbmc_dc_mono", "pbmc_t_rest"), None, 100
TABLE_ROWS, TABLE_COLUMNS = (500, 1500, 3000), 1000
DENSITIES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.4, 0.75)
PATH_CELLS, PATH_ROWS, PATH_SETS, PATH_GROUPS = "pbmc_t_rest", 661, 29, 5
MANY, GENES, SETS = 50_000, 5_000, 300  # of the large path
ENOUGH, ROOM = 10, 2000
LOSSES = ("squared_hinge", "logistic", "hinge")
SMOOTH_LOSSES, MOST_GROUPS = ("squared_hinge", "logistic"), 20
FIT_KEYS = ("one fit", "groups", "AUROC")


def false_selections():
    """Stable groups that carry signal, and others, beside the bound."""
    rows = []
    kernels = on_groups({f"group {g}": range(SIZE * g, SIZE * (g + 1)) for g in range(GROUPS)})
    for strength in STRENGTHS:
        rows.append(once(f"{strength:g}", selections, kernels, float(strength)))
        table("Stable groups of thirty, three of which carry signal", rows[-1:])
    table("Stable groups of thirty, three of which carry signal", rows)
    return rows


def selections(kernels, strength):
    """A line of the table: means over tables whose groups carry a signal of some strength."""
    found = []
    for seed in range(TABLES):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(ROWS, GROUPS * SIZE))
        signal = strength * X[:, : TRUE * SIZE : SIZE].sum(axis=1)
        y = np.sign(signal + rng.logistic(size=ROWS))
        model = MKLClassifier(kernels, p=1.0, C=0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(stability(model, X, y, max_groups=MOST))
    stable = np.array([one.frequencies >= one.threshold - 1e-12 for one in found])
    bounds = [(one.expected_false(), one.expected_false(unimodal=False)) for one in found]
    return {
        "strength": strength,
        "true ones found": float(stable[:, :TRUE].sum(axis=1).mean()),
        "false ones": float(stable[:, TRUE:].sum(axis=1).mean()),
        "bound": float(np.mean(bounds, axis=0)[0]),
        "bound without a mode": float(np.mean(bounds, axis=0)[1]),
        "score": float(np.mean([one.scores.mean() for one in found])),
        "baseline": float(np.mean([one.baseline for one in found])),
    }


def price():
    """Resampling in units of a fit."""
    rows = []
    for name in CELLS:
        if (found := _cells(name, CELL_ROWS)) is None:
            continue
        X, y, groups = found
        model = MKLClassifier(on_groups(groups, [RBF("median")]), p=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stability(model, X[:100], y[:100], n_resamples=4)  # compiled, then
            one = _seconds(model.fit, X, y)
            halves = _seconds(stability, model, X, y, n_resamples=HALVES)
            mixed = _seconds(group_importance, model, X, y)
            without = _seconds(group_importance, model, X, y, method="leave_out")
        row = {"set": name, "rows": len(y), "groups": len(groups), "seconds of a fit": one}
        row |= {
            f"{HALVES} halves, fits": halves / one,
            "importance, fits": mixed / one,
            "leaving out, fits": without / one,
        }
        rows.append(row)
        table("What resampling costs", rows[-1:])
    return rows


def entries():
    """Groups that enter one by one, beside as many values of C."""
    if (found := _cells(PATH_CELLS, PATH_ROWS)) is None:
        return []
    X, y, groups = found
    groups = dict(sorted(groups.items(), key=lambda group: -len(group[1]))[:PATH_SETS])
    rows = []
    for kernels in (on_groups(groups, [RBF("median")]), on_groups(groups)):
        model = MKLClassifier(kernels, p=1.0)
        for kind, points in (("dense", X), ("CSR", sparse.csr_array(X))):
            path(model, points[:100], y[:100], max_groups=2)  # compiled, then
            began = time.perf_counter()
            models = path(model, points, y, max_groups=PATH_GROUPS)
            climb = time.perf_counter() - began
            costs = np.geomspace(models.costs[0], models.costs[-1], len(models))
            given = _seconds(path, model, points, y, C=costs)
            rows.append(
                {
                    "rows": len(y),
                    "kernels": models[0].bank_.m,
                    "table": kind,
                    "groups": " ".join(map(str, models.n_groups())),
                    "seconds": climb,
                    "seconds of as many C": given,
                    "ratio": climb / given,
                }
            )
            table("Groups that enter one by one, beside as many C", rows[-1:])
    return rows


def density():
    """Fits on sparse tables, kept so and as arrays."""
    rows, rng = [], np.random.default_rng(0)
    members = [rng.choice(TABLE_COLUMNS, TABLE_COLUMNS // 10, replace=False) for _ in range(4)]
    sets = on_groups(
        {f"set {k}": some for k, some in enumerate(members)}, [RBF("median"), Linear()]
    )
    for count in TABLE_ROWS:
        for share in DENSITIES:
            X = sparse.random_array((count, TABLE_COLUMNS), density=share, rng=rng, format="csr")
            signal = X[:, members[0]].sum(axis=1)
            y = signal > np.median(signal)
            for name, kernels in (("all columns", "whole"), ("four sets", sets)):
                model, seconds = MKLClassifier(kernels), {}
                for kind, least in (("sparse", 2.0), ("array", 0.0)):
                    with thresholds.lowered(stored_share=least), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model.fit(X[:60], y[:60])  # compiled, then
                        seconds[kind] = min(_seconds(model.fit, X, y) for _ in range(2))
                row = {"rows": count, "stored": share, "kernels": name, **seconds}
                rows.append(row | {"ratio": seconds["sparse"] / seconds["array"]})
                table("Sparse tables, kept so and as arrays", rows[-1:])
    return rows


def _cells(name, rows):
    """Cells of a set, their types and their gene sets; None where the set is not here."""
    file = file_of(name)
    if file is None:
        return None
    data = np.load(file)
    ends = zip(data["offsets"], data["offsets"][1:], strict=False)
    sets = [data["members"][first:last] for first, last in ends]
    groups = dict(zip(map(str, data["names"]), sets, strict=True))
    return data["X"][:rows], data["y"][:rows], groups


def beside_scmkl():
    """Paths of ten models: scMKL's and ours, on the same cells, sets and split."""
    rows = []
    for cells in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cells.npz"
            X, y, groups = simulate(cells + cells // 4)
            save(file, X, y, np.arange(len(y)) < cells, groups)
            found = {"scMKL": peers.run("scmkl", "scmkl_path", file, COLUMNS // 2)}
            for loss in LOSSES:
                found[f"ours, {loss}"] = peers.run("ours", "groups_path", file, COLUMNS, loss)
        rows += [_path_row(cells, name, one, found["scMKL"]) for name, one in found.items()]
        table("A path of ten models on cells × 50 gene sets", rows[-len(found) :])
    table("A path of ten models on cells × 50 gene sets", rows)
    return rows


def correlated_sets():
    """The same where sets are active together, and most of them get weight."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cells.npz"
        X, y, groups = correlated(CORRELATED + CORRELATED // 4)
        save(file, X, y, np.arange(len(y)) < CORRELATED, groups)
        found = {"scMKL": peers.run("scmkl", "scmkl_path", file, COLUMNS // 2)}
        for loss in LOSSES:
            found[f"ours, {loss}"] = peers.run("ours", "groups_path", file, COLUMNS, loss)
    rows = [_path_row(CORRELATED, name, one, found["scMKL"]) for name, one in found.items()]
    table("A path of ten models on cells × 20 correlated sets", rows)
    return rows


def as_many_groups():
    """One fit of scMKL and of ours with as many groups, on real cells and on correlated sets."""
    rows = []
    for name in (*CELLS, "correlated"):
        if (found := _for_both(name)) is None:
            continue
        X, y, train, groups = found
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "cells.npz"
            save(file, X, y, train, groups)
            theirs = peers.run("scmkl", "scmkl_path", file, COLUMNS // 2)
            places = [k for k, count in enumerate(theirs["groups"]) if 1 <= count <= MOST_GROUPS]
            counts = ",".join(str(theirs["groups"][k]) for k in places)
            for loss in SMOOTH_LOSSES if places else ():
                ours = peers.run("ours", "groups_each", file, COLUMNS, loss, counts)
                of_theirs = [{key: theirs[key][k] for key in FIT_KEYS} for k in places]
                rows.append(_fits_row(name, int(train.sum()), loss, ours, of_theirs))
                table("One fit with as many groups", rows[-1:])
    table("One fit with as many groups", rows)
    return rows


def _for_both(name):
    """Cells, types, which are to train on, and sets; None where they are not here."""
    if name == "correlated":
        X, y, groups = correlated(CORRELATED + CORRELATED // 4)
        return X, y, np.arange(len(y)) < CORRELATED, groups
    if (found := _cells(name, CELL_ROWS)) is None:
        return None
    X, y, groups = found
    train = np.random.default_rng(0).random(len(y)) < 0.8
    return sparse.csr_matrix(X), np.where(y > 0, 1, 0), train, groups


def _fits_row(name, cells, loss, ours, theirs):
    """A line of the table: times of one fit as ratios, and what is worse in the test."""
    pairs = list(zip(ours, theirs, strict=True))
    ratios = [mine["one fit"] / other["one fit"] for mine, other in pairs]
    lower = [other["AUROC"] - mine["AUROC"] for mine, other in pairs]
    times = [mine["one fit"] for mine, _ in pairs]
    return {
        "set": name,
        "cells": cells,
        "loss": loss,
        "groups": " ".join(f"{mine['groups']}/{other['groups']}" for mine, other in pairs),
        "median ratio": float(np.median(ratios)),
        "largest ratio": max(ratios),
        "dearest to cheapest": max(times) / min(times),
        "AUROC": " ".join(f"{mine['AUROC']:.3f}/{other['AUROC']:.3f}" for mine, other in pairs),
        "median AUROC lower by": float(np.median(lower)),
        "largest gap": max(mine["gap"] for mine in ours),
    }


def _path_row(cells, name, found, theirs):
    """A line of the table; ``fewest``: groups of the first model whose AUROC is not below their
    best.
    """
    best, goal = max(found["AUROC"]), max(theirs["AUROC"])
    pairs = zip(found["groups"], found["AUROC"], strict=True)
    enough = [count for count, score in pairs if score >= goal]
    ratio = theirs["processor seconds"] / found["processor seconds"]
    return {
        "cells": cells,
        "path": name,
        "seconds": found["seconds"],
        "processor s": found["processor seconds"],
        "times as fast": ratio,
        "MB": found["MB"],
        "of their memory": found["MB"] / theirs["MB"],
        "best AUROC": best,
        "fewest groups with theirs": min(enough) if enough else "none",
        "groups": " ".join(map(str, found["groups"])),
        "AUROC": " ".join(f"{score:.3f}" for score in found["AUROC"]),
        "largest gap": found.get("gap", float("nan")),
    }


def large():
    """Fifty thousand cells, three hundred sets, within four gigabytes; the path ends with the first
    model that has more than ENOUGH of them, and ROOM megabytes are for factors.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "cells.npz"
        X, y, groups = simulate(MANY + MANY // 10, GENES, SETS, rate=0.06)
        save(file, X, y, np.arange(len(y)) < MANY, groups)
        density = X.nnz / np.prod(X.shape)
        del X
        found = peers.run("ours", "groups_path", file, COLUMNS, "squared_hinge", ENOUGH, ROOM)
    row = {"cells": MANY, "genes": GENES, "sets": SETS, "not zero": density} | {
        name: found[name] for name in ("seconds", "processor seconds", "MB", "gap")
    }
    row["groups"] = " ".join(map(str, found["groups"]))
    row["AUROC"] = " ".join(f"{score:.3f}" for score in found["AUROC"])
    table("A path of ten models, three hundred sets", [row])
    return [row]


def _seconds(function, *of, **options):
    began = time.perf_counter()
    function(*of, **options)
    return time.perf_counter() - began


STEPS = {
    "stability": false_selections,
    "price": price,
    "entries": entries,
    "density": density,
    "scmkl": beside_scmkl,
    "correlated": correlated_sets,
    "as_many": as_many_groups,
    "large": large,
}
SPLIT = {"scmkl": "SIZES"}
NEEDS = {"scmkl": ("scmkl",), "correlated": ("scmkl",), "as_many": ("scmkl",)}
GUESSED = {
    "stability": 400,
    "price": 60,
    "entries": 120,
    "density": 300,
    "scmkl": 200,
    "correlated": 200,
    "as_many": 300,
    "large": 300,
}
QUICK = {
    "STRENGTHS": (0.0, 1.0),
    "TABLES": 1,
    "GROUPS": 10,
    "CELLS": ("pbmc_dc_mono",),
    "CELL_ROWS": 120,
    "HALVES": 10,
    "TABLE_ROWS": (200,),
    "TABLE_COLUMNS": 200,
    "DENSITIES": (0.05, 0.5),
    "PATH_ROWS": 150,
    "PATH_SETS": 10,
    "PATH_GROUPS": 3,
    "SIZES": (150,),
    "CORRELATED": 150,
    "LOSSES": ("squared_hinge",),
    "SMOOTH_LOSSES": ("squared_hinge",),
    "COLUMNS": 40,
    "MANY": 1000,
    "GENES": 500,
    "SETS": 30,
}
