"""Low-rank MKL: accuracy and time against the rank, against the paper's own solvers, and against
the number of points.

Rakotomamonjy and Chanda, lp-norm multiple kernel learning with low-rank kernels, Neurocomputing
2014.

``inner``: sections 5.3 and 5.4, one SVM at uniform weights with 10 kernels of rank 500: GFB with
split constraints, with merged ones, the interior-point method, to the paper's stopping rule. "loss
of value" is the dual value relative to the optimum.

``fast``: 20,000 random points of cod_rna and magic (19,020), 5 kernels of rank 100, p = 2: GFB for
GFB_SECONDS, then our solver until its objective is as low.

``exact``: magic, EXACT_ROWS points, three Gaussians at full rank, C = 10: objective, decision
values and labels on other points beside those of the exact solver, to a gap of TIGHT. There are
more columns than points: what is shown is agreement, not speed.

``ranks``: section 5.2, 50 Gaussians of widths 10^0 ... 10^2, C = 1000, 70 % of the data for
training: seconds (with the factors) and accuracy against the rank, and the exact solver; a fit that
takes longer than its rank is given is interrupted, and its accuracy is that of the model so far.
``--full`` adds rank 500.

``kernels``: figure 5, seconds against the number of kernels, rank 100 and p = 2, beside exact
SMO-MKL and Newton's method; a fit is stopped after KERNELS_SECONDS.

``covertype``: five Gaussians of rank 500, squared hinge, C = 10, p = 1.33, 20,000 held-out points;
each run in its own process.

``corners``, ``smooth``: the same on all points for the hinge at the default tolerance and for the
squared hinge, p = 2 and 1: passes over the factors and Gram matrices of all points that the fit
took, seconds of each, what the same operations and bytes take at this machine's own speed of matrix
products in float32 and of reading ("limit"), and the gap computed anew from the model and the data.
A fit takes 7 GB.

What was learned: with closed-form weights around it, one Newton iteration of the primal takes as
long as the Gram matrix of the factors at the points that bend. The squared hinge needs 5 to 20
iterations whatever n; most points keep their side, so that the matrix is changed by the others, for
half of the time. The hinge at C = 1000 needs steps in place of new solutions of the linear systems,
and sums in float64: coefficients of a thousand nearly cancel in the decision values.

The hinge, where there are few points for the columns, needs an interior-point method: 8 to 20
iterations, each with a Gram matrix of all points in float64. Corners that are rounded off less and
less take 30 to 40 Newton steps, since narrow ones bend at fewer points than there are columns.
Around a center they stay wide (a fifth of the margin, where one point in ten bends), and 12 to 20
steps of all points are enough at C = 1 and 10, for p = 1 and 2, and 35 to 50 at C = 100 and 1000: a
seventh of a Gram matrix at first, and as much again for all changes of it. Sharper or better solved
samples make worse starts, since they fit themselves; line searches must be exact (halvings took
half as many steps more), and a last center must not move before its coefficients agree with the
fit. With 60,000 points and 500 columns this takes a fifth of the interior-point method's time;
below 20 points per column it is slower.

Fifty Gaussians share most of their directions: a third of the columns hold all factors but for 1e-5
of their length, of every point (a sample is not enough: only the landmarks have the directions of
the narrow kernels). The first steps need half of them.

On 2 cores rank 100 takes 3 to 54 s to a gap of 1e-2 on six of the seven sets, exact kernels 1 to 55
s up to 34,189 points. At this cost the rank regularizes: rank 100 predicts better than the exact
kernels on magic (86.9 and 82.6 %), poker (60.1 and 55.6 %), a9a (84.8 and 83.4 %) and cod_rna; rank
500 adds nothing to it, and takes minutes, of which the space is a third.
"""

import time
from collections import Counter

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels._threads import Threads, one_thread, thread_count
from manykernels.banks import ResolvedKernels
from manykernels.banks.lowrank.factors import FactorBank
from manykernels.banks.lowrank.systems import System
from manykernels.kernels import RBF, KernelCollection
from manykernels.kernels.vector import dense
from manykernels.lowrank import Nystroem
from manykernels.lowrank.maps import FeatureMap
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import GFB, SPG, Interior, solve

from .common import best_of, fit_within, in_new_process, once, read, table, until

SETS = ("svmguide1", "mushrooms", "magic", "poker", "cod_rna", "a9a", "ijcnn1")
WIDTHS = 10.0 ** np.linspace(0, 2, 50)
# with the seconds of a fit at most
COST, RANKS, LONG_RANKS = (
    1000.0,
    {10: 60, 50: 60, 100: 60, "exact": 60},
    {500: 100},
)
INNER_ROWS, INNER_RANK, INNER_KERNELS = (500, 1000), 500, 10
GFB_SECONDS = 120.0
EXACT_ROWS, TIGHT = 1000, 1e-5
COVERTYPE, COVERTYPE_RANK = (50_000, 100_000, 200_000, 561_012), 500
CORNERS_ROWS, CORNERS_COST, CORNERS_NORMS = 561_012, 10.0, (2.0, 1.0)
FAST, FAST_ROWS = ("magic", "cod_rna"), 20_000
ROWS = None  # of a set at most
FEW, COUNTS, KERNELS_RANK, KERNELS_SECONDS = ("svmguide1", "magic"), (5, 10, 20, 50), 100, 60


def data(name):
    """All rows of a set, dense and standardized, and its labels."""
    parts = read(name)
    if parts is None:
        return None
    X = (
        np.concatenate([dense(A) for A in parts[::2]])
        if name in ("svmguide1", "a9a", "ijcnn1")
        else dense(parts[0])
    )
    y = np.concatenate(parts[1::2]) if name in ("svmguide1", "a9a", "ijcnn1") else parts[1]
    return StandardScaler().fit_transform(X), y


def some(X, y):
    """Random rows, as many as there may be."""
    rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
    return X[rows], y[rows]


def factors(X, kernels, rank):
    return Nystroem(rank).fit(ResolvedKernels.from_data(KernelCollection(kernels), X), X)


def inner():
    """One SVM on ten low-rank kernels of equal weight, C = 1000, to the paper's stopping rule."""
    loaded = data("magic")
    if loaded is None:
        return []
    rows = []
    for n in INNER_ROWS:
        X, y = loaded[0][:: len(loaded[1]) // n][:n], loaded[1][:: len(loaded[1]) // n][:n]
        bank = factors(
            X,
            [RBF(1 / (2 * w * w)) for w in 10.0 ** np.linspace(0, 2, INNER_KERNELS)],
            min(INNER_RANK, n),
        )
        best = solve(Problem(bank, y, np.full(n, COST), PNormBall(np.inf)), SPG(), tol=1e-5)
        row = {"n": n, "columns": bank.width}
        for name in ("split", "merged", "interior"):
            # weights of one, as good as 1/m
            run = RunState(Problem(bank, y, np.full(n, COST), PNormBall(np.inf)))
            began = time.perf_counter()
            state = GFB(name).init(run)
            row[f"{name} s"], row[f"{name} steps"] = (
                time.perf_counter() - began,
                run.counters.machine_steps,
            )
            row[f"{name} loss of value"] = (
                1 - state.iterate.certificate.dual / best.certificate.dual
            )
        rows.append(row)
    table(
        "One SVM on low-rank kernels, to the paper's stopping rule (rank 500 at most, 10 kernels)",
        rows,
    )
    return rows


def fast():
    """Our solver against GFB, which gets 120 s: five kernels of rank 100, hinge, p = 2, C = 10."""
    rows = []
    for name in FAST:
        loaded = data(name)
        if loaded is None:
            continue
        # cod_rna is sorted by class
        some = np.random.default_rng(0).permutation(len(loaded[1]))[:FAST_ROWS]
        X, y = loaded[0][some], loaded[1][some]
        bank = factors(X, [RBF(g / X.shape[1]) for g in (0.1, 0.5, 1.0, 4.0, 16.0)], 100)
        gfb = solve(
            Problem(bank, y, np.full(len(y), 10.0), PNormBall(2)), GFB(), watch=until(GFB_SECONDS)
        )
        began, reached = time.perf_counter(), []

        def watch(record, began=began, reached=reached, aim=gfb.objective):
            if record.objective <= aim:
                reached.append(time.perf_counter() - began)

        ours = solve(Problem(bank, y, np.full(len(y), 10.0), PNormBall(2)), Interior(), watch=watch)
        row = {
            "set": name,
            "n": len(y),
            "columns": bank.width,
            "GFB s": gfb.counters.seconds,
            "GFB objective": gfb.objective,
        }
        row |= {"GFB gap": gfb.duality_gap, "ours s to that": min(reached, default=np.nan)}
        row |= {
            "ours s": ours.counters.seconds,
            "ours objective": ours.objective,
            "ours gap": ours.duality_gap,
        }
        row["times faster"] = row["GFB s"] / row["ours s to that"]
        rows.append(row)
    if rows:
        table(f"Our solver against GFB, which got {GFB_SECONDS:.0f} s", rows)
    return rows


def exact():
    """Full rank against the exact solver: C = 10, a gap of 1e-5."""
    loaded = data("magic")
    if loaded is None:
        return []
    order = np.random.default_rng(0).permutation(len(loaded[1]))
    X, y, X_new = (
        loaded[0][order[:EXACT_ROWS]],
        loaded[1][order[:EXACT_ROWS]],
        loaded[0][order[EXACT_ROWS:][:2000]],
    )
    kernels, rows = [RBF(g / X.shape[1]) for g in (0.1, 1.0, 10.0)], []
    for loss in ("hinge", "squared_hinge"):
        for p in (2.0, 1.33, 1.0):
            options = {"p": p, "C": 10.0, "loss": loss, "tol": TIGHT}
            true = MKLClassifier(kernels, **options).fit(X, y)
            solvers = {
                "fast": {"hinge": "interior", "squared_hinge": "primal"}[loss],
                "newton": "newton",
            }
            if p == 2.0 and loss == "hinge":
                solvers["GFB, interior"] = GFB("interior", inner_tol=1e-7)
            for name, solver in solvers.items():
                approximation = Nystroem(EXACT_ROWS, cutoff=1e-10)
                low = MKLClassifier(
                    kernels, approximation=approximation, solver=solver, **options
                ).fit(X, y)
                row = {
                    "loss": loss,
                    "p": p,
                    "solver": name,
                    "columns": low.bank_.width,
                    "gap": low.result_.duality_gap,
                }
                row["objective, relative"] = low.result_.objective / true.result_.objective - 1
                f, true_f = low.decision_function(X_new), true.decision_function(X_new)
                row |= {
                    "decision values, rms": np.sqrt(np.mean((f - true_f) ** 2)),
                    "largest": np.abs(f - true_f).max(),
                }
                row |= {
                    "other labels": int(np.sum((f > 0) != (true_f > 0))),
                    "seconds": low.result_.counters.seconds,
                }
                rows.append(row)
                print(row, flush=True)
    table("Full rank against the exact solver, magic", rows)
    return rows


def ranks(full=False):
    """Seconds and accuracy against the rank: fifty Gaussians, hinge, C = 1000, a gap of 1e-2, 60 s
    at most (rank 500: 100 s).
    """
    kernels, rows = [RBF(1 / (2 * w * w)) for w in WIDTHS], []
    splits = {
        name: train_test_split(*some(*loaded), test_size=0.3, random_state=0)
        for name in SETS
        if (loaded := data(name))
    }
    for rank, seconds in (RANKS | (LONG_RANKS if full else {})).items():
        for name, (X_train, X_test, y_train, y_test) in splits.items():
            for p in (2.0, 1.1):
                row = {"set": name, "n": len(y_train), "p": p, "rank": rank}
                of = kernels, p, rank, seconds, X_train, X_test, y_train, y_test
                rows.append(row | once(f"{name} {p:g} {rank}", ranked, *of))
                print(rows[-1], flush=True)
    if rows:
        table(
            "Fifty Gaussians, C = 1000, 70 % for training",
            sorted(rows, key=lambda row: (SETS.index(row["set"]), -row["p"])),
        )
    return rows


def ranked(kernels, p, rank, seconds, X_train, X_test, y_train, y_test):
    """Seconds and accuracy of a fit that may be stopped, perhaps before its factors were made."""
    approximation = None if rank == "exact" else Nystroem(rank)
    clf = MKLClassifier(
        kernels, p=p, C=COST, approximation=approximation, cache_size=12_000, tol=1e-2
    )
    found = fit_within(seconds, clf, X_train, y_train)
    if "gap" in found:
        found["accuracy"] = 100 * clf.score(X_test, y_test)
        found["iterations"] = clf.n_iter_
        found["columns"] = clf.bank_.width if approximation else ""
    return found


RUN = """
import json, time, warnings
import numpy as np
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC
from benchmarks.common import megabytes, read
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.lowrank import Nystroem
warnings.simplefilter("ignore")
X, y = read("covtype")[:2]
order = np.random.default_rng(0).permutation(len(y))
test, train = order[:20_000], order[20_000 : 20_000 + {n}]
X = MinMaxScaler().fit_transform(X)
X_test, y_test, X, y = X[test], y[test], X[train], y[train]
kernels = [RBF(g) for g in (0.5, 1.0, 2.0, 4.0, 8.0)]
clf = MKLClassifier(kernels, p=1.33, C=10.0, loss="squared_hinge", approximation=Nystroem({rank}),
                    cache_size=6500)
began = time.perf_counter()
clf.fit(X, y)
seconds, peak = time.perf_counter() - began, megabytes("VmHWM")
linear = LinearSVC(C=1.0, dual=False).fit(X, y)
print(json.dumps(dict(n=len(y), seconds=seconds, mb=peak, iterations=clf.n_iter_,
                      gap=clf.result_.duality_gap,
                      accuracy=100 * clf.score(X_test, y_test),
                      linear=100 * linear.score(X_test, y_test))))
"""


def covertype():
    """Covertype, five kernels of rank 500, squared hinge, p = 1.33, C = 10."""
    if read("covtype") is None:
        return []
    rows = []
    for n in COVERTYPE:
        rows.append(in_new_process(RUN.format(n=n, rank=COVERTYPE_RANK)))
        print(rows[-1], flush=True)
    table("Covertype, five kernels of rank 500 (linear: LinearSVC on the raw features)", rows)
    return rows


def kernels():
    """Seconds against the number of kernels (figure 5): low rank beside exact SMO-MKL, hinge, p =
    2, C = 1000, a gap of 1e-2, 60 s at most.
    """
    rows = []
    for name in FEW:
        loaded = data(name)
        if loaded is None:
            continue
        X, y = some(*loaded)
        for count in COUNTS:
            bank = [RBF(1 / (2 * w * w)) for w in 10.0 ** np.linspace(0, 2, count)]
            models = {
                f"rank {KERNELS_RANK}": MKLClassifier(
                    bank, p=2.0, C=COST, approximation=Nystroem(KERNELS_RANK), tol=1e-2
                ),
                "SMO-MKL, exact": MKLClassifier(bank, p=2.0, C=COST, solver="smo", tol=1e-2),
                "Newton, exact": MKLClassifier(bank, p=2.0, C=COST, solver="newton", tol=1e-2),
            }
            for who, model in models.items():
                row = {"set": name, "n": len(y), "kernels": count, "who": who}
                label = f"{name} {count} {who}"
                rows.append(row | once(label, fit_within, KERNELS_SECONDS, model, X, y))
                print(rows[-1], flush=True)
    return rows


CORNERS = """
import json, time, warnings
import numpy as np
from sklearn.preprocessing import MinMaxScaler
from benchmarks.common import megabytes, read
from benchmarks.lowrank import Work, gap_anew
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.lowrank import Nystroem
warnings.simplefilter("ignore")
X, y = read("covtype")[:2]
order = np.random.default_rng(0).permutation(len(y))
test, train = order[:20_000], order[20_000 : 20_000 + {n}]
X = MinMaxScaler().fit_transform(X)
X_test, y_test, X, y = X[test], y[test], X[train], y[train]
kernels = [RBF(g) for g in (0.5, 1.0, 2.0, 4.0, 8.0)]
clf = MKLClassifier(kernels, p={p}, C={cost}, loss={loss!r}, approximation=Nystroem({rank}),
                    cache_size=6500)
with Work() as work:
    began = time.perf_counter()
    clf.fit(X, y)
    seconds, peak = time.perf_counter() - began, megabytes("VmHWM")
print(json.dumps(dict(loss={loss!r}, p={p}, n=len(y), seconds=seconds, mb=peak) | work.row(len(y)) |
    dict(gap=clf.result_.duality_gap, anew=gap_anew(clf, X, y), iterations=clf.n_iter_,
         kernels=int((clf.result_.weights > 1e-9).sum()),
         accuracy=100 * clf.score(X_test, y_test))))
"""


# operations of one call, or bytes that it reads
AMOUNTS = {
    (FeatureMap, "transform"): lambda of, X: 2.0 * len(X) * np.sum(np.diff(of.offsets) ** 2),
    (FactorBank, "gram"): lambda of, scale: np.count_nonzero(scale) * of.width**2,
    (System, "rooted"): lambda of, root: len(of.H) ** 3 / 3,
    (FactorBank, "values"): lambda of, short: of.n * of.width * of.dtype.itemsize,
    (FactorBank, "correlate"): lambda of, beta: (
        np.count_nonzero(np.any(beta, axis=0)) * of.width * of.dtype.itemsize
    ),
}


class Work:
    """A context that measures the work on factors: seconds, and operations or bytes."""

    def __enter__(self):
        self.seconds, self.amounts, self.widest, self.before = Counter(), Counter(), 0, []
        for (kind, name), amount in AMOUNTS.items():
            self.before.append((kind, name, getattr(kind, name)))
            setattr(kind, name, self._measured(name, getattr(kind, name), amount))
        return self

    def __exit__(self, *_):
        for kind, name, function in self.before:
            setattr(kind, name, function)

    def _measured(self, name, function, amount):
        def measured(of, first, *rest, **options):
            began = time.perf_counter()
            out = function(of, first, *rest, **options)
            self.seconds[name] += time.perf_counter() - began
            self.amounts[name] += float(amount(of, first))
            self.widest = max(self.widest, getattr(of, "width", 0))
            return out

        return measured

    def row(self, n):
        """The work for the table; passes and Gram matrices in units of those of all n points."""
        read = self.amounts["values"] + self.amounts["correlate"]
        operations = sum(self.amounts[name] for name in ("transform", "gram", "rooted"))
        operations_per_second, bytes_per_second = speeds()
        return {
            "passes": read / (4 * n * self.widest),
            "Gram matrices": self.amounts["gram"] / (n * self.widest**2),
            "factors s": self.seconds["transform"],
            "passes s": self.seconds["values"] + self.seconds["correlate"],
            "Gram s": self.seconds["gram"],
            "systems s": self.seconds["rooted"],
            "limit s": operations / operations_per_second + read / bytes_per_second,
        }


def speeds():
    """Operations of a product of matrices in float32, and bytes that are read, in a second."""
    A = np.ones((4096, 4096), np.float32)
    threads = Threads(thread_count())
    with threads.algebra():
        product = best_of(lambda: A @ A, 3)
    long = np.ones(2**28, np.float32)
    parts = np.array_split(long, threads.count)
    reading = best_of(lambda: threads.map(np.sum, parts), 3)
    return 2.0 * len(A) ** 3 / product, long.nbytes / reading


def gap_anew(model, X, y):
    """The relative duality gap of a fitted model of two classes with the hinge or its square, from
    factors that are made anew, block by block.
    """
    beta, b = np.zeros(len(y)), model.intercept_[0]
    beta[model.support_] = model.dual_coef_[0]
    rows, columns = 8192, np.repeat(model.kernel_weights_, np.diff(model.bank_.offsets))
    blocks = [slice(start, start + rows) for start in range(0, len(y), rows)]
    threads, factors = Threads(thread_count()), lambda part: model.bank_.transform(X[part])
    with one_thread():
        moments = sum(threads.map(lambda part: beta[part] @ factors(part), blocks))
        scores = threads.map(lambda part: factors(part) @ (columns * moments), blocks)
    scores = np.concatenate(scores)
    y = np.where(y == model.classes_[1], 1.0, -1.0)
    forms = np.add.reduceat(moments**2, model.bank_.offsets[:-1])
    slack = np.maximum(0.0, 1.0 - y * (scores + b))
    if model.loss == "hinge":
        loss, ridge = model.C * slack.sum(), 0.0
    else:
        loss, ridge = model.C * (slack**2).sum(), 0.25 * (beta**2).sum() / model.C
    primal = 0.5 * beta @ scores + loss
    return float(1.0 - (y @ beta - ridge - PNormBall(model.p).conjugate(forms)) / primal)


def corners():
    """All of Covertype, five kernels of rank 500: the hinge, C = 10, at the default tolerance."""
    return all_points([("hinge", p) for p in CORNERS_NORMS])


def smooth():
    """All of Covertype, five kernels of rank 500: the squared hinge, C = 10."""
    return all_points([("squared_hinge", p) for p in CORNERS_NORMS])


def all_points(models):
    """Fits of losses and norms on all of Covertype, and where their time went."""
    if read("covtype") is None:
        return []
    rows = []
    for loss, p in models:
        options = {"n": CORNERS_ROWS, "rank": COVERTYPE_RANK, "cost": CORNERS_COST}
        rows.append(in_new_process(CORNERS.format(loss=loss, p=p, **options)))
        print(rows[-1], flush=True)
    table(f"Covertype, five kernels of rank {COVERTYPE_RANK}, gap 1e-3", rows)
    return rows


STEPS = {
    run.__name__: run for run in (inner, fast, exact, ranks, kernels, covertype, corners, smooth)
}
SPLIT = {"ranks": "SETS", "kernels": "FEW", "covertype": "COVERTYPE"}
GUESSED = {"ranks": 350, "kernels": 400, "corners": 350, "smooth": 250}
QUICK = {
    "SETS": ("svmguide1",),
    "ROWS": 2000,
    "WIDTHS": 10.0 ** np.linspace(0, 2, 10),
    "RANKS": {10: 20, 50: 20, "exact": 20},
    "INNER_ROWS": (200,),
    "INNER_RANK": 50,
    "FAST": ("magic",),
    "FAST_ROWS": 1000,
    "GFB_SECONDS": 2.0,
    "EXACT_ROWS": 60,
    "FEW": ("svmguide1",),
    "COUNTS": (5, 10),
    "KERNELS_RANK": 20,
    "KERNELS_SECONDS": 3,
    "COVERTYPE": (3000,),
    "COVERTYPE_RANK": 50,
    "CORNERS_ROWS": 10_000,
    "CORNERS_NORMS": (1.0,),
}
