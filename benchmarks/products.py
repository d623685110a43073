"""Products of kernels: quasi-Newton descent beside SPG-GMKL and its parts one by one (Jain et al.,
KDD 2012, tables 5, 7 and 9), letter at two sizes, and selection of features.

``K = exp(-sum_f d_f (x_f - z_f)^2)`` with one weight per feature, the l1 penalty for p = 1 and half
the squared p-norm else, C = 10, standardized features, four fifths of each set.

``runs``: PGD is projected gradient descent with Armijo's rule and precise SVMs; N adds the averaged
line search, S the spectral step length, all as in the paper; SPG is ours, with both, rough SVMs far
from the end and what its docstring names; QN is projected quasi-Newton descent, the default, from
the same start. A run is stopped after LIMIT seconds, so the SVM solves of the slow ones are lower
bounds. The column "paper" has the seconds printed there for PGD and SPG-GMKL, on the machines of
the day; a dash means that it did not converge. "to 1 %" are the SVM solves until the objective is
within 1 % of the best of all methods. ``beside`` compares QN with SPG, objectives first.

``letter``: one start and the default fit (three starts) of letter, the first 2,000 rows, l1; and
all 20,000 rows (``--part letter_whole``). ``selection``: `MKLFeatureSelector` beside the l1
logistic regression, the importances of a forest and a kernel per column with p = 1 (the group lasso
of multiple kernel learning): columns found of those that matter, accuracy of one SVC on the chosen
columns, and how alike the choices of two halves of the rows are (Jaccard). The table like madelon
has 5 columns that matter together (the signs of their product), 15 sums of those and 480 of noise.
``kept``: columns that it keeps by default, there and of 50 of which 2 matter.
``covertype``: random features of the product on half a million points of Covertype, beside sums of
Gaussians of low rank with as many columns and one Gaussian of random features, all with C = 10; a
tenth of the columns on a few thousand points where there is no GPU.
The paper's large sets (tables 8 and 10) are ``python -m benchmarks large --part products``, which
takes a GPU where there is one.

What was learned
----------------
* Rough SVMs must not decide: an SVM solved to 0.1 can have a small gradient by chance, and an
  objective that is 10 to 15 % too large. SPG ends on SVMs solved to 1e-3. The dual value, though,
  is often a hundred times more precise than the gap says.
* Steps that multiply the weights turn K into the identity, a plateau where every gradient vanishes.
  Bounding what a step adds to their sum keeps clear of it: with ten times the sum letter stalled.
* Newton's method with the Hessian of W (free support vectors, and a product per pair of columns)
  needs half the SVMs of quasi-Newton on sets of tens of columns, but its steps cost two to ten
  times as much there, and from the same start it ends in worse minima: australian 5 to 7 % above,
  letter 431 to 434 for 426.2, also if it begins within some percent of the end. It does not pay.
* A model with the regularizer as it is takes ten evaluations of L-BFGS-B, a millisecond or two,
  more than an SVM of 200 points; of up to 100 weights three steps of Newton's method take half of
  that; compiled, a run on sonar or wpbc takes a sixth less. By proximal maps of p-norms, whose
  roots are found numerically, it took longer than the SVMs.
* Slopes of one output are products of the kernel, which the SVM had, with the coefficients and
  with these times the points: a third of the time of computing the kernel of the support vectors
  anew (2,000 points), of SPG, too.
* The last fifth of the SVMs went into gradients that were small beside their own error: SVMs at the
  end must be solved to a fiftieth of the tolerance, and "small" is relative to weights and
  objective. The 0.04 of the paper is too strict for 10,000 points and means nothing for 7129
  weights, where every entry of the first gradient is below it, and PGD stops where it began.
* The weights that 2,000 points choose leave objectives of 8,000 and of 20,000 points 40 % too
  large, and save few of the steps there; but they choose the basin, so that starts are tried on the
  sample alone: a third of the time. A first step from there must be short.
* The multiple of the identity that BFGS begins with decides the number of SVMs: |y|^2 / y's takes
  30 for letter, y's / |s|^2 22 and 208 for the table like madelon, where every step is too long;
  |y| / |s| between the two takes 24 and 160. More pairs than weights tell of places long left:
  cod_rna, 8 columns, takes 63 SVMs with 25 pairs and 29 with 8.
* In the roots of the weights, scales of columns, the same descent takes 0.29 of SPG's SVMs in the
  median of the small sets, and 0.37 in the weights themselves; but of the 7129 genes of leukemia it
  left out too many too soon, and its objective was 2.82 for 2.74. So up to 100 weights have roots.
* Random features have no slopes at weights of zero: by the weights descent was stuck 3 to 5 % above
  what it reaches by the roots (4,000 points of Covertype, 300 columns). Their SVMs are solved by
  Newton's method, whose dual values are no better than their gaps: those must be ten times smaller.
* The first eight steps of a start tell which is best: half of the SVMs on the sample are saved.
* The dual value may be off by a sixth of the gap (w7a, where points repeat): a gap of half of what
  the last step gained is safe.
* A larger l1 penalty does not leave out columns of noise: it leaves more points on the wrong side,
  which such columns set apart. In a ring in 2 of 50 columns, C = 1, 12 of noise have more than a
  thousandth of the objective at a strength of 0.6, 22 at 6. They are far below the heaviest, and
  as heavy as permuted copies of columns, which tell what is chance (`kept`).
* The problem is not convex, and the methods may end in different minima: compare objectives before
  times. Where the SVM has several solutions, W has a kink and no gradient becomes small; the run
  then ends when W no longer falls.
* Where SPG needs 15 SVMs (liver, diabetes), no method of gradients needs a third of them.
* float32 kernels halve the time of kernels and of SMO, and leave an error of some 5e-6 in W, which
  line searches must forgive.
"""

import time
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier, MKLFeatureSelector
from manykernels.banks import CombinationBank
from manykernels.combinations import Product
from manykernels.kernels import RBF
from manykernels.lowrank import Nystroem, RandomFourier
from manykernels.problem import Problem
from manykernels.regularizers import L1, SquaredPNorm
from manykernels.solvers import SPG, QuasiNewton, solve

from . import gpu_lowrank
from .common import DATA, file_of, in_new_process, load, megabytes, once, table, until
from .papers import SPG_TABLES_5_9

SETS = ("australian", "liver", "sonar", "breast_cancer", "diabetes", "wpbc", "leukemia")
NORMS = (1.0, 1.1, 1.33, 2.0)
C, LIMIT = 10.0, 40.0
PARTS = {
    "PGD": (False, False),
    "PGD+N": (False, True),
    "PGD+S": (True, False),
    "PGD+N+S": (True, True),
}
METHODS = (*PARTS, "SPG", "QN")
LETTER, WHOLE_LETTER = 2000, 20_000  # rows
POINTS, COLUMNS, WARM_UP, FIT_SECONDS = 500_000, (1000, 2000), 3000, 120  # of Covertype
RING = 200, 50  # rows and columns, of which two matter
MADELON = 2000, 5, 15, 480  # rows; columns that matter, that are sums of those, of noise
PAPER = SPG_TABLES_5_9  # seconds of PGD and of SPG-GMKL; None where it did not converge


def solver(name):
    if name == "QN":
        return QuasiNewton()
    if name == "SPG":
        return SPG()
    spectral, nonmonotone = PARTS[name]
    return SPG(spectral, nonmonotone, False, proximal=False, cautious=False)


def fit(X, y, name, p):
    """One run, stopped as by Ctrl-C when the time is up."""
    began = time.perf_counter()
    problem = Problem(
        CombinationBank(Product().fit(X), dtype=np.float32 if name == "QN" else np.float64),
        y,
        np.full(len(y), C),
        L1() if p == 1.0 else SquaredPNorm(p),
    )
    result = solve(problem, solver(name), watch=until(LIMIT))
    return result, time.perf_counter() - began


def one_set(name):
    data = load(name)
    if data is None:
        return []
    X, y = data
    if name != "leukemia":
        X, _, y, _ = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
    return [row for p in NORMS for row in once(f"{name} {p}", one_norm, name, X, y, p)]


def one_norm(name, X, y, p):
    runs = {method: fit(X, y, method, p) for method in METHODS}
    best, rows = min(result.objective for result, _ in runs.values()), []
    for method, (result, seconds) in runs.items():
        pgd, spg = PAPER[name].get(p, (None, None))
        near = (record.svm_solves for record in result.history if record.objective <= 1.01 * best)
        rows.append(
            {
                "set": name,
                "p": p,
                "method": method,
                "seconds": seconds,
                "SVM solves": result.counters.svm_solves,
                "to 1 %": next(near, "-"),
                "end": result.status.name,
                "objective": float(result.objective),
                "features": int(np.count_nonzero(result.weights > 1e-3 * result.weights.max())),
                "paper s": {"PGD": pgd, "SPG": spg}.get(method, ""),
            }
        )
    return rows


LEUKEMIA = """
import json
from benchmarks.products import leukemia_fit
print(json.dumps(leukemia_fit()))
"""


def leukemia_fit():
    """The l1 product on 7129 genes of 38 patients, judged on the 34 others."""
    with np.load(DATA / "leukemia.npz") as archive:
        train, labels, test, truth = (
            archive[name].astype(float) for name in ("X", "y", "X_test", "y_test")
        )
    scaler = StandardScaler().fit(train)
    before = megabytes("VmRSS")
    began = time.perf_counter()
    selector = MKLFeatureSelector(C=C, starts=3, random_state=0).fit(
        scaler.transform(train), labels
    )
    seconds = time.perf_counter() - began
    right = int(np.sum(selector.estimator_.predict(scaler.transform(test)) == truth))
    return {
        "seconds": seconds,
        "genes kept": int(selector.get_support().sum()),
        "right of 34": right,
        "objective": selector.estimator_.result_.objective,
        "other starts": str(
            [round(other.objective, 3) for other in selector.estimator_.other_results_]
        ),
        "MB in all": megabytes("VmHWM"),
        "MB above before": megabytes("VmHWM") - before,
    }


def runs():
    """The parts of SPG-GMKL one by one: products, hinge, C = 10, 40 s at most."""
    rows = []
    for name in SETS:
        rows += (found := one_set(name))
        if found:
            table(name, found)
    printed = [row for row in rows if row["p"] in PAPER[row["set"]]]
    results = {
        "runs": rows,
        "totals": totals(rows),
        "totals of the paper's problems": totals(printed),
        "beside": beside(rows),
    }
    if rows:
        table("SVM solves in all", results["totals"])
        table(
            "SVM solves on the problems of the paper's tables",
            results["totals of the paper's problems"],
        )
        table("Quasi-Newton descent beside SPG, medians", results["beside"])
    return results


def beside(rows):
    """Objective, SVM solves and seconds of quasi-Newton descent in those of SPG."""
    at = {(row["set"], row["p"], row["method"]): row for row in rows}
    pairs = [(at[name, p, "SPG"], at[name, p, "QN"]) for name, p, method in at if method == "QN"]
    if not pairs:
        return []
    higher = [new["objective"] / old["objective"] - 1.0 for old, new in pairs]
    found = {"lines": len(pairs), "above by 0.1 %": sum(one > 1e-3 for one in higher)}
    found["largest excess %"] = 100 * max(higher)
    for what in ("SVM solves", "seconds"):
        found[what] = float(np.median([new[what] / old[what] for old, new in pairs]))
    return [found]


def letter_fit(X, y, starts):
    """A product on some rows of letter, B against the rest."""
    model = MKLClassifier(combination=Product(starts=starts), regularizer=L1(), C=C, random_state=0)
    began = time.perf_counter()
    model.fit(X, y)
    result = model.result_
    return {
        "n": len(y),
        "starts": starts,
        "seconds": time.perf_counter() - began,
        "objective": result.objective,
        "SVM solves": result.counters.svm_solves,
        "end": result.status.name,
        "columns": int(np.count_nonzero(result.weights)),
        "other starts": str([round(other.objective, 2) for other in model.other_results_]),
    }


def letter():
    """The first 2,000 rows of letter, products, l1, C = 10: one start, and the default fit."""
    found = letter_rows(LETTER)
    if found is None:
        return []
    letter_fit(found[0][:200], found[1][:200], 1)  # compiles
    rows = [letter_fit(*found, starts) for starts in (1, 3)]
    table("letter", rows)
    return rows


def letter_whole():
    """All rows of letter, products, l1, C = 10, by the default fit."""
    found = letter_rows(WHOLE_LETTER)
    if found is None:
        return []
    rows = [letter_fit(*found, 3)]
    table("letter, all rows", rows)
    return rows


def letter_rows(count):
    parts = load("letter")
    if parts is None:
        return None
    X, y = parts
    return X[:count], np.where(y[:count] == np.unique(y)[1], 1.0, -1.0)


def like_madelon(seed=0):
    """Rows, labels, and the columns that matter or are made of those."""
    n, relevant, redundant, noise = MADELON
    rng = np.random.default_rng(seed)
    core = rng.standard_normal((n, relevant))
    mixed = core @ rng.standard_normal((relevant, redundant)) / np.sqrt(relevant)
    X = np.hstack([core, mixed, rng.standard_normal((n, noise))])
    signal = core[:, 0] * core[:, 1] + core[:, 2] * core[:, 3] + core[:, 4] ** 2 - 1.0
    y = np.where(signal + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    order = rng.permutation(X.shape[1])
    return (
        X[:, order],
        y,
        np.flatnonzero(order < relevant),
        np.flatnonzero(order < core.shape[1] + redundant),
    )


def selectors():
    """Ways to weigh columns: functions of rows and labels."""
    return {
        "product": lambda X, y: MKLFeatureSelector(C=C, random_state=0).fit(X, y).weights_,
        "l1 logistic": lambda X, y: np.abs(
            LogisticRegression(C=0.1, l1_ratio=1.0, solver="liblinear").fit(X, y).coef_[0]
        ),
        "forest": lambda X, y: (
            RandomForestClassifier(300, random_state=0, n_jobs=-1).fit(X, y).feature_importances_
        ),
        "group lasso": lambda X, y: (
            MKLClassifier([RBF(0.5, features=f) for f in range(X.shape[1])], p=1.0, C=C, tol=1e-2)
            .fit(X, y)
            .kernel_weights_
        ),
    }


def selection():
    """Columns that are chosen by products (l1, C = 10), beside other ways to choose."""
    X, y, relevant, useful = like_madelon()
    tables = {"like madelon": (X, y, relevant, useful)}
    for name in ("sonar", "leukemia"):
        found = load(name)
        if found is not None:
            tables[name] = (*found, None, None)
    rows = []
    for name, of in tables.items():
        for how in selectors():
            rows += once(f"{name} {how}", lambda *some: [selected(*some)], name, how, *of)
            print(rows[-1], flush=True)
    table("Columns that are chosen", rows)
    return rows


def kept():
    """Columns that `MKLFeatureSelector` keeps by default, by its strength and cost."""
    rng = np.random.default_rng(0)
    ring = rng.standard_normal((RING[0], RING[1]))
    inside = np.where(np.square(ring[:, :2]).sum(axis=1) < 1.4, 1.0, -1.0)
    tables = {"a ring": (ring, inside, [0, 1], [0, 1]), "like madelon": like_madelon()}
    rows = []
    for name, (X, y, relevant, useful) in tables.items():
        for cost in (1.0, C):
            for strength in (1.0, 30.0):
                began = time.perf_counter()
                selector = MKLFeatureSelector(C=cost, strength=strength, random_state=0).fit(X, y)
                row = {"set": name, "columns": X.shape[1], "C": cost, "strength": strength}
                row["seconds"] = time.perf_counter() - began
                chosen = selector.get_support(indices=True)
                row["relevant"] = f"{np.isin(relevant, chosen).sum()} of {len(relevant)}"
                row["noise"] = int((~np.isin(chosen, useful)).sum())
                row["weights"] = int(np.count_nonzero(selector.weights_))
                top = selector.weights_ > 0.1 * selector.weights_.max()
                row["noise by threshold=0.1"] = int((~np.isin(np.flatnonzero(top), useful)).sum())
                rows.append(row)
                print(row, flush=True)
    table("Columns that are kept by default", rows)
    return rows


def selected(name, how, X, y, relevant, useful):
    weigh = selectors()[how]
    kept = 20 if relevant is None else len(relevant)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, stratify=y, random_state=0)
    began = time.perf_counter()
    weights = weigh(X[train], y[train])
    seconds = time.perf_counter() - began
    chosen = heaviest(weights, kept)
    machine = SVC(C=C).fit(X[np.ix_(train, chosen)], y[train])
    halves = train_test_split(train, test_size=0.5, stratify=y[train], random_state=0)
    sets = [set(heaviest(weigh(X[half], y[half]), kept)) for half in halves]
    row = {"set": name, "by": how, "seconds": seconds, "weights": int(np.count_nonzero(weights))}
    known = relevant is not None
    row["relevant of 5"] = int(np.isin(relevant, chosen).sum()) if known else ""
    row["noise of 5"] = int((~np.isin(chosen, useful)).sum()) if known else ""
    row["accuracy"] = 100 * float(machine.score(X[np.ix_(test, chosen)], y[test]))
    row["halves alike"] = len(sets[0] & sets[1]) / max(len(sets[0] | sets[1]), 1)
    return row


def heaviest(weights, count):
    """The heaviest columns, so many at most."""
    order = np.argsort(-weights, kind="stable")[:count]
    return order[weights[order] > 0.0]


def leukemia():
    """Genes of leukemia that are selected."""
    if file_of("leukemia") is None:
        return []
    rows = [in_new_process(LEUKEMIA)]
    table("leukemia: genes selected by MKLFeatureSelector", rows)
    return rows


def totals(rows):
    """SVM solves and seconds of every method, and their ratio to those of PGD."""
    sums = {
        m: [
            sum(row[what] for row in rows if row["method"] == m)
            for what in ("SVM solves", "seconds")
        ]
        for m in METHODS
    }
    ends = {
        m: sum(row["end"] in ("STATIONARY", "FLAT") for row in rows if row["method"] == m)
        for m in sums
    }
    count = len(rows) // len(sums) if rows else 0
    return [
        {
            "method": m,
            "SVM solves": solves,
            "over PGD's": solves / max(sums["PGD"][0], 1),
            "seconds": s,
            "ended": f"{ends[m]} of {count}",
        }
        for m, (solves, s) in sums.items()
    ]


def covertype():
    """Random features of a product on half a million points of Covertype, C = 10, a gap of 1e-2,
    beside sums of low rank, each ended as by Ctrl-C after two minutes.
    """
    if gpu_lowrank.covertype() is None:
        return []
    rows = [
        once(f"{name}, {columns} columns", on_covertype, name, columns)
        for columns in (COLUMNS if gpu_lowrank.has_gpu() else (COLUMNS[0] // 10,))
        for name in low_rank(columns)
    ]
    table("Covertype: products and sums of low rank", rows)
    return rows


def on_covertype(name, columns):
    """A row of `covertype`."""
    X, y, *test = gpu_lowrank.covertype()
    X, y, options = X[:POINTS], y[:POINTS], low_rank(columns)[name]
    model = MKLClassifier(C=C, tol=1e-2, device="auto", random_state=0, **options)
    device = "cuda" if gpu_lowrank.has_gpu() else "cpu"  # where "auto" takes all points
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clone(model).set_params(max_iter=2, device=device).fit(X[:WARM_UP], y[:WARM_UP])
    found, _ = gpu_lowrank.fitted(model, X, y, *test, limit=FIT_SECONDS)
    row = {"by": name, "columns": columns, **found}
    row |= {"SVM solves": model.result_.counters.svm_solves, "device": model.plan_.place.what}
    left_out = ("rank", "p", "gap", "solver s")
    return {what: value for what, value in row.items() if what not in left_out}


def low_rank(columns):
    """Parameters of models on features with so many columns."""
    sums = {"kernels": [RBF(gamma) for gamma in gpu_lowrank.GAMMAS], "p": 1.33}
    each = Nystroem(columns // len(gpu_lowrank.GAMMAS))
    product = {"combination": "product", "regularizer": L1()}
    features = {"approximation": RandomFourier(columns)}
    return {
        "product": product | features | {"loss": "squared_hinge"},
        "product, hinge": product | features,
        "sum": sums | {"approximation": each, "loss": "squared_hinge"},
        "one Gaussian": {"kernels": [RBF(4.0)], "loss": "squared_hinge"} | features,
    }


STEPS = {
    part.__name__: part
    for part in (runs, letter, letter_whole, selection, kept, leukemia, covertype)
}
SPLIT = {"runs": "SETS"}
NEEDS = {"covertype": ("GPU", "covtype.npz")}
GUESSED = {"letter": 60, "letter_whole": 900, "selection": 300, "kept": 120, "covertype": 200}
QUICK = {
    "SETS": ("liver", "wpbc"),
    "NORMS": (1.0, 2.0),
    "LIMIT": 1.0,
    "LETTER": 500,
    "WHOLE_LETTER": 1000,
    "MADELON": (300, 5, 5, 20),
}
