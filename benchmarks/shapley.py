"""Exact Shapley values of columns: how exact, how fast, beside sampling.

``exact``: the largest difference from sums over all coalitions, for models of Gaussians on 4 to 12
columns; both games. ``bank``: all 569 rows of wdbc, 30 columns standardized: one Gaussian, and 50
whose widths span a factor of 1,024, with p = 1, which leaves a few of them, and p = 2, which leaves
all; seconds, and the price of a pair of row and support vector in units of that of one Gaussian.
``sampling``: a few of these rows beside KernelExplainer of the package shap (in an environment of
its own), the same game with one row as the background: seconds for a row and the largest error,
relative to the largest value, of 2,108 coalitions (its default) and more.

What was learned
----------------
* A product of d factors needs no more than d / 2 nodes, and far fewer where the factors are near
  one: error bounds of the quadrature with powers of the summed changes choose 8 to 16 nodes for
  30 columns, and a dozen for 500.
* Four nodes that share a division take less than half the time of four divisions.
* Of 30 columns, exponentials and distances take a third of the time, products and divisions the
  rest. Calls with arrays took as much again: with all loops in one function a pair takes 0.5 to
  0.6 of the time (0.25 to 0.4 microseconds), one of 2,000 columns 1.1. Points beside each other in
  the registers in the place of columns, with products from both ends in the place of divisions,
  are no faster.
* A bank costs as many times one Gaussian as kernels have weight: products of factors have nothing
  in common between widths. Sums of many widths are sums of fewer (Gauss quadrature over the
  logarithm of the width: 14 for a factor of 16 between the widest and the narrowest, 26 for 1,024,
  to rounding), which is not worth its lines for the widths that people use; what can be proven,
  since values are analytic where the rate has a positive real part, and at most 2 there, takes 16
  for a factor of 16 and 35 for 1,024 with an error of 1e-12, and 30 with 1e-10. Narrow Gaussians
  cannot be left out: where all factors vanish, every column still has minus one over their number.
  Squares in the place of exponentials, for widths of ratio two, would save a sixth at most. So 3
  times the price of one is what p = 1 with three kernels costs, and not what 50 kernels with
  weight cost.
* Sampled values are a tenth of the largest value off, or more, with the default number of
  coalitions, and four times as many halve that: from an error of about two percent on, sampling
  takes a thousand times as long as the exact values, and no number of coalitions makes it exact.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, shapley_values
from manykernels.kernels import RBF

from . import peers
from .common import best_of, read, table

COLUMNS = (4, 8, 12)
KERNELS = 50
ROWS = 2  # that are also sampled
SAMPLES = (0, 8 * 2108, 64 * 2108)


def coalitions(columns):
    """All coalitions, (2^columns, columns) bool."""
    return (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1 == 1


def by_coalitions(value, columns):
    """Shapley values of a game by its definition."""
    members = coalitions(columns)
    values, sizes = value(members), members.sum(axis=1)
    orders = np.cumprod([1.0, *range(1, columns + 1)])
    out = np.empty(columns)
    for j in range(columns):
        without = np.flatnonzero(~members[:, j])
        r = sizes[without]
        shares = orders[r] * orders[columns - 1 - r] / orders[columns]
        out[j] = shares @ (values[without + 2**j] - values[without])
    return out


def exact():
    """Against all coalitions."""
    rows = []
    for columns in COLUMNS:
        rng = np.random.default_rng(columns)
        X = rng.normal(size=(100, columns))
        gammas = np.geomspace(0.01, 10.0, 5)
        model = MKLClassifier([RBF(gamma) for gamma in gammas], p=2.0, normalize=None)
        model.fit(X, X[:, 0] + X[:, 1] * X[:, 2] > 0)
        x, other = rng.normal(size=(2, columns))
        points, beta = model.bank_.right[model.decision_.support], model.decision_.beta[0]

        def left_out(members, x=x, points=points, beta=beta, model=model, gammas=gammas):
            squares = members @ np.square(x - points).T
            gaussians = zip(model.kernel_weights_, gammas, strict=True)
            return sum(w * np.exp(-gamma * squares) for w, gamma in gaussians) @ beta

        def mixed(members, x=x, other=other, model=model):
            return model.decision_function(np.where(members, x, other))

        found = shapley_values(model, x[None])
        beside = shapley_values(model, x[None], background=other[None])
        rows.append(
            {
                "columns": columns,
                "coalitions": 2**columns,
                "left out": float(np.abs(found.values[0] - by_coalitions(left_out, columns)).max()),
                "background": float(np.abs(beside.values[0] - by_coalitions(mixed, columns)).max()),
                "sum": float(abs(found.decision - model.decision_function(x[None]))[0]),
            }
        )
    table("Largest difference from all coalitions, and of the sum from the decision", rows)
    return rows


def wdbc():
    data = read("wdbc")
    return None if data is None else (StandardScaler().fit_transform(data[0]), data[1])


def model(X, y, gammas, p):
    kernels = [RBF(gamma / X.shape[1]) for gamma in gammas]
    return MKLClassifier(kernels, p=p, C=10.0, normalize=None).fit(X, y)


def widths():
    return np.geomspace(1.0 / 32.0, 32.0, KERNELS)


def bank():
    """One Gaussian and many."""
    data = wdbc()
    if data is None:
        return []
    X, y = data
    rows, price = [], None
    for name, gammas, p in (
        ("one Gaussian", [1.0], 1.0),
        (f"{KERNELS}, p = 1", widths(), 1.0),
        (f"{KERNELS}, p = 2", widths(), 2.0),
    ):
        fitted = model(X, y, gammas, p)
        shapley_values(fitted, X[:2])
        seconds = best_of(lambda fitted=fitted: shapley_values(fitted, X), 2)
        pair = seconds / len(X) / fitted.support_.size
        price = pair if price is None else price
        found = shapley_values(fitted, X)
        off = np.abs(found.decision - fitted.decision_function(X)).max()
        rows.append(
            {
                "kernels": name,
                "with weight": int((fitted.kernel_weights_ > 0.0).sum()),
                "support vectors": fitted.support_.size,
                "seconds": seconds,
                "times one Gaussian": pair / price,
                "sum off by": float(off),
            }
        )
    table(f"wdbc, {X.shape[0]} rows x {X.shape[1]} columns", rows)
    return rows


def sampling():
    """Beside KernelExplainer."""
    data = wdbc()
    if data is None:
        return []
    X, y = data
    fitted = model(X, y, widths(), 2.0)
    chosen, background = X[:: len(X) // ROWS][:ROWS], np.median(X, axis=0)[None]
    found = shapley_values(fitted, chosen, background=background)
    began = time.perf_counter()
    shapley_values(fitted, X, background=background)
    ours = (time.perf_counter() - began) / len(X)
    rows = [{"who": "ours, exact", "seconds a row": ours, "error": 0.0, "times ours": 1.0}]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        np.savez(
            path,
            points=fitted.bank_.right[fitted.decision_.support],
            beta=fitted.decision_.beta[0],
            weights=fitted.kernel_weights_,
            gammas=widths() / X.shape[1],
            intercept=fitted.intercept_[0],
            background=background,
            rows=chosen,
        )
        for samples in SAMPLES:
            theirs = peers.run("shap", "shap_kernel", path, samples)
            off = np.abs(np.array(theirs["values"]) - found.values).max()
            each = theirs["seconds"] / ROWS
            rows.append(
                {
                    "who": f"KernelExplainer, {samples or 2 * X.shape[1] + 2048} coalitions",
                    "seconds a row": each,
                    "error": float(off / np.abs(found.values).max()),
                    "times ours": each / ours,
                }
            )
    table(f"wdbc, {KERNELS} Gaussians with weight, one row as the background", rows)
    return rows


STEPS = {"exact": exact, "bank": bank, "sampling": sampling}
NEEDS = {"sampling": ("shap",)}
GUESSED = {"exact": 10, "bank": 30, "sampling": 60}
QUICK = {"COLUMNS": (4, 8), "KERNELS": 10, "ROWS": 1, "SAMPLES": (0,)}
