"""After the fit: how long predictions take, how soon a new process gives one, how large models are.

``latency`` asks fitted models for one row, ten and a hundred at a time, in turn with scikit-learn's
SVC (a Gaussian, C = 1) on the same rows; p50 and p99 are of the calls of one run, ``ratio`` is of
the p50. ``many`` predicts ROWS rows at once. An SVC visits its support vectors once a row, a sum of
kernels each of its support vectors once for every distance that its kernels are made of, so ``SVC,
as many pairs`` is the time of the SVC times the ratio of these numbers. ``start`` starts a process
that imports, loads and predicts one row: processor seconds, the best of several, with the compiled
loops on disk and without any, by `Predictor`, by `load`, and by the command line with a file of
CSV. ``bare`` is a process that imports what everybody must (NumPy, or pandas to read CSV) and
nothing of ours. ``sizes`` are bytes of model files and of pickles, beside those of the training
rows.

What was learned
----------------
* Compiling, or reading compiled loops, takes longer than NumPy takes for ten thousand rows of a
  default model, which has weight on a few kernels.
* Most of a process that loads an estimator is the import of scikit-learn, and most of that is
  ``scipy.stats`` and pandas, which it imports by itself.
* What the Gaussians of one column add up to is a function of that column: a table of it takes the
  place of all support vectors and widths.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.svm import SVC

from manykernels import MKLClassifier, save
from manykernels.kernels import paper_bank

from .common import in_new_process, table

POINTS, COLUMNS, ROWS = 2500, 57, 10_000
CALLS, BATCHES, TIMES = 400, (1, 10, 100), 3
CLASSES = 4
MODELS = ("default", "several classes", "logistic", "papers' kernels")


def data(points):
    """Standardized rows, and which of CLASSES they belong to."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((points, COLUMNS))
    score = X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.standard_normal(points)
    return X, np.digitize(score, np.quantile(score, np.arange(1, CLASSES) / CLASSES))


def fitted(name):
    """A model and the SVC beside it, for the same targets."""
    X, codes = data(POINTS)
    y = codes if name == "several classes" else (codes > CLASSES // 2).astype(int)
    model = {
        "default": MKLClassifier,
        "several classes": MKLClassifier,
        "logistic": lambda: MKLClassifier(loss="logistic"),
        "papers' kernels": lambda: MKLClassifier(paper_bank(X), p=2.0, tol=1e-2),
    }[name]().fit(X, y)
    return model, SVC().fit(X, y)


def distances(model):
    """Sets of columns of the kernels that have weight."""
    used = np.flatnonzero(np.atleast_2d(model.kernel_weights_).any(axis=0))
    return len({str(model.bank_.columns_of(k)) for k in used})


def calls(functions, batch):
    """Seconds of every call of each function for rows of their own, in turns."""
    X, _ = data(ROWS)
    X = X[::-1].copy()
    seconds = np.empty((CALLS, len(functions)))
    for number in range(CALLS):
        rows = X[(number * batch) % (ROWS - batch) :][:batch]
        for place, function in enumerate(functions):
            began = time.perf_counter()
            function(rows)
            seconds[number, place] = time.perf_counter() - began
    return seconds


def latency():
    """Few rows at a time, beside an SVC with C = 1."""
    rows = []
    for name in MODELS:
        model, svc = fitted(name)
        for batch in BATCHES:
            ours, theirs = np.percentile(calls([model.predict, svc.predict], batch), [50, 99], 0).T
            rows.append(
                {
                    "model": name,
                    "rows": batch,
                    "kernels": int(np.count_nonzero(model.kernel_weights_)),
                    "support vectors": model.support_.size,
                    "p50 ms": 1e3 * ours[0],
                    "p99 ms": 1e3 * ours[1],
                    "SVC p50 ms": 1e3 * theirs[0],
                    "SVC p99 ms": 1e3 * theirs[1],
                    "ratio": ours[0] / theirs[0],
                    "ratio of p99": ours[1] / theirs[1],
                }
            )
    table("Few rows at a time", rows)
    return rows


def many():
    """Many rows at once, beside the SVC; the first call also makes tables."""
    X, rows = data(ROWS)[0], []
    for name in MODELS:
        model, svc = fitted(name)
        model.predict(X[:1])
        first = _seconds(model.predict, X)
        times = [(_seconds(model.predict, X), _seconds(svc.predict, X)) for _ in range(TIMES)]
        ours, theirs = np.min(times, axis=0)
        pairs = model.support_.size * distances(model) / svc.support_.size
        rows.append(
            {
                "model": name,
                "kernels": int(np.count_nonzero(model.kernel_weights_)),
                "support vectors": model.support_.size,
                "distances": distances(model),
                "first s": first,
                "s": ours,
                "SVC s": theirs,
                "SVC, as many pairs s": theirs * pairs,
                "ratio": ours / (theirs * pairs),
            }
        )
    table(f"{ROWS:,} rows at once", rows)
    return rows


def _seconds(function, X):
    began = time.perf_counter()
    function(X)
    return time.perf_counter() - began


SCRIPTS = {
    "Predictor": "from manykernels import Predictor; Predictor(PATH).predict(X)",
    "load": "from manykernels import load; load(PATH).predict(X)",
    "bare": "pass",
}
TIMED = """
import json, time
import numpy as np
X = np.zeros((1, COLUMNS))
SCRIPT
print(json.dumps(time.process_time()))
"""


def start():
    """A process that loads a model and predicts: processor seconds in all."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model, path = fitted("default")[0], str(Path(folder) / "model.mk")
        save(model, path)
        for cached in (True, False):
            for name, script in SCRIPTS.items():
                code = TIMED.replace("SCRIPT", script).replace("PATH", repr(path))
                code = code.replace("COLUMNS", str(COLUMNS))
                seconds = [_process(code, folder, cached, turn) for turn in range(TIMES + cached)]
                rows.append({"what": name, "loops on disk": cached, "s": min(seconds)})
        rows += _command(folder)
    table("A new process", rows)
    return rows


def _process(code, folder, cached, turn):
    """Processor seconds of a script, with a folder for compiled loops that it or others fill."""
    loops = Path(folder) / ("loops" if cached else f"loops {turn}")
    return in_new_process(code, NUMBA_CACHE_DIR=str(loops))


def _command(folder):
    """The command line on a file of CSV, and a process that imports pandas alone."""
    X, codes = data(POINTS)
    names = [f"x{f}" for f in range(COLUMNS)]
    train, new = Path(folder) / "train.csv", Path(folder) / "new.csv"
    table_of = np.column_stack([X, codes > CLASSES // 2])
    np.savetxt(train, table_of[:500], "%.6g", ",", header=",".join([*names, "y"]), comments="")
    np.savetxt(new, X[:10], "%.6g", ",", header=",".join(names), comments="")
    model = str(Path(folder) / "command.mk")
    _cpu("-m", "manykernels", "train", str(train), "--target", "y", "--out", model)
    ask = ["-m", "manykernels", "predict", model, str(new), "--out", str(Path(folder) / "out.csv")]
    found = {"manykernels predict": ask, "bare, with pandas": ["-c", "import pandas"]}
    return [
        {"what": name, "loops on disk": True, "s": min(_cpu(*words) for _ in range(TIMES))}
        for name, words in found.items()
    ]


def _cpu(*words):
    """Processor seconds of a child."""
    before = os.times()
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def sizes():
    """Bytes of a model on disk."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            model, path = fitted(name)[0], Path(folder) / "model.mk"
            model.predict(data(10)[0])
            save(model, path)
            rows.append(
                {
                    "model": name,
                    "training rows": 8 * POINTS * COLUMNS,
                    "model file": path.stat().st_size,
                    "pickle": len(pickle.dumps(model)),
                }
            )
    table("Bytes", rows)
    return rows


STEPS = {run.__name__: run for run in (latency, many, start, sizes)}
GUESSED = {"latency": 60, "many": 60, "start": 40, "sizes": 40}
QUICK = {"POINTS": 300, "COLUMNS": 8, "ROWS": 1000, "CALLS": 20, "TIMES": 1}
