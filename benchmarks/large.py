"""Many points, exact kernels: MKL at the price of one SVM.

``large``: a9a, w8a and cod_rna (scaled to [0, 1]) with 50 Gaussians on all features, gamma from a
hundredth of SVC's to that of SVC, C = 1, gap 1e-2, on all points; accuracy on the test part (its
first 20,000 points). Beside it one SVC of scikit-learn with gamma = "scale", the same C, tolerance
1e-3 and a cache of 2 GB, in the same process: ``ratio`` is our time over its. Each set runs in its
own process; "paper" are the hours of Jain et al. (KDD 2012, tables 3 and 6).

``points``: seconds against the number of points on a9a and w8a, and the fitted exponent (1.98 and
1.52 in the paper).

``widths``: seconds of a fit against the number of widths of one distance.

``ablation``: table 11 of the paper: PGD, PGD+N+S and SPG on the whole of a9a and w8a and on sonar
with many masked kernels, p = 1.33, from uniform weights; a run is stopped after LIMIT seconds, and
its gap says how far it came.

``products``: ``exp(-sum_f d_f (x_f - z_f)^2)`` at the paper's large sizes (table 8, p = 1.33: half
the squared norm; table 10, p = 1: the l1 penalty) by the default fit, on a GPU where there is one,
stopped after PRODUCT_LIMIT seconds; where a set has no test part, a tenth of it is. Beside it
scikit-learn's boosting, and one Gaussian of SVC's width and the sum of fifty by the same library.

What was learned
----------------
* A sum of Gaussians of one distance is one function: a table of cubics, a cell per sixteenth of an
  octave, costs as much per
  pair as two exponentials, whatever the number of widths. Its transpose, a histogram of the pairs,
  gives all quadratic forms.
* Distances are what is left. Points of zeros and ones are compared 64 features at a time: 0.4 ns
  per pair for a9a where a
  product of matrices takes 3 (float32) and of sparse matrices 40. Keeping distances over changes of
  weights would not pay: what a change costs is one product of the kernel with the coefficients, and
  computing it anew is a few nanoseconds per pair.
* Weights from 4,000 points leave a gap of 0.1 to 4 % for all of them, more with narrower kernels;
  one closed-form update later
  it is below 1 %. Coefficients
  that begin where the sample's decision function puts them save most of the steps of the first SVM.
* Gammas up to 10 and 100 times SVC's, at the same C, fit the training points too well: on 6,000
  other training points of a9a
  the accuracy was 83.5 to 83.8 % where SVC has 84.2 % and the gammas used here 84.1 to 84.4 %.
* For p = 1 a sample may choose other kernels than all points would (w8a has 3 % positive labels):
  SPG then needs some ten SVMs.
"""

import time

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from manykernels import MKLClassifier
from manykernels.kernels import RBF, KernelCollection
from manykernels.regularizers import L1, SquaredPNorm
from manykernels.solvers import SPG, choose_solver

from . import papers
from .common import exponent, fit_within, in_new_process, load, once, read, table

SETS, NORMS = ("a9a", "w8a", "cod_rna"), (1.33, 1.0)
PAPER_HOURS = {
    p: {name: pair[1] for name, pair in printed.items()}
    for p, printed in ((1.33, papers.SPG_TABLE_3), (1.0, papers.SPG_TABLE_6))
}
SIZES = {"a9a": (4000, 8000, 16_000, 32_561), "w8a": (6000, 12_000, 25_000, 49_749)}
PAPER_EXPONENT = papers.SPG_FIGURE_2
WIDTHS = (10, 100, 1000, 10_000)
PAPER_PRODUCTS = {  # hours by p
    name: {p: pair[1] for p, pair in row.items()} for name, row in papers.SPG_TABLES_8_10.items()
}
PRODUCTS = ("letter", "poker", "a8a", "w7a", "cod_rna")
LIMIT, TESTED = 45, 20_000
PRODUCT_LIMIT = 500  # seconds of a product
ROWS = None  # points of a set at most, at random
WIDE, MASKED = (5000, 20_000), 10_000  # points under many widths; masked kernels


def gaussians(X, count=50):
    """Gaussians with gammas up to SVC's ``"scale"``, which wants one over the number of features
    times their variance.
    """
    variance = X.multiply(X).mean() - X.mean() ** 2 if sparse.issparse(X) else X.var()
    return [RBF(gamma) for gamma in np.geomspace(0.01, 1.0, count) / (X.shape[1] * variance)]


def data(name):
    """Training points and labels, test points and labels."""
    parts = read(name)
    if parts is None:
        return None
    X, y, X_test, y_test = parts
    rows = slice(None) if ROWS is None else np.random.default_rng(0).permutation(len(y))[:ROWS]
    if name == "cod_rna":
        scaler = MinMaxScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return X[rows], y[rows], X_test, y_test


RUN = """
import json, time, warnings
from sklearn.svm import SVC
from benchmarks.common import megabytes
from benchmarks import large
from benchmarks.large import TESTED, data, gaussians
from manykernels import MKLClassifier
warnings.simplefilter("ignore")
large.ROWS = {rows}
X, y, X_test, y_test = data({name!r})
X_test, y_test = X_test[:TESTED], y_test[:TESTED]
MKLClassifier(gaussians(X), p={p}, C=1.0).fit(X[::100], y[::100])  # compiles
began = time.perf_counter()
machine = SVC(C=1.0, gamma="scale", cache_size=2000).fit(X, y)
svc = time.perf_counter() - began
began = time.perf_counter()
clf = MKLClassifier(gaussians(X), p={p}, C=1.0, tol=1e-2).fit(X, y)
seconds, peak = time.perf_counter() - began, megabytes("VmHWM")
print(json.dumps(dict(set={name!r}, n=len(y), p={p}, seconds=seconds, SVC=svc, ratio=seconds / svc,
    gap=clf.result_.duality_gap, solves=clf.result_.counters.svm_solves,
    kernels=int((clf.result_.weights > 1e-9).sum()), accuracy=100 * clf.score(X_test, y_test),
    SVC_accuracy=100 * machine.score(X_test, y_test), MB=peak)))
"""


def large():
    """Fifty Gaussians on all points, C = 1, a gap of 1e-2, beside one SVC."""
    rows = []
    for name in SETS:
        if read(name) is None:
            continue
        for p in NORMS:
            rows.append(
                in_new_process(RUN.format(name=name, p=p, rows=ROWS))
                | {"paper h": PAPER_HOURS[p].get(name, "")}
            )
            print(rows[-1], flush=True)
    if rows:
        table("Fifty Gaussians on all points, beside one SVC", rows)
    return rows


def points():
    """Seconds against the number of points, fifty Gaussians, p = 1.33, C = 1, a gap of 1e-2."""
    results = {}
    for name, sizes in SIZES.items():
        loaded = data(name)
        if loaded is None:
            continue
        X, y = loaded[:2]
        order = np.random.default_rng(0).permutation(len(y))
        MKLClassifier(gaussians(X), p=1.33).fit(X[::100], y[::100])  # compiles
        rows = []
        for n in sizes:
            began = time.perf_counter()
            clf = MKLClassifier(gaussians(X), p=1.33, C=1.0, tol=1e-2).fit(
                X[order[:n]], y[order[:n]]
            )
            rows.append(
                {
                    "set": name,
                    "n": n,
                    "seconds": time.perf_counter() - began,
                    "gap": clf.result_.duality_gap,
                }
            )
        table(f"{name}: seconds against points", rows)
        fitted = exponent([row["n"] for row in rows], [row["seconds"] for row in rows])
        print(f"exponent {fitted:.2f} (paper: {PAPER_EXPONENT[name]})", flush=True)
        results[name] = {"rows": rows, "exponent": fitted}
    return results


def widths():
    """Seconds against the number of widths of one distance, p = 1.33, C = 1."""
    loaded = data("a9a")
    if loaded is None:
        return []
    rows = []
    for count in WIDTHS:
        row = {"widths": count}
        for n in WIDE:
            X, y = loaded[0][:n], loaded[1][:n]
            kernels = gaussians(X, count)
            MKLClassifier(kernels, p=1.33).fit(X[::100], y[::100])  # compiles
            began = time.perf_counter()
            clf = MKLClassifier(kernels, p=1.33, C=1.0).fit(X, y)
            row |= {
                f"n = {n}, s": time.perf_counter() - began,
                f"n = {n}, gap": clf.result_.duality_gap,
            }
        rows.append(row)
    table("Points of a9a, p = 1.33, gap 1e-3: seconds against the number of widths", rows)
    return rows


def ablation():
    """Parts of SPG-GMKL on large problems, p = 1.33, C = 1 (sonar: 100), a gap of 1e-3, 45 s at
    most.
    """
    methods = {
        "PGD": choose_solver("pgd"),
        "PGD+N+S": SPG(tune_tolerance=False, proximal=False, cautious=False),
        "SPG": SPG(),
    }
    problems = {}
    for name in SIZES:
        loaded = data(name)
        if loaded is not None:
            problems[name] = KernelCollection(gaussians(loaded[0])), *loaded[:2], 1.0
    loaded = load("sonar")
    if loaded is not None:
        rng = np.random.default_rng(0)
        X, y = MinMaxScaler().fit_transform(loaded[0]), loaded[1]
        masks = rng.random((MASKED, X.shape[1])) < 0.3
        masks[:, 0] |= ~masks.any(axis=1)
        problems[f"sonar, {MASKED} kernels"] = (
            KernelCollection.masked_rbf(rng.uniform(0.1, 10.0, len(masks)), masks),
            X,
            y,
            100.0,
        )
    rows = []
    for name, (kernels, X, y, cost) in problems.items():
        row = {"set": name}
        for method, solver in methods.items():
            clf = MKLClassifier(kernels, p=1.33, C=cost, solver=solver)
            found = fit_within(LIMIT, clf, X, y)
            row |= {f"{method} s": found["seconds"], f"{method} gap": found.get("gap")}
            row[f"{method} solves"] = clf.result_.counters.svm_solves if "gap" in found else None
        rows.append(row)
        print(row, flush=True)
    if rows:
        table(f"Parts of SPG-GMKL on large problems, gap 1e-3, {LIMIT} s at most", rows)
    return rows


def products():
    """Products of kernels on large sets, hinge, C = 1, 500 s at most."""
    return [
        row
        for name in PRODUCTS
        for p, printed in PAPER_PRODUCTS[name].items()
        for row in once(f"{name} {p}", product, name, p, printed)
    ]


def product(name, p, printed):
    """One line of the paper's tables 8 and 10."""
    found = split(name)
    if found is None:
        return []
    X, X_test, y, y_test = found
    regularizer = L1() if p == 1.0 else SquaredPNorm(p)
    options = {"C": 1.0, "random_state": 0, "device": "auto"}
    model = MKLClassifier(combination="product", regularizer=regularizer, **options)
    MKLClassifier(combination="product", regularizer=regularizer, C=1.0).fit(X[:200], y[:200])
    found = fit_within(PRODUCT_LIMIT, model, X, y)
    row = {"set": name, "n": len(y), "features": X.shape[1], "p": p, "seconds": found["seconds"]}
    if "gap" not in found:
        return [row | found]
    result, weights = model.result_, model.result_.weights
    row |= {"objective": result.objective, "ended": result.status.name.lower(), "paper h": printed}
    row |= {
        "solver": "quasi-Newton",
        "SVM solves": result.counters.svm_solves,
        "iterations": result.n_iter,
    }
    row |= {"kept": int(np.count_nonzero(weights > 1e-3 * weights.max(initial=0.0)))}
    row |= {"place": model.plan_.place.what, "error %": 100 - 100 * model.score(X_test, y_test)}
    print(row, flush=True)
    if p == 1.0:
        peers = {
            "boosting": HistGradientBoostingClassifier(random_state=0),
            "one Gaussian": MKLClassifier(gaussians(X)[-1:], **options),
            "50 Gaussians": MKLClassifier(gaussians(X), tol=1e-2, **options),
        }
        for peer, other in peers.items():
            found = fit_within(PRODUCT_LIMIT, other, X, y)
            row[f"{peer} s"] = found["seconds"]
            if not found.get("ended", "").startswith("no model"):
                row[f"{peer} error %"] = 100 - 100 * other.score(X_test, y_test)
        print(row, flush=True)
    return [row]


def split(name):
    """Training and test points of a set in [0, 1], and their labels, one class against the rest;
    None where it is not here.
    """
    parts = read(name)
    if parts is None:
        return None
    parts = [part.toarray() if sparse.issparse(part) else part for part in parts]
    y = np.where(parts[1] == np.unique(parts[1])[-1], 1.0, -1.0)
    if len(parts) == 2:
        X, X_test, y, y_test = train_test_split(
            parts[0], y, test_size=0.1, stratify=y, random_state=0
        )
    else:
        X, X_test = parts[0], parts[2][:TESTED]
        y_test = np.where(parts[3][:TESTED] == np.unique(parts[1])[-1], 1.0, -1.0)
    scaler, some = MinMaxScaler().fit(X), np.random.default_rng(0).permutation(len(y))[:ROWS]
    return scaler.transform(X)[some], scaler.transform(X_test), y[some], y_test


def products_on_gpu():
    """Products of kernels on large sets, hinge, C = 1, on a GPU, 500 s at most."""
    return products()


STEPS = {run.__name__: run for run in (large, points, widths, ablation, products, products_on_gpu)}
SPLIT = {"large": "SETS", "products": "PRODUCTS"}
NEEDS = {"products_on_gpu": ("GPU",)}
GUESSED = {"products": 450, "products_on_gpu": 240}
QUICK = {
    "SETS": ("a9a",),
    "NORMS": (1.33,),
    "ROWS": 3000,
    "SIZES": {"a9a": (1000, 2000, 4000)},
    "WIDTHS": (10, 100),
    "WIDE": (1000,),
    "MASKED": 500,
    "PRODUCTS": ("letter",),
    "LIMIT": 2,
    "PRODUCT_LIMIT": 20,
}
