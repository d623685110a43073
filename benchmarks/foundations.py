"""The ground everything stands on: the SMO machine, families of kernels, memory, start-up.

What was learned while making these fast
----------------------------------------
* Numba vectorizes neither a maximum of floats nor loops over ``range(begin, end)`` (the index may
  wrap around) nor loops that
  write two arrays which they also read. Comparing bit patterns as integers, slicing first and
  splitting such loops took an iteration of SMO from 3.9 to 1.0 µs (n = 500) and ten Gaussians from
  5.1 to 1.4 ns per pair.
* Weights of 1e-40, common when p is near 1, are denormal in float32 and made a pass twelve times
  slower.
* BLAS threads inside our own threads cost more than they bring: `drive` limits BLAS to one.
"""

import functools
import tempfile
import time

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from manykernels._loops import rbf
from manykernels.losses import Hinge
from manykernels.machines import DenseMachine

from .common import best_of, in_new_process, in_turns, table

POINTS, FAMILIES, NORMS, STARTS = (500, 2000, 4000), (455, 2000), (1.0, 1.33, 2.0), 4
WARM = "compiled before"
CACHES = (WARM, "compiling")


def machine():
    """Our SMO against LIBSVM (scikit-learn's SVC) on the same precomputed kernel and tolerance."""
    rows = []
    for n in POINTS:
        X, labels = make_classification(n, 20, n_informative=10, flip_y=0.1, random_state=0)
        y, K = np.where(labels > 0, 1.0, -1.0), rbf_kernel(X, gamma=1 / 40)
        for C in (1.0, 100.0):
            cost = np.full(n, C)
            found = {}

            def ours(K=K, y=y, cost=cost, found=found):
                found["ours"] = DenseMachine().solve(K, Hinge(), y, cost, tol=1e-3)

            def svc(K=K, y=y, C=C, found=found):
                found["svc"] = SVC(C=C, kernel="precomputed", tol=1e-3, cache_size=1000).fit(K, y)

            ours()
            a, b = in_turns([ours, svc])
            beta = np.zeros(n)
            beta[found["svc"].support_] = found["svc"].dual_coef_[0]
            dual = y @ beta - 0.5 * beta @ K @ beta
            difference = (found["ours"].dual - dual) / dual
            rows.append(
                {
                    "n": n,
                    "C": C,
                    "ours s": a,
                    "SVC s": b,
                    "ratio": b / a,
                    "relative difference": difference,
                }
            )
    return rows


def family():
    """Ten Gaussian kernels of one distance: nanoseconds per pair on one core, and how the same
    looks done one by one.
    """
    rng = np.random.default_rng(0)
    rows = []
    for n in FAMILIES:
        x = rng.standard_normal((8, n)).astype(np.float32)
        none = np.empty((0, 0), np.float32)
        pairs, out = rbf.Pairs(x, x, none, np.empty(0, np.float32)), np.zeros((n, n), np.float32)
        for name, places in (
            ("ratio 2", np.arange(10)),
            ("ratio 4, the papers'", 2 * np.arange(10)),
        ):
            weights = np.zeros((8, -(-(places[-1] + 1) // rbf.GROUP) * rbf.GROUP), np.float32)
            weights[:, places] = 0.1
            B = rng.standard_normal((n, n)).astype(np.float32)
            sums = np.zeros(weights.shape)

            def numpy_way(n=n, x=x, places=places):
                D = np.square(x[0][:, None] - x[0])
                return sum(np.float32(0.1) * np.exp2(-np.float32(2.0**j) * D) for j in places)

            combine = best_of(
                lambda pairs=pairs, w=weights, n=n, out=out: rbf.combine(pairs, w, n, out), 9
            )
            forms = best_of(
                lambda pairs=pairs, B=B, n=n, sums=sums: rbf.forms(pairs, B, n, sums), 9
            )
            plain = best_of(numpy_way, 3)
            unit = 1e9 / n**2
            rows.append(
                {
                    "widths": name,
                    "n": n,
                    "combine ns/pair": combine * unit / 8,
                    "quadratic forms ns/pair": forms * unit / 8,
                    "NumPy ns/pair": plain * unit,
                    "ratio": plain * 8 / combine,
                }
            )
    return rows


WDBC = """
import json
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from benchmarks.common import megabytes
from manykernels import MKLClassifier
X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
before = megabytes("VmRSS")
clf = MKLClassifier(C=10.0, p=P).fit(X, y)
print(json.dumps({"kernels": clf.bank_.m, "points": clf.bank_.n,
                  "MB above import": megabytes("VmHWM") - before,
                  "MB of all Gram matrices (float32)": clf.bank_.m * clf.bank_.n**2 * 4 / 2**20,
                  "gap": clf.result_.duality_gap, "seconds": clf.result_.seconds}))
"""


def memory():
    """Peak memory of a fit on 403 kernels of WDBC above what the imports take, each in a process of
    its own.
    """
    rows = []
    for p in NORMS:
        for cache in CACHES:
            environment = {} if cache == WARM else {"NUMBA_CACHE_DIR": tempfile.mkdtemp()}
            rows.append(
                {
                    "p": p,
                    "loops": cache,
                    **in_new_process(WDBC.replace("P)", f"{p})"), **environment),
                }
            )
    return rows


START = """
import json, sys, time
began = time.perf_counter()
import manykernels
package = time.perf_counter() - began
from manykernels import MKLClassifier
estimator = time.perf_counter() - began
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((100, 5)); y = np.sign(X[:, 0] * X[:, 1])
def fit():
    began = time.perf_counter(); MKLClassifier(p=1.33).fit(X, y); return time.perf_counter() - began
first, second = fit(), fit()
print(json.dumps({"import manykernels": package, "import MKLClassifier": estimator,
                  "first fit": first, "second fit": second,
                  "first over second": first - second}))
"""


def startup():
    """Seconds from nothing to a fitted model, with compiled loops in the cache (the best) and with
    none.
    """
    warm = [in_new_process(START) for _ in range(STARTS)][1:]
    best = min(warm, key=lambda run: run["first over second"])
    if CACHES == (WARM,):
        return [{"cache": "warm", **best}]
    began = time.perf_counter()
    cold = in_new_process(START, NUMBA_CACHE_DIR=tempfile.mkdtemp())
    whole = time.perf_counter() - began
    return [{"cache": "warm", **best}, {"cache": "cold", **cold, "whole process": whole}]


def printed(part):
    """A part that prints what it returns under its own words."""

    @functools.wraps(part)
    def run():
        rows = part()
        table(part.__doc__.strip(), [{key: row.get(key, "") for key in rows[-1]} for row in rows])
        return rows

    return run


STEPS = {part.__name__: printed(part) for part in (machine, family, memory, startup)}
QUICK = {"POINTS": (500,), "FAMILIES": (455,), "NORMS": (1.33,), "STARTS": 2, "CACHES": (WARM,)}
