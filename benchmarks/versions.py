"""This checkout beside another one: the same fits, in turn, and how long each takes.

``MANYKERNELS_BEFORE`` names the ``src`` folder of the other checkout. Every workload is a shortened
form of the benchmark of its name, at the defaults but for what it says. A process fits once to
compile, and then reports the best of several fits; processes of both checkouts take turns, so that
a busy machine slows both. ``ratio`` is the best time of this checkout over that of the other: above
one it became slower.
"""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from .common import table

HERE = Path(__file__).parents[1] / "src"
ROUNDS, FITS = 2, 2
DATA = "rng = np.random.default_rng(0); "
WORKLOADS = {
    "small": (
        "X = rng.standard_normal((1000, 57)); y = X[:, 0] * X[:, 1] > 0; fit = lambda: "
        "MKLClassifier().fit(X, y)"
    ),
    "small, p = 2": (
        "X = rng.standard_normal((1000, 57)); y = X[:, 0] * X[:, 1] > 0; fit = lambda: "
        "MKLClassifier(p=2.0).fit(X, y)"
    ),
    "tuning": (
        "X = rng.standard_normal((300, 10)); y = X[:, 0] * X[:, 1] > 0; fit = lambda: "
        "MKLClassifierCV().fit(X, y)"
    ),
    "million": (
        "X = rng.standard_normal((200, 60)); y = X[:, 0] > 0; kernels = "
        "KernelCollection.masked_rbf(np.exp(rng.uniform(-3, 1, 100_000)), "
        "rng.random((100_000, 60)) < 0.2); fit = lambda: MKLClassifier(kernels).fit(X, y)"
    ),
    "large": (
        "X = rng.standard_normal((12_000, 10)); y = X[:, 0] + X[:, 1] ** 2 > 1; fit = lambda: "
        "MKLClassifier('whole').fit(X, y)"
    ),
    "lowrank": (
        "X = rng.standard_normal((50_000, 10)); y = X[:, 0] + X[:, 1] ** 2 > 1; fit = lambda: "
        "MKLClassifier('whole', approximation=Nystroem(100)).fit(X, y)"
    ),
    "lowrank, p = 2, squared hinge": (
        "X = rng.standard_normal((50_000, 10)); y = X[:, 0] + X[:, 1] ** 2 > 1; fit = lambda: "
        "MKLClassifier('whole', p=2.0, loss='squared_hinge', approximation=Nystroem(100)).fit(X, y)"
    ),
    "gpu": (
        "X = rng.standard_normal((20_000, 10)); y = X[:, 0] + X[:, 1] ** 2 > 1; fit = lambda: "
        "MKLClassifier('whole', device='cuda').fit(X, y)"
    ),
    "gpu, low rank": (
        "X = rng.standard_normal((200_000, 10)); y = X[:, 0] + X[:, 1] ** 2 > 1; fit = lambda: "
        "MKLClassifier('whole', approximation=Nystroem(200), device='cuda').fit(X, y)"
    ),
    "dask": (
        "from distributed import Client, LocalCluster; from manykernels import dask; "
        "X = rng.standard_normal((1000, 10)); y = X[:, 0] * X[:, 1] > 0; "
        "client = Client(LocalCluster(n_workers=2, threads_per_worker=1, processes=False, "
        "dashboard_address='127.0.0.1:0')); "
        "fit = lambda: dask.MKLClassifier(client=client).fit(X, y)"
    ),
}
PROGRAM = """
import json, time, warnings
import numpy as np
from manykernels import KernelCollection, MKLClassifier, MKLClassifierCV
from manykernels.lowrank import Nystroem
warnings.simplefilter("ignore")
{setup}
fit()
seconds, gaps = [], []
for _ in range({fits}):
    began = time.perf_counter()
    model = fit()
    seconds.append(time.perf_counter() - began)
print(json.dumps([min(seconds), float(model.result_.objective)]))
"""
NEEDS = {"": ("$MANYKERNELS_BEFORE",), "gpu": ("GPU",)}
QUICK = {"ROUNDS": 1, "FITS": 1}


def _timed(source, setup):
    """Best seconds and objective of a workload with the package of a folder."""
    environment = os.environ | {"PYTHONPATH": str(source)}
    program = PROGRAM.format(setup=DATA + setup, fits=FITS)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


def _beside(*names):
    """Some workloads with both checkouts."""
    before = Path(os.environ.get("MANYKERNELS_BEFORE", ""))
    if not (before / "manykernels").is_dir():
        print("MANYKERNELS_BEFORE names no folder with another manykernels: nothing to compare")
        return []
    lines = []
    for name in names:
        found = {"before": [], "after": []}
        try:
            for _ in range(ROUNDS):
                found["before"].append(_timed(before, WORKLOADS[name]))
                found["after"].append(_timed(HERE, WORKLOADS[name]))
        except RuntimeError as error:
            print(f"{name}: {error}")
            continue
        seconds = {which: min(one[0] for one in runs) for which, runs in found.items()}
        objectives = {which: runs[-1][1] for which, runs in found.items()}
        lines.append(
            {
                "workload": name,
                "before s": seconds["before"],
                "after s": seconds["after"],
                "ratio": seconds["after"] / seconds["before"],
                "objective apart": abs(objectives["after"] / objectives["before"] - 1.0),
            }
        )
    if lines:
        table("this checkout beside another", lines)
    return lines


STEPS = {
    "small": partial(_beside, "small", "small, p = 2"),
    "tuning": partial(_beside, "tuning"),
    "million": partial(_beside, "million"),
    "large": partial(_beside, "large"),
    "lowrank": partial(_beside, "lowrank", "lowrank, p = 2, squared hinge"),
    "gpu": partial(_beside, "gpu", "gpu, low rank"),
    "dask": partial(_beside, "dask"),
}
