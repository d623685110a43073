"""MKL with up to a million kernels: sonar, Gaussians of random widths on random feature subsets, to
a certified gap of 1e-3.

Jain, Vishwanathan and Varma, SPG-GMKL: generalized multiple kernel learning with a million kernels,
KDD 2012: p = 1.33 took 105.62 hours for 10^6 kernels on one core of 2012. Here every fit has its
own process, and its memory is that of the process.

``ball``: p = 1.33, where every kernel has weight. ``simplex``: p = 1, where few have. ``--full``
adds 10^6 kernels to both.

What was learned: an iteration of Newton's method is two passes over the kernels, and a pass is a
matrix product (the exponents) and as many exponentials, so the time is linear in the number of
kernels. Two or three iterations are enough, the first of them on a sample of the kernels. For p = 1
all kernels are looked at only two or three times.
"""

import json

import numpy as np

from manykernels.kernels import KernelCollection

from .common import exponent, in_new_process, read, table

SIZES, LARGEST = (10**3, 10**4, 10**5), 10**6
PAPER_HOURS = 105.62
FEATURES, SHARE = 60, 0.2  # of sonar; of them in a subset


def kernels(m, seed=0):
    """Gaussians on random feature subsets; widths are relative to the number of features."""
    rng = np.random.default_rng(seed)
    masks = np.concatenate(
        [
            rng.random((len(part), FEATURES)) < SHARE
            for part in np.array_split(np.arange(m), -(-m // 10_000))
        ]
    )
    masks[:, 0] |= ~masks.any(axis=1)
    return KernelCollection.masked_rbf(2.0 ** rng.uniform(-6, 2, m) / masks.sum(axis=1), masks)


FIT = """
import json, time, warnings
import numpy as np
from benchmarks.common import load, megabytes
from benchmarks.million import kernels
from manykernels import MKLClassifier
from manykernels.solvers import Newton
warnings.simplefilter("ignore")
X, y = load("sonar")
options = dict(p={p}, C=100.0, normalize="trace", tol=1e-3)
for streamed in (False, True):  # compiles
    model = MKLClassifier(kernels(600), **options, solver=Newton(streamed, partial=True))
    model.fit(X, y).predict(X[:2])
clf = MKLClassifier(kernels({m}), **options)
began = time.perf_counter()
clf.fit(X, y)
seconds, peak = time.perf_counter() - began, megabytes("VmHWM")
began = time.perf_counter()
clf.predict(X[:50])
predict = time.perf_counter() - began
r = clf.result_
print(json.dumps(dict(kernels={m}, p={p}, seconds=seconds, passes=r.counters.kernel_passes,
                      iterations=r.n_iter,
                      gap=r.duality_gap, objective=r.objective,
                      used=int(np.count_nonzero(clf.kernel_weights_)), mb=peak,
                      predict_50_s=predict, status=r.status.name)))
"""


def grown(p, full):
    """Fits of more and more kernels."""
    if read("sonar") is None:
        return []
    rows = []
    for m in (*SIZES, *([LARGEST] if full else [])):
        rows.append(in_new_process(FIT.format(m=m, p=p)))
        print(json.dumps(rows[-1]), flush=True)
    table(
        f"Sonar, p = {p:g}, C = 100 (paper for p = 1.33 and 10^6 kernels: {PAPER_HOURS} hours)",
        rows,
    )
    large = [row for row in rows if row["kernels"] >= 10**4]
    if len(large) > 1:
        print(f"exponent in the number of kernels, from 10^4 on: {_exponent(large):.2f}")
    return rows


def _exponent(rows):
    return exponent([row["kernels"] for row in rows], [row["seconds"] for row in rows])


def ball(full=False):
    """More and more Gaussians on sonar, hinge, p = 1.33, C = 100, unit trace, a gap of 1e-3."""
    return grown(1.33, full)


def simplex(full=False):
    """More and more Gaussians on sonar, hinge, p = 1, C = 100, unit trace, a gap of 1e-3."""
    return grown(1.0, full)


STEPS = {"ball": ball, "simplex": simplex}
QUICK = {"SIZES": (2000,)}
