"""The regret of ``device="auto"``: its time beside that of the better of CPU and GPU.

PROBLEMS are drawn at random, with a fixed seed, from rows, columns, number and kind of the kernels,
loss, p, exact or of low rank, one fit or a grid of C on folds. Each is fitted on the CPU and on the
GPU (small ones, too, which ``device="cuda"`` leaves to the CPU otherwise) to a gap of 1e-3, and
once more without the programs that the first fit compiled, unless it took long; a fit that takes
longer than LIMIT seconds is stopped, and counts as that. PyTorch was imported before, so "auto"
need not reckon with that. The regret is the time of the place that "auto" takes, by its plan, over
that of the faster one. With low-rank factors, which a device may make for the host to solve with,
"auto" is timed itself.
"""

import time
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.datasets import make_classification, make_regression
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor, plan, thresholds
from manykernels.kernels import RBF, KernelCollection
from manykernels.lowrank import Nystroem

from .common import table

PROBLEMS, LIMIT, SHORT, LONG = 60, 5.0, 0.3, 7.0
ROWS = {
    "exact": (300, 1000, 2000, 4000, 8000),
    "lowrank": (2000, 8000, 30_000),
    "grid": (300, 1000),
}
COLUMNS, KERNELS = (8, 40), (5, 20, 100)
LOSSES, NORMS = ("hinge", "squared_hinge", "squared"), (1.0, 1.33, 2.0)
MOST_ENTRIES = 2**31  # of all kernels, beyond which one core takes minutes
EVERYWHERE = {
    "device_entries": 0,
    "device_entries_of_subsets": 0,
    "device_points_of_tables": 0,
    "device_operations_on_factors": 0,
}


class Drawn(NamedTuple):
    """A problem."""

    way: str
    n: int
    columns: int
    kernels: int
    kind: str
    loss: str
    p: float

    def data(self):
        options = {"n_samples": self.n, "n_features": self.columns, "n_informative": 5}
        if self.loss == "squared":
            X, y = make_regression(**options, noise=10.0, random_state=0)
            return StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
        X, y = make_classification(**options, flip_y=0.1, random_state=0)
        return StandardScaler().fit_transform(X), y

    def collection(self):
        rng, m, d = np.random.default_rng(1), self.kernels, self.columns
        gammas = 2.0 ** rng.uniform(-5, 1, m) / d
        if self.kind == "distance":
            return KernelCollection([RBF(gamma) for gamma in gammas])
        if self.kind == "features":
            return KernelCollection([RBF(d * g, features=[k % d]) for k, g in enumerate(gammas)])
        masks = rng.random((m, d)) < 0.4
        masks[:, 0] |= ~masks.any(axis=1)
        return KernelCollection.masked_rbf(2.0 * gammas, masks)

    def model(self, device, began):
        kernels, stop = self.collection(), [lambda _: time.perf_counter() - began > LIMIT]
        options = {"device": device, "callbacks": stop, "tol": 1e-3}
        if self.way == "grid":
            grid = {"Cs": np.geomspace(0.1, 10.0, 4), "ps": (self.p,), "cv": 3}
            return MKLClassifierCV(kernels, loss=self.loss, **grid, **options)
        options |= {"p": self.p, "C": 10.0}
        if self.way == "lowrank":
            options["approximation"] = Nystroem(50, random_state=0)
        if self.loss == "squared":
            return MKLRegressor(kernels, loss=self.loss, **options)
        return MKLClassifier(kernels, loss=self.loss, **options)


def drawn():
    """Problems that are as different as a seed makes them."""
    rng, found = np.random.default_rng(0), []
    while len(found) < PROBLEMS:
        way = str(rng.choice(["exact", "exact", "lowrank", "grid"]))
        one = Drawn(
            way,
            int(rng.choice(ROWS[way])),
            int(rng.choice(COLUMNS)),
            int(rng.choice(KERNELS if way != "lowrank" else KERNELS[:2])),
            str(rng.choice(["distance", "features", "subsets"])),
            str(rng.choice(LOSSES if way != "grid" else LOSSES[:2])),
            float(rng.choice(NORMS)),
        )
        small = way == "lowrank" or one.kernels * one.n**2 <= MOST_ENTRIES
        if small and one not in found:
            found.append(one)
    return found


def timed(problem, device):
    """Seconds of the shortest of some fits, and whether the GPU did it."""
    X, y = problem.data()
    times = []
    while len(times) < 2 or (len(times) < 4 and min(times) < SHORT):
        if sum(times) > LONG:
            break
        began = time.perf_counter()
        model = problem.model(device, began).fit(X, y)
        times.append(time.perf_counter() - began)
    return min(times), "device cuda" in str(model.plan_.place)


def place_of_auto(problem):
    """The place that ``device="auto"`` takes."""
    X, y = problem.data()
    model = problem.model("auto", time.perf_counter())
    # a plan in advance knows folds of a grid by upper bounds
    taken = plan(model, X, y) if problem.way == "exact" else model.fit(X, y).plan_
    return "cuda" if "device cuda" in str(taken.place) else "cpu"


def beside(problem):
    """A problem's seconds on both, and the regret of the place that "auto" takes."""
    row = problem._asdict()
    row["cpu s"], _ = timed(problem, "cpu")
    with thresholds.lowered(**EVERYWHERE):
        row["cuda s"], row["on GPU"] = timed(problem, "cuda")
    row["auto"] = place_of_auto(problem)
    timing = problem.way == "lowrank"
    row["auto s"] = timed(problem, "auto")[0] if timing else row[f"{row['auto']} s"]
    row["regret"] = row["auto s"] / min(row["cpu s"], row["cuda s"])
    print(row, flush=True)
    return row


def regret(ways=tuple(ROWS)):
    """Seconds of the place that ``device="auto"`` takes beside the better one, on 60 problems, or
    on those of some ways.
    """
    warnings.simplefilter("ignore")
    rows = [beside(problem) for problem in drawn() if problem.way in ways]
    found = [row["regret"] for row in rows]
    bad = sorted((row for row in rows if row["regret"] > 1.5), key=lambda row: -row["regret"])
    if bad:
        table("Regret above 1.5", bad)
    print(
        f"{len(rows)} problems: regret {np.median(found):.2f} in the median, "
        f"{np.quantile(found, 0.9):.2f} at 90 %, {max(found):.2f} at worst"
    )
    return rows
