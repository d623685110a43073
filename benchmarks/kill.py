"""Trainings that are killed (``kill -9``) at random moments, and what they come to when they are
run again.

Every line of the table is one moment: a training writes its checkpoint at every iteration and is
killed; what it has left is read; the training is run again with the same checkpoint; its outcome is
compared with that of one that nobody disturbed.
"""

import os
import random
import signal
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from manykernels import Checkpoint, MKLClassifier
from manykernels._files import read

from .common import table

MOMENTS, N, TOL = 50, 400, 1e-6
# and the p that each is given
SOLVERS = {
    "spg": 1.0,
    "newton": 1.0,
    "smo": 1.5,
    "group_lasso": 1.5,
}


def data():
    """Noisy labels, so that many points are support vectors and a training takes a while."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 6))
    return X, np.where(X[:, 0] * X[:, 1] + rng.standard_normal(N) > 0, 1, -1)


def model(solver, path=None):
    # one thread: a process is forked for every moment, and threads do not survive that
    checkpoint = None if path is None else Checkpoint(path, every=0.0)
    return MKLClassifier(
        C=10.0, p=SOLVERS[solver], solver=solver, tol=TOL, checkpoint=checkpoint, n_jobs=1
    )


def killed(solver, path, moment):
    """Train in a process of its own and kill it after so many seconds; whether it was still at
    work.
    """
    pid = os.fork()
    if pid == 0:
        model(solver, path).fit(*data())
        os._exit(0)
    time.sleep(moment)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def left(path):
    """How many files there are, and the section of the checkpoint; the file is whole, or this
    raises.
    """
    if not path.exists():
        return len(list(path.parent.iterdir())), {}
    return len(list(path.parent.iterdir())), read(path, "checkpoint")[1]["sections"].get(
        "whole", {}
    )


def one_moment(solver, whole, moment):
    """A line of the table, or None if the training had ended before the moment came."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.mk"
        if not killed(solver, path, moment):
            return None
        files, section = left(path)
        began = time.perf_counter()
        result = model(solver, path).fit(*data()).result_
        return {
            "solver": solver,
            "killed after s": moment,
            "files left": files,
            "iteration": section.get("iteration", 0),
            "gap left": section.get("gap") or float("inf"),
            "resumed": result.resumed is not None,
            "status": result.status.name,
            "gap": result.duality_gap,
            "objective differs by": abs(result.objective - whole.objective) / whole.objective,
            "again s": time.perf_counter() - began,
        }


def moments():
    """Killed at a random moment, and run again."""
    warnings.simplefilter("ignore")
    chosen, rows, wholes = random.Random(0), [], {}
    for solver in SOLVERS:
        model(solver).set_params(max_iter=1).fit(*data())  # compiled code is read in
        with tempfile.TemporaryDirectory() as folder:  # with its checkpoints, which take time too
            began = time.perf_counter()
            result = model(solver, Path(folder) / "run.mk").fit(*data()).result_
            wholes[solver] = result, time.perf_counter() - began
    while len(rows) < MOMENTS:
        solver = list(SOLVERS)[len(rows) % len(SOLVERS)]
        whole, seconds = wholes[solver]
        row = one_moment(solver, whole, chosen.uniform(0.0, seconds))
        rows += [] if row is None else [row]
    table(f"{MOMENTS} trainings on {N} points, killed at work and run again", rows)
    resumed = sum(row["resumed"] for row in rows)
    good = [
        row for row in rows if row["status"] == "OPTIMAL" and row["objective differs by"] <= 2 * TOL
    ]
    print(
        f"\n{len(good)} of {len(rows)} ended at the certified objective (relative gap {TOL:g}); "
        f"{resumed} went on from a checkpoint, the others were killed before their first."
    )
    return rows


STEPS = {"moments": moments}
GUESSED = {"moments": 60}
QUICK = {"MOMENTS": 8}
