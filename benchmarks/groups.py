"""Which groups matter, and how sure that is.

``stability``: thirty groups of five columns, of which three carry signal of ten strengths, 200
rows; for every strength some tables. Selected by `manykernels.stability` (p = 1, fifty pairs of
halves, at most four groups a model): how many of the three are stable, how many of the others are,
and the bound on their expected number. ``price``: a hundred halves, and ten splits of
`group_importance`, in units of one fit on all rows, on cells with gene sets.

What was learned
----------------
* A hundred halves cost eight to eleven fits: they share the kernels, begin where the model of all
  rows ended, and have half the rows.
* The bound is not tight: halves that agree by chance are rare where few groups are selected.
"""

import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from manykernels import MKLClassifier, group_importance, stability
from manykernels.kernels import RBF, on_groups

from . import peers
from .cells import save, simulate
from .common import DATA, run_parts, table

ROWS, GROUPS, SIZE, TRUE = 200, 30, 5, 3
STRENGTHS = np.linspace(0.0, 1.8, 10)
TABLES = 4
MOST = 4  # groups that a model selects
SIZES, COLUMNS = (700, 5_000, 20_000), 200
CELLS, CELL_ROWS, HALVES = ("pbmc_dc_mono", "pbmc_t_rest"), None, 100
MANY, GENES, SETS = 50_000, 5_000, 300  # of the large path
ENOUGH, ROOM = 10, 2000
LOSSES = ("squared_hinge", "logistic", "hinge")


def false_selections():
    """Stable groups that carry signal, and others, beside the bound."""
    rows = []
    kernels = on_groups({f"group {g}": range(SIZE * g, SIZE * (g + 1)) for g in range(GROUPS)})
    for strength in STRENGTHS:
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
        rows.append(
            {
                "strength": float(strength),
                "true ones found": float(stable[:, :TRUE].sum(axis=1).mean()),
                "false ones": float(stable[:, TRUE:].sum(axis=1).mean()),
                "bound": float(np.mean([one.expected_false() for one in found])),
                "bound without a mode": float(
                    np.mean([one.expected_false(unimodal=False) for one in found])
                ),
                "score": float(np.mean([one.scores.mean() for one in found])),
                "baseline": float(np.mean([one.baseline for one in found])),
            }
        )
        table("Stable groups of thirty, three of which carry signal", rows[-1:])
    table("Stable groups of thirty, three of which carry signal", rows)
    return rows


def price():
    """Resampling in units of a fit."""
    rows = []
    for name in CELLS:
        path = DATA / f"{name}.npz"
        if not path.exists():
            print(f"skipped {name}: {path} is not here (set MANYKERNELS_DATA)")
            continue
        data = np.load(path)
        X, y = data["X"][:CELL_ROWS], data["y"][:CELL_ROWS]
        ends = zip(data["offsets"], data["offsets"][1:], strict=False)
        sets = [data["members"][first:last] for first, last in ends]
        groups = dict(zip(map(str, data["names"]), sets, strict=True))
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


def beside_scmkl():
    """Paths of ten models: scMKL's and ours, on the same cells, sets and split."""
    rows = []
    for cells in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "cells.npz"
            X, y, groups = simulate(cells + cells // 4)
            save(path, X, y, np.arange(len(y)) < cells, groups)
            found = {"scMKL": peers.run("scmkl", "scmkl_path", path, COLUMNS // 2)}
            for loss in LOSSES:
                found[f"ours, {loss}"] = peers.run("ours", "groups_path", path, COLUMNS, loss)
        rows += [_path_row(cells, name, one, found["scMKL"]) for name, one in found.items()]
        table("A path of ten models on cells × 50 gene sets", rows[-len(found) :])
    table("A path of ten models on cells × 50 gene sets", rows)
    return rows


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
        path = Path(folder) / "cells.npz"
        X, y, groups = simulate(MANY + MANY // 10, GENES, SETS, rate=0.06)
        save(path, X, y, np.arange(len(y)) < MANY, groups)
        density = X.nnz / np.prod(X.shape)
        del X
        found = peers.run("ours", "groups_path", path, COLUMNS, "squared_hinge", ENOUGH, ROOM)
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


STEPS = {"stability": false_selections, "price": price, "scmkl": beside_scmkl, "large": large}
QUICK = {
    "STRENGTHS": (0.0, 1.0),
    "TABLES": 1,
    "GROUPS": 10,
    "CELLS": ("pbmc_dc_mono",),
    "CELL_ROWS": 120,
    "HALVES": 10,
    "SIZES": (150,),
    "LOSSES": ("squared_hinge",),
    "COLUMNS": 40,
    "MANY": 1000,
    "GENES": 500,
    "SETS": 30,
}


def main(out, parts=None):
    run_parts("groups", STEPS, parts, out)
