"""Graphs of ONNX beside the models that they are: what one row takes, and how far scores differ.

``latency``: 57 columns and about 1,000 support vectors, two classes: a default model, one that
keeps all 63 kernels (p = 2), one with the kernels on all columns alone, and scikit-learn's SVC with
its own graph. Milliseconds of one row (of 100, one by one) and of 1,000 rows at once, by `predict`
and by onnxruntime on one thread. ``scores``: the largest difference of decision values from those
of the model, in units of the largest of them, for models of every kernel that converts, on rows of
heavy tails far from zero, with a C of 1 and of 1,000.

What was learned
----------------
* Nodes cost a quarter of a microsecond each. What counts is the product with the support vectors.
* In float32 a sum of 1,000 coefficients of size C, with signs, loses more digits than scores have:
  graphs compute in float64, which costs twice the time for products and eight times that for
  exponentials, and is still below 0.1 ms.
* Gaussians of single columns took most of the time as sums over support vectors. As tables of
  polynomials they take as long for 10,000 support vectors as for ten.
* Runtimes take a time to load graphs that grows with the square of their nodes: 17 s for 4,400.
"""

import time

import numpy as np
import onnxruntime
import skl2onnx
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Hamming, Laplacian, Linear, Polynomial
from manykernels.onnx import to_onnx

from .common import table

POINTS, COLUMNS, ROWS, MANY = 1150, 57, 100, 1000
KERNELS = {
    "auto": "auto",
    "RBF": [RBF(), RBF(factor=8.0)],
    "RBF on columns": [RBF(features=f) for f in range(5)],
    "Laplacian": [Laplacian()],
    "Linear": [Linear()],
    "Polynomial": [Polynomial(2), Polynomial(3)],
    "Hamming": [Hamming(features=[4]), RBF(features=[0, 1])],
}


def session(graph):
    """A graph on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph.SerializeToString(), options)


def processor_time(functions, repeats=7):
    """Shortest of several runs of each function, in turns, in seconds of the processor: a row takes
    less time than others on the machine are given at once.
    """
    seconds = np.empty((repeats, len(functions)))
    for turn in seconds:
        for place, function in enumerate(functions):
            began = time.process_time()
            function()
            turn[place] = time.process_time() - began
    return seconds.min(axis=0)


def models(X, y):
    """Name, model, its graph and the seconds of the conversion."""
    ours = {
        "default": MKLClassifier(),
        "p = 2": MKLClassifier(p=2.0),
        "whole": MKLClassifier("whole"),
    }
    for name, model in ours.items():
        model.fit(X, y)
        began = time.process_time()
        yield name, model, to_onnx(model), time.process_time() - began
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    began = time.process_time()
    graph = skl2onnx.to_onnx(model, X[:1].astype(np.float32))
    yield "SVC", model, graph, time.process_time() - began


def latency():
    """One row and many."""
    X, y = make_classification(
        POINTS + MANY,
        COLUMNS,
        n_informative=COLUMNS // 3,
        flip_y=0.15,
        class_sep=0.6,
        random_state=1,
    )
    new = X[POINTS:].astype(np.float32)
    rows = [measured(*one, new) for one in models(X[:POINTS], y[:POINTS])]
    table("One row and many, by predict and by the graph", rows)
    return rows


def measured(name, model, graph, seconds, new):
    last = model[-1] if name == "SVC" else model
    run, one = session(graph), new[:1]
    # one row after the other, as they come to a server
    first = processor_time(
        [
            lambda: [model.predict(one) for _ in range(ROWS)],
            lambda: [run.run(None, {"X": one}) for _ in range(ROWS)],
        ]
    )
    many = processor_time([lambda: model.predict(new), lambda: run.run(None, {"X": new})])
    labels = run.run(None, {"X": new})[0]
    return {
        "model": name,
        "support vectors": int(last.support_.size),
        "kernels": int((getattr(last, "kernel_weights_", np.ones(1)) > 0).sum()),
        "one row, predict ms": 1e3 * float(first[0]) / ROWS,
        "one row, graph ms": 1e3 * float(first[1]) / ROWS,
        f"{len(new)} rows, predict ms": 1e3 * float(many[0]),
        f"{len(new)} rows, graph ms": 1e3 * float(many[1]),
        "graph MB": graph.ByteSize() / 1e6,
        "conversion s": seconds,
        "same labels": float(np.mean(labels == model.predict(new))),
    }


def scores():
    """How far decision values differ."""
    rng = np.random.default_rng(0)
    X = np.exp(2.0 * rng.standard_normal((POINTS // 2, 5)))
    X[:, 4] = rng.integers(0, 4, len(X))
    X[:, 2] += 1000.0
    X = X.astype(np.float32)
    y = np.log(X[:, 0]) + rng.standard_normal(len(X)) + (X[:, 4] == 1) > 0.5
    rows = []
    for name, kernels in KERNELS.items():
        for C in (1.0, 1000.0):
            model = MKLClassifier(kernels, C=C, p=2.0, scale="standard", tol=1e-2, max_iter=50)
            right = model.fit(X, y).decision_function(X)
            found = session(to_onnx(model)).run(["scores"], {"X": X})[0]
            difference = float(np.abs(found - right).max() / np.abs(right).max())
            largest = float(np.abs(right).max())
            rows.append({"kernels": name, "C": C, "largest": largest, "difference": difference})
    table("Scores beside those of the model", rows)
    return rows


STEPS = {"latency": latency, "scores": scores}
NEEDS = {"": ("onnxruntime", "skl2onnx")}
GUESSED = {"latency": 40, "scores": 40}
QUICK = {"POINTS": 300, "MANY": 100, "ROWS": 20}
