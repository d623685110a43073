"""MWUMKL beside its baselines, against the number of points and against the number of kernels
(Moeller et al., 2014).

``kernels``: table 2, sonar with 10^4 and 10^5 Gaussians on random feature subsets, with ``--full``
also 10^6 (paper: 3.65 hours). ROUNDS rounds are timed; the projection is for the paper's 2,402
(epsilon = 0.2, n = 208).

``fly``: table 2, adult and cod_rna with three Gaussians whose columns are computed when needed,
each run in its own process. The paper's rows are 80 % of all; errors are those of the rest. Paper:
13 minutes and 147 seconds. ``--full`` adds the paper's schedule (76,000 and 39,000 rounds).

``points``: figure 5, milliseconds per kernel against n, mushrooms with 1344 kernels.

``growth``: figures 3 and 4, twelve kernels on all columns of cod_rna, a9a and w8a, growing shares
of 80 % for training; a fit is stopped after GROWTH_LIMIT seconds.

``accuracy``: figure 2, eight small sets with twelve kernels per feature (polynomials of degree 1 to
3, nine Gaussians of widths 2^0 ... 2^4, unit trace, features in [0, 1]), SPLITS random 80/20
splits. Margins are 2-norm; C and epsilon are chosen by three folds of the first split's training
part. UNIFORM is the mean of the kernels, LIBLINEAR+ is Nyström features of every kernel side by
side and scikit-learn's LinearSVC. An error is the median over the splits, and its interval holds
the true median in 95 % of cases.

What was learned: a round of a large masked bank is half matrix product (exponents of two columns),
half memory traffic (products of all kernels in float64, read twice and written once). With kernels
of unit trace the paper's schedule leaves the weights close to uniform, so in ``accuracy`` it is
mostly UNIFORM with another margin; our schedule does find the sparse optimum, which on these sets
predicts no better. A round touches two points, so a problem where most points are support vectors
(mushrooms, adult with a small C) needs as many rounds as it has points before its gap is small.
"""

import multiprocessing
import time

import numpy as np
from scipy import sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler
from sklearn.svm import LinearSVC

from manykernels import MKLClassifier
from manykernels.kernels import RBF, Polynomial
from manykernels.solvers import MultiplicativeWeights

from .common import exponent, fit_within, in_new_process, once, read, table

SETS = ("ionosphere", "breast_cancer", "diabetes", "sonar", "heart", "vote", "wdbc", "wpbc")
WIDTHS, DEGREES = 2.0 ** np.arange(0, 4.25, 0.5), (1, 2, 3)
# order statistics, from 0, that hold the median of 30 in 95 % of cases
SPLITS, INTERVAL = (
    30,
    (9, 20),
)
COSTS, EPSILONS = (10.0, 100.0, 1000.0, 1e4), (0.2, 0.3, 0.5)
COMPONENTS, FEATURES = 150, 4000  # of LIBLINEAR+: per kernel, and in all at most
ROWS = (1625, 3250, 4875, 6500)
ROUNDS, FLY_ROUNDS, PAPER_ROUNDS, ADAPTIVE = 200, 20_000, 2402, 1000
KERNELS = (10**4, 10**5)
GROWTH, SHARES = {"cod_rna": 0.07, "a9a": 0.05, "w8a": 0.07}, (0.1, 0.2, 0.4, 0.7, 1.0)
GROWTH_LIMIT, TESTED = 60, 10_000  # seconds of a fit, rows to test on
FLY = {"a9a": 0.05, "cod_rna": 0.07}  # and the epsilon of the paper


def grid(n_features):
    """Twelve kernels per feature."""
    kinds = [lambda f, q=q: Polynomial(q, features=[f]) for q in DEGREES]
    kinds += [lambda f, w=w: RBF(1 / (2 * w * w), features=[f]) for w in WIDTHS]
    return [kind(f) for f in range(n_features) for kind in kinds]


def nystroem(kernels):
    """Nyström features of every kernel side by side."""
    count = max(2, min(COMPONENTS, FEATURES // len(kernels)))
    parts = []
    for k, kernel in enumerate(kernels):
        options = {"kernel": "rbf", "gamma": kernel.gamma}
        if isinstance(kernel, Polynomial):
            options = {
                "kernel": "polynomial",
                "degree": kernel.degree,
                "gamma": 1.0,
                "coef0": kernel.coef0,
            }
        column = FunctionTransformer(np.take, kw_args={"indices": kernel.features, "axis": 1})
        parts.append(
            (str(k), make_pipeline(column, Nystroem(**options, n_components=count, random_state=0)))
        )
    return FeatureUnion(parts)


def contestants(kernels):
    """Estimators and the parameters to choose, by name."""
    mkl = MKLClassifier(kernels, normalize="trace", loss="squared_hinge")
    schedules = {
        "solver": [MultiplicativeWeights("paper", epsilon=e) for e in EPSILONS],
        "C": COSTS,
    }
    return {
        "paper": (mkl, schedules),
        "adaptive": (
            MKLClassifier(**{**mkl.get_params(), "solver": MultiplicativeWeights(rounds=ADAPTIVE)}),
            {"C": COSTS},
        ),
        "uniform": (MKLClassifier(**{**mkl.get_params(), "solver": "uniform"}), {"C": COSTS}),
        "liblinear+": (
            make_pipeline(nystroem(kernels), LinearSVC(max_iter=300)),
            {"linearsvc__C": tuple(C / 100 for C in COSTS)},
        ),
    }


def split(X, y, seed):
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, stratify=y, random_state=seed
    )
    scaler = MinMaxScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def accuracy():
    """Median error in %, its interval, and seconds per fit and test: squared hinge, unit trace, C
    tuned.
    """
    rows = [once(name, errors_of, name) for name in SETS if read(name) is not None]
    if rows:
        table("Median error in %, its interval, and seconds per fit and test", rows)
    return rows


def errors_of(name):
    X, y = read(name)[:2]
    row = {"set": name, "n": len(y), "kernels": 12 * X.shape[1]}
    for who, (estimator, choices) in contestants(grid(X.shape[1])).items():
        X_train, X_test, y_train, y_test = split(X, y, 0)
        search = GridSearchCV(estimator, choices, cv=3, refit=False)
        best = search.fit(X_train, y_train).best_params_
        errors, began = [], time.perf_counter()
        for seed in range(SPLITS):
            X_train, X_test, y_train, y_test = split(X, y, seed)
            fitted = estimator.set_params(**best).fit(X_train, y_train)
            errors.append(100 * (1 - fitted.score(X_test, y_test)))
        low, high = np.sort(errors)[list(INTERVAL)]
        row[who] = f"{np.median(errors):.1f} [{low:.1f}, {high:.1f}]"
        row[f"{who} s"] = (time.perf_counter() - began) / SPLITS
        if who == "paper":
            row["epsilon"] = best["solver"].epsilon
    print(row, flush=True)
    return row


def points():
    """Milliseconds per kernel against the number of points: squared hinge, C = 1, unit trace, 200
    rounds at most.
    """
    data = read("mushrooms")
    if data is None:
        return []
    X, y = data[0].toarray(), data[1]
    order, rows = np.random.default_rng(0).permutation(len(y)), []
    for n in ROWS:
        A, b, kernels = X[order[:n]], y[order[:n]], grid(X.shape[1])
        row = {"n": n, "kernels": len(kernels)}
        for who in ("adaptive", "uniform", "liblinear+"):
            estimator = contestants(kernels)[who][0]
            if who == "adaptive":
                estimator.set_params(solver=MultiplicativeWeights(rounds=ROUNDS))
            began = time.perf_counter()
            estimator.fit(A, b)
            row[f"{who} ms/kernel"] = 1000 * (time.perf_counter() - began) / len(kernels)
            if who == "adaptive":
                row["rounds"], row["gap"] = (
                    estimator.result_.counters.machine_steps,
                    estimator.result_.duality_gap,
                )
        rows.append(row)
    table(f"Milliseconds per kernel against n, mushrooms (MWUMKL: at most {ROUNDS} rounds)", rows)
    for key in [key for key in rows[0] if key.endswith("ms/kernel")]:
        print(f"{key}: exponent in n {exponent(ROWS, [row[key] for row in rows]):.2f}")
    return rows


ON_THE_FLY = """
import json, sys, time, warnings
import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler
from benchmarks.common import megabytes, read
from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.solvers import MultiplicativeWeights
warnings.simplefilter("ignore")
parts = read({name!r})
X, y = parts[0], parts[1]
if {name!r} == "a9a":
    X = sparse.vstack([parts[0], parts[2]], format="csr")  # already in [0, 1]
    y = np.concatenate([parts[1], parts[3]])
else:
    X = MinMaxScaler().fit_transform(X)
del parts
split = (X, X[:0], y, y[:0])
A, A_test, b, b_test = split if {whole} else train_test_split(X, y, test_size=0.2, random_state=0)
kernels = [RBF(1 / (2 * w * w)) for w in {widths!r}]
solver = MultiplicativeWeights({schedule!r}, epsilon={epsilon}, rounds={rounds})
clf = MKLClassifier(kernels, normalize="trace", loss="squared_hinge", C=float(len(b)),
                    solver=solver, tol=0.01)
began = time.perf_counter()
clf.fit(A, b)
seconds, peak = time.perf_counter() - began, megabytes("VmHWM")
error = 100 * (1 - clf.score(A_test, b_test)) if len(b_test) else None
r = clf.result_
print(json.dumps(dict(n=len(b), seconds=seconds, mb=peak, rounds=r.counters.machine_steps,
                      gap=r.duality_gap, error=error,
                      weights=np.round(clf.kernel_weights_, 3).tolist(), status=r.status.name)))
"""


def fly(full=False):
    """Three Gaussians on the fly: squared hinge, p = 1, C = n, unit trace, a gap of 1e-2."""
    rows = []
    for name, epsilon in FLY.items():
        if read(name) is None:
            continue
        runs = [("adaptive", FLY_ROUNDS, False), ("adaptive", FLY_ROUNDS, True)] + [
            ("paper", None, False)
        ] * full
        for schedule, rounds, whole in runs:
            options = {
                "name": name,
                "whole": whole,
                "schedule": schedule,
                "rounds": rounds,
                "epsilon": epsilon,
            }
            code = ON_THE_FLY.format(**options, widths=(0.5, 1.0, 2.0))
            if not rows:  # loops that are compiled by now take 80 MB less
                in_new_process(
                    ON_THE_FLY.format(**{**options, "rounds": 2}, widths=(0.5, 1.0, 2.0))
                )
            rows.append({"set": name, "schedule": schedule, **in_new_process(code)})
            print(rows[-1], flush=True)
    if rows:
        table("Three Gaussians on the fly; error in % on the rows left out", rows)
    return rows


MANY = """
import json, time, warnings
import numpy as np
from sklearn.base import clone
from benchmarks.common import megabytes, read
from manykernels import MKLClassifier
from manykernels.kernels import KernelCollection
from manykernels.solvers import MultiplicativeWeights
warnings.simplefilter("ignore")
X, y = read("sonar")[:2]
rng = np.random.default_rng(0)
masks = np.stack([rng.random(X.shape[1]) < 0.3 for _ in range({m})])
masks[:, 0] |= ~masks.any(axis=1)
bank = KernelCollection.masked_rbf(2.0 ** rng.uniform(-3, 3, {m}), masks)
before = megabytes("VmRSS")
clf = MKLClassifier(bank, normalize="trace", loss="squared_hinge", C=100.0,
                    solver=MultiplicativeWeights(rounds={rounds}))
clone(clf).set_params(solver=MultiplicativeWeights(rounds=3)).fit(X, y)  # compiles
began = time.perf_counter()
clf.fit(X, y)
seconds, steps = time.perf_counter() - began, clf.result_.counters.machine_steps
print(json.dumps(dict(kernels={m}, n=len(y), rounds=steps, seconds=seconds,
                      gap=clf.result_.duality_gap,
                      mb=megabytes("VmHWM") - before, mb_of_products=8 * {m} * len(y) / 2**20)))
"""


def kernels(full=False):
    """Sonar with Gaussians on random columns: squared hinge, p = 1, C = 100, unit trace, 200
    rounds.
    """
    if read("sonar") is None:
        return []
    rows = []
    for m in (*KERNELS, *([10**6] if full else [])):
        row = in_new_process(MANY.format(m=m, rounds=ROUNDS))
        row["hours for 10^6 kernels, paper's rounds"] = (
            row["seconds"] / row["rounds"] * PAPER_ROUNDS * 10**6 / m / 3600
        )
        rows.append(row)
        print(row, flush=True)
    table("Sonar with Gaussians on random feature subsets (paper: 3.65 hours for 10^6)", rows)
    print(
        "exponent in m: "
        f"{exponent([row['kernels'] for row in rows], [row['seconds'] for row in rows]):.2f}"
    )
    return rows


def growth():
    """Seconds and error against the share of the training part (figures 3 and 4): twelve kernels
    on all columns, squared hinge, C = n, a gap of 1e-2, 60 s at most.
    """
    rows = []
    for name, epsilon in GROWTH.items():
        parts = read(name)
        if parts is None:
            continue
        X, y = parts[0], parts[1]
        if name in ("a9a", "w8a"):
            X = sparse.vstack([parts[0], parts[2]], format="csr").toarray()
            y = np.concatenate([parts[1], parts[3]])
        A, A_test, b, b_test = split(X, y, 0)
        order = np.random.default_rng(0).permutation(len(b))
        for share in SHARES:
            some = order[: int(share * len(b))]
            for who, model in growing(A, epsilon, len(some)).items():
                of = model, A[some], b[some], A_test[:TESTED], b_test[:TESTED]
                row = {"set": name, "share": share, "n": len(some), "who": who}
                rows.append(row | once(f"{name} {share} {who}", grown, *of))
                print(rows[-1], flush=True)
    return rows


def grown(model, X, y, X_test, y_test):
    """Seconds and error of a fit that may be stopped, perhaps without a model."""
    if isinstance(model, Pipeline):
        model, found = fit_or_kill(GROWTH_LIMIT, model, X, y)
    else:
        found = fit_within(GROWTH_LIMIT, model, X, y)
    if not found.get("ended", "").startswith("no model"):
        found["error %"] = 100 * (1 - model.score(X_test, y_test))
    return found


def fit_or_kill(seconds, model, X, y):
    """A fitted model, and what `fit_within` says, of a model that does not hear Ctrl-C: it is
    fitted in a process of its own.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(model.fit(X, y)))
    began = time.perf_counter()
    child.start()
    theirs.close()  # so that a fit that fails is heard
    fitted = ours.recv() if ours.poll(seconds) else None
    found = {"seconds": time.perf_counter() - began}
    child.kill()
    child.join()
    return fitted, found if fitted else found | {"ended": f"no model after {seconds} s"}


def growing(X, epsilon, n):
    """MWUMKL, UNIFORM and LIBLINEAR+ with twelve kernels on all columns."""
    kernels = [Polynomial(q) for q in DEGREES] + [RBF(1 / (2 * w * w)) for w in WIDTHS]
    options = {"normalize": "trace", "loss": "squared_hinge", "C": float(n)}
    solver = MultiplicativeWeights(rounds=FLY_ROUNDS, epsilon=epsilon)
    every = [Polynomial(q, features=range(X.shape[1])) for q in DEGREES]
    every += [RBF(1 / (2 * w * w), features=range(X.shape[1])) for w in WIDTHS]
    return {
        "MWUMKL": MKLClassifier(kernels, solver=solver, tol=0.01, **options),
        "UNIFORM": MKLClassifier(kernels, solver="uniform", tol=0.01, **options),
        "LIBLINEAR+": make_pipeline(nystroem(every), LinearSVC(max_iter=300)),
    }


STEPS = {run.__name__: run for run in (kernels, fly, points, accuracy, growth)}
SPLIT = {"fly": "FLY", "accuracy": "SETS", "growth": "GROWTH"}
GUESSED = {"growth": 500}
QUICK = {
    "SETS": ("heart",),
    "SPLITS": 4,
    "INTERVAL": (0, 3),
    "COSTS": (100.0,),
    "EPSILONS": (0.3,),
    "ADAPTIVE": 200,
    "COMPONENTS": 10,
    "FEATURES": 500,
    "KERNELS": (500, 1000),
    "ROUNDS": 50,
    "ROWS": (200, 400),
    "FLY": {"cod_rna": 0.07},
    "FLY_ROUNDS": 100,
    "GROWTH": {"cod_rna": 0.07},
    "SHARES": (0.01, 0.02),
    "TESTED": 500,
}
