"""One GPU: a million kernels on sonar, Covertype exactly, a9a with fifty kernels, and the small
sets beside the CPU.

Figures to compare with: Jain, Vishwanathan and Varma (KDD 2012) took 105.62 hours for 10^6 kernels
on sonar and 64.46 hours for Covertype on one core of 2012. Everything is timed from the data in
NumPy arrays to the fitted model, after a small fit of the same kind that compiles and warms up. The
floors are how long the pairs of points that were visited would take at the ceilings that
``ceilings`` measures: exponentials and products of matrices over their rates, bytes over the
bandwidth.

``ceilings``, ``sonar``, ``covertype``, ``protocols``, ``a9a``, ``middle``, ``norms``, ``auto``,
``regret`` (`benchmarks.gpu_regret`: ``device="auto"`` on 60 problems), ``small``, ``pieces``
(`benchmarks.gpu_pieces`: SMO of a working set, rows, sums); low rank is `benchmarks.gpu_lowrank`,
grids are `benchmarks.gpu_grids`. ``--out`` keeps a JSON.
"""

import itertools
import time

import numpy as np
from sklearn.preprocessing import MinMaxScaler

from manykernels import MKLClassifier
from manykernels.kernels import RBF, paper_bank
from manykernels.kernels.vector import dense

from . import gpu_regret
from .common import load, read, table
from .gpu_pieces import pieces, shortest
from .gpu_regret import Drawn, beside
from .million import PAPER_HOURS, kernels

COVERTYPE_HOURS = 64.46
REPEATS = 3  # of short fits: the shortest counts, since others share the host
SMALL = ("wpbc", "sonar", "liver", "ionosphere", "breast_cancer", "australian", "diabetes")
# first and last gamma, p, tolerance
COVERTYPE = (
    (0.5, 8.0, 1.33, 1e-2),
    *((*gammas, p, 1e-3) for gammas in ((2.0, 128.0), (0.5, 8.0)) for p in (2.0, 1.0, 1.33)),
)
WAYS = ("exact", "lowrank", "grid")  # of the problems of the regret
CEILINGS = {}


def measured_ceilings():
    """Bytes per second of a copy, products and exponentials per second, measured once."""
    import torch

    from manykernels.banks.torch.device import Device
    from manykernels.banks.torch.exponentials import combine

    if CEILINGS:
        return CEILINGS
    x, y, some = (
        torch.rand(2**28, device="cuda"),
        torch.empty(2**28, device="cuda"),
        torch.rand(256, device="cuda"),
    )
    squares = {
        name: torch.rand((8192, 8192), device="cuda", dtype=getattr(torch, name))
        for name in ("float32", "float64")
    }
    CEILINGS["device"] = torch.cuda.get_device_name()
    CEILINGS["GB per s"] = 2 * 4 * x.numel() / shortest(lambda: y.copy_(x)) / 1e9
    for name, a in squares.items():
        CEILINGS[f"{name} TFLOP per s"] = 2 * 8192**3 / shortest(lambda a=a: torch.mm(a, a)) / 1e12
    part = 2**24
    seconds = shortest(lambda: combine(Device("cuda"), x[:part], some, some, y[:part]))
    CEILINGS["T exponentials per s"] = 256 * part / seconds / 1e12
    return CEILINGS


def floor(clf, exponentials, flops, precision):
    """Seconds that the pairs of points which were visited would take at the ceilings."""
    ceiling, pairs = measured_ceilings(), clf.bank_.device.pairs
    return {
        "exponentials s": pairs * exponentials / ceiling["T exponentials per s"] / 1e12,
        "products s": pairs * flops / ceiling[f"{precision} TFLOP per s"] / 1e12,
        "bytes s": pairs
        * 8.0
        * (precision == "float64")
        / ceiling["GB per s"]
        / 1e9,  # a row is written and read once
    }


def ceilings():
    """What the device does in a second: copies, products, exponentials."""
    rows = [measured_ceilings()]
    table("The device", rows)
    return rows


def fitted(X, y, repeats=1, **options):
    """A fitted model, and the seconds of the shortest of some fits."""
    import torch

    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        clf = MKLClassifier(**options)
        began = time.perf_counter()
        clf.fit(X, y)
        times.append(time.perf_counter() - began)
    if repeats > 1:
        print(
            f"seconds of {repeats} fits: {', '.join(f'{seconds:.2f}' for seconds in times)}",
            flush=True,
        )
    return clf, min(times)


def outcome(clf, seconds):
    r = clf.result_
    row = {
        "seconds": seconds,
        "gap": r.duality_gap,
        "objective": r.objective,
        "iterations": r.n_iter,
    }
    return row | {
        "passes": r.counters.kernel_passes,
        "SVMs": r.counters.svm_solves,
        "ended": r.status.name.lower(),
    }


def sonar():
    """Gaussians on random columns of sonar, hinge, C = 100, unit trace, a gap of 1e-3."""
    X, y = load("sonar")
    rows = []
    for p in (1.33, 1.0):
        options = {"p": p, "C": 100.0, "normalize": "trace", "tol": 1e-3, "device": "cuda"}
        fitted(X, y, kernels=kernels(50_000), **options)
        for m in (10**5, 10**6):
            clf, seconds = fitted(X, y, REPEATS, kernels=kernels(m), **options)
            row = {"p": p, "kernels": m} | outcome(clf, seconds)
            row |= floor(clf, 1, 2 * X.shape[1], "float32")
            row["paper h"] = PAPER_HOURS if m == 10**6 and p == 1.33 else float("nan")
            rows.append(row)
            print(row, flush=True)
    table("Sonar, Gaussians on random feature subsets", rows)
    return rows


def covertype():
    """Covertype, all points, wide and narrow Gaussians, hinge, C = 10, to a gap of 1e-3; and to
    1e-2 as in the paper.
    """
    parts = read("covtype")
    if parts is None:
        return []
    X, y = MinMaxScaler().fit_transform(dense(parts[0])), parts[1]
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:20_000], order[20_000:]
    rows = []
    for first, last, p, tol in COVERTYPE:
        kernels = [RBF(gamma) for gamma in np.geomspace(first, last, 5)]
        options = {"kernels": kernels, "p": p, "C": 10.0, "tol": tol, "device": "cuda"}
        if not rows:  # compiles and warms up
            fitted(X[train[:20_000]], y[train[:20_000]], **options)
        clf, seconds = fitted(X[train], y[train], **options)
        floors = floor(clf, 5, 2 * X.shape[1], "float64")
        began = time.perf_counter()
        accuracy = 100 * clf.score(X[test], y[test])
        row = {"gamma": f"{first:g} to {last:g}", "p": p, "tol": tol} | outcome(clf, seconds)
        row |= {"support": clf.support_.size, "accuracy": accuracy}
        row |= {
            "predict s": time.perf_counter() - began,
            "steps": clf.result_.counters.machine_steps,
        }
        row |= floors
        row["paper h"] = COVERTYPE_HOURS if tol == 1e-2 else float("nan")
        rows.append(row)
        print(row, flush=True)
    table(f"Covertype, {len(train):,} points, five Gaussians, exact", rows)
    return rows


def a9a():
    """Fifty exact Gaussians on a9a, hinge, C = 1."""
    parts = read("a9a")
    if parts is None:
        return []
    X, y, X_test, y_test = dense(parts[0]), parts[1], dense(parts[2]), parts[3]
    rows = []
    for p in (1.33, 2.0):
        gammas = 10.0 ** np.linspace(-3, 1, 50)
        options = {"kernels": [RBF(g) for g in gammas], "p": p, "C": 1.0, "device": "cuda"}
        fitted(X[:11_000], y[:11_000], **options)
        clf, seconds = fitted(X, y, REPEATS, **options)
        floors = floor(clf, 50, 2 * X.shape[1], "float64")
        rows.append(
            {"p": p, "n": len(y)}
            | outcome(clf, seconds)
            | floors
            | {"accuracy": 100 * clf.score(X_test, y_test)}
        )
        print(rows[-1], flush=True)
    table("a9a, fifty Gaussians", rows)
    return rows


def protocols():
    """One Gaussian on Covertype as others publish it: gamma = C = 1 on nine tenths of the rows
    (cuML's), and gamma = C = 32 (DC-SVM's, 96.15 % in Hsieh, Si and Dhillon, ICML 2014), features
    scaled to [0, 1].
    """
    parts = read("covtype")
    if parts is None:
        return []
    X, y = MinMaxScaler().fit_transform(dense(parts[0])), parts[1]
    order = np.random.default_rng(0).permutation(len(y))
    rows = []
    for name, gamma, C, n in (("cuML", 1.0, 1.0, 522_911), ("DC-SVM", 32.0, 32.0, 464_810)):
        train, test = order[:n], order[n:]
        options = {"kernels": [RBF(gamma)], "C": C, "tol": 1e-2, "device": "cuda"}
        fitted(X[train[:20_000]], y[train[:20_000]], **options)
        clf, seconds = fitted(X[train], y[train], **options)
        accuracy = 100 * clf.score(X[test], y[test])
        row = {"protocol": name, "gamma": gamma, "C": C, "n": n} | outcome(clf, seconds)
        rows.append(row | {"support": clf.support_.size, "accuracy": accuracy})
        print(rows[-1], flush=True)
    table("Covertype, one Gaussian, exact", rows)
    return rows


def middle():
    """Middle sizes on the GPU and on all cores of its host, the papers' bank, C = 100."""
    rows = []
    for name, p in (("coil2", 1.33), ("coil2", 1.0)):
        loaded = load(name)
        if loaded is None:
            continue
        row = {"set": name, "p": p, "n": len(loaded[1])}
        for device in ("cpu", "cuda"):
            options = {"kernels": paper_bank(loaded[0]), "p": p, "C": 100.0}
            options |= {"normalize": "trace", "device": device}
            clf, row[f"{device} s"] = fitted(*loaded, REPEATS, **options)
            row[f"{device} objective"] = clf.result_.objective
        row |= {"kernels": clf.kernel_weights_.size, "ratio": row["cpu s"] / row["cuda s"]}
        rows.append(row)
        print(row, flush=True)
    table("Middle sizes, the paper's kernels", rows)
    return rows


def norms():
    """`MKLClassifier(device="cuda")`, p = 1 (the default) beside p = 2, the shortest of some fits
    after one that warms up.
    """
    rows = []
    for name, most in (("covtype", 2500), ("magic", 10_000), ("cod_rna", 30_000)):
        loaded = load(name)
        if loaded is None:
            continue
        chosen = np.random.default_rng(7).permutation(len(loaded[1]))[:most]
        X, y = (part[chosen] for part in loaded)
        row = {"set": name, "rows": len(y), "columns": X.shape[1]}
        for p in (1.0, 2.0):
            clf, row[f"p = {p:g}, s"] = fitted(X, y, REPEATS + 1, p=p, device="cuda")
            row[f"gap, p = {p:g}"] = clf.result_.duality_gap
        row["ratio"] = row["p = 1, s"] / row["p = 2, s"]
        rows.append(row)
    table("One fit at the defaults on the GPU", rows)
    return rows


def regret():
    """``device="auto"`` beside the better of CPU and GPU, on problems of some ways."""
    return gpu_regret.regret(WAYS)


def auto():
    """Where the GPU pays: kernels of three kinds on both, and what ``device="auto"`` takes once
    PyTorch was imported; the rule is `manykernels.banks.torch.place.pays`.
    """
    rows = []
    for kind in ("distance", "features", "subsets"):
        for n, m in itertools.product((300, 1000, 2000, 4000, 8000), (5, 20, 100)):
            if m * n**2 <= (2**29 if kind == "features" else 2**28):
                rows.append(beside(Drawn("exact", n, 20, m, kind, "hinge", 1.33)))
    table("Where a GPU pays", rows)
    return rows


def small():
    """Small sets, the papers' bank, p = 1.33, C = 100, on the GPU and on the host."""
    rows = []
    for name in SMALL:
        loaded = load(name)
        if loaded is None:
            continue
        row = {"set": name}
        for device in ("cpu", "cuda"):
            row[f"{device} s"] = fitted(
                *loaded, REPEATS, p=1.33, C=100.0, normalize="trace", device=device
            )[1]
        row["ratio"] = row["cuda s"] / row["cpu s"]
        rows.append(row)
    table("Small sets, the paper's kernels", rows)
    return rows


STEPS = {
    "ceilings": ceilings,
    "sonar": sonar,
    "covertype": covertype,
    "protocols": protocols,
    "a9a": a9a,
    "middle": middle,
    "norms": norms,
    "auto": auto,
    "regret": regret,
    "pieces": pieces,
    "small": small,
}
SPLIT = {"regret": "WAYS"}
NEEDS = {"": ("GPU",)}
GUESSED = {
    "ceilings": 20,
    "sonar": 90,
    "covertype": 330,
    "protocols": 120,
    "a9a": 60,
    "middle": 60,
    "norms": 40,
    "auto": 240,
    "regret": 60,
    "pieces": 60,
    "small": 60,
}
QUICK = {"REPEATS": 1}
