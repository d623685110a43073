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

import time
import warnings

import numpy as np

from manykernels import MKLClassifier, group_importance, stability
from manykernels.kernels import RBF, on_groups

from .common import DATA, run_parts, table

ROWS, GROUPS, SIZE, TRUE = 200, 30, 5, 3
STRENGTHS = np.linspace(0.0, 1.8, 10)
TABLES = 4
MOST = 4  # groups that a model selects


def main(out, parts=None):
    run_parts("groups", {"stability": false_selections, "price": price}, parts, out)


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
    for name in ("pbmc_dc_mono", "pbmc_t_rest"):
        path = DATA / f"{name}.npz"
        if not path.exists():
            print(f"skipped {name}: {path} is not here (set MANYKERNELS_DATA)")
            continue
        data = np.load(path)
        X, y = data["X"], data["y"]
        ends = zip(data["offsets"], data["offsets"][1:], strict=False)
        sets = [data["members"][first:last] for first, last in ends]
        groups = dict(zip(map(str, data["names"]), sets, strict=True))
        model = MKLClassifier(on_groups(groups, [RBF("median")]), p=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stability(model, X[:100], y[:100], n_resamples=4)  # compiled, then
            one = _seconds(model.fit, X, y)
            halves = _seconds(stability, model, X, y)
            mixed = _seconds(group_importance, model, X, y)
            without = _seconds(group_importance, model, X, y, method="leave_out")
        row = {"set": name, "rows": len(y), "groups": len(groups), "seconds of a fit": one}
        row |= {
            "100 halves, fits": halves / one,
            "importance, fits": mixed / one,
            "leaving out, fits": without / one,
        }
        rows.append(row)
        table("What resampling costs", rows[-1:])
    return rows


def _seconds(function, *of, **options):
    began = time.perf_counter()
    function(*of, **options)
    return time.perf_counter() - began
