"""What the defaults cost: one fit, one search, several classes, beside scikit-learn's SVC.

``rows``: `MKLClassifier()` on parts of real tables, from 500 to 30,000 rows, p = 1 (the default)
and p = 2, beside `SVC()` on standardized columns; medians of three, taken in turns (of LARGE rows
one fit). ``grids``:
``MKLClassifierCV(kernels)`` with 8 C, 4 p and 5 folds beside a grid search of as many SVCs, and
beside one of as many `MKLClassifier`. ``races``: accuracy of such grids on other rows, where cells
are dropped early and where none is.
``searches``: `MKLClassifierCV()` as it is beside SVC with 40 candidates. ``classes``: ten classes
of digits, and 5 and 20 of clusters. ``texts``: 105 classes of 2,000 sparse texts beside LinearSVC.
``losses``: the logistic and the squared losses beside the hinge, three Gaussians on all columns as
exact kernels; with systems of equations factorized, too, where that does not take long.

Everything is at the defaults but for what a column names.

What was learned
----------------
* A Gaussian of one column has a factor of some 15 columns (`banks.divided`): of 63 kernels on 57
  columns, 5 are left that have matrices. Before, making and reading those of all took nine tenths
  of a fit with 2,500 rows.
* Rows of the Hessian are added up when SMO asks for them: a program visits a fifth of them.
* p = 1: systems of more than 500 free coefficients almost never confirmed an active set, and took
  half of the time.
* Weights of 1e-48 are denormal numbers in float32, with which a product of matrices takes forty
  times as long.
* Several classes, p = 1: for given weights the programs of all outputs have one kernel, and are
  solved beside each other from where they were; Newton's method on the weights needs two or three
  rounds of them. Sweeps over outputs that are coupled by the curvature needed a hundred.
* A Hessian of 500 free coefficients of an output, where there are a thousand, does as well when it
  is scaled by the curvature that a step has met; all of them took six tenths of the time.
* Texts whose rows have length one lose four points of accuracy to columns of unit variance
  (``scale=None`` keeps them).
* Smooth losses: a dozen products with the kernel, in its own precision, take the place of a
  factorization (`machines.iterative`). A step that is solved to a part of the residual leaves
  decision values whose response is no good point of the dual, since the kernel amplifies the rest;
  the coefficients of the step themselves are one. 400 columns for the preconditioner: 200 need half
  as many products more, and 1,600 cost more than they save, at C = 1 and at C = 100.
* A sample of the points first (500 or 1,000 of 2,500) pays little for p = 2, and not for p = 1.
"""

import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor
from manykernels.kernels import RBF, KernelCollection
from manykernels.kernels.grids import auto_bank
from manykernels.thresholds import lowered, thresholds

from .common import DATA, once, read, table

ROWS = {
    500: ("ijcnn1", "covtype", "usps"),
    1000: ("letter", "a9a", "usps"),
    2500: ("magic", "covtype", "letter"),
    10_000: ("magic", "cod_rna", "letter"),
    30_000: ("cod_rna", "ijcnn1", "a9a"),
}
SMALL = ("sonar", "ionosphere", "liver", "breast_cancer", "australian", "diabetes", "wpbc")
GRIDS = {  # rows at most
    "sonar": None,
    "ionosphere": None,
    "liver": None,
    "breast_cancer": None,
    "australian": None,
    "diabetes": None,
    "wpbc": None,
    "covtype": 490,
    "usps": 420,
}
SEARCHES = {"covtype": 1000, "letter": 1000, "magic": 3000}
DIGITS, TEXTS = 1300, 2000
LOSSES = (
    *[(count, "magic", 1.0) for count in (500, 1000, 3000, 12_000)],
    (12_000, "cod_rna", 1.0),
    (3000, "magic", 100.0),
)
LOSS_NORMS, FACTORIZED_ROWS = (1.0, 2.0, float("inf")), 3000
COSTS, NORMS = np.logspace(-1, 2.5, 8), (1.0, 1.33, 2.0, float("inf"))
REPEATS, LARGE = 3, 30_000  # fits; rows from which there is one fit


def rows():
    """One fit at the defaults, seconds: medians of three, of one for 30,000 rows."""
    found = []
    for count, names in ROWS.items():
        for name in names:
            data = _part(name, count)
            if data is None:
                continue
            X, y = data
            models = [_svc(), MKLClassifier(), MKLClassifier(p=2.0)]
            repeats = 1 if count >= LARGE else None
            theirs, ours, other = once(f"{name} {count}", _medians, models, X, y, repeats)
            found.append(
                {
                    "set": name,
                    "rows": len(y),
                    "columns": X.shape[1],
                    "SVC": theirs,
                    "p = 1": ours,
                    "p = 2": other,
                    "p = 1 / SVC": ours / theirs,
                    "p = 2 / SVC": other / theirs,
                    "p = 1 / p = 2": ours / other,
                }
            )
            table("One fit at the defaults", found[-1:])
    table("One fit at the defaults, seconds", found)
    return found


def grids():
    """Seconds of a grid of 8 C, 4 p and 5 folds, beside one of as many SVCs, medians of three."""
    found = []
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name, most in GRIDS.items():
        data = _part(name, most)
        if data is None:
            continue
        X, y = data
        other = {"svc__C": np.logspace(-1, 2.5, 8), "svc__gamma": np.logspace(-3, 0, 4)}
        ours = MKLClassifierCV(_kernels(X), Cs=COSTS, ps=NORMS, cv=folds, scale="standard")
        models = [GridSearchCV(_svc(), other, cv=folds), ours]
        theirs, mine = _medians(models, X, y)
        one = MKLClassifier(_kernels(X), scale="standard")
        each = GridSearchCV(one, {"C": COSTS, "p": NORMS}, cv=folds)
        (apart,) = _medians([each], X, y, 1)
        found.append(
            {
                "set": name,
                "rows": len(y),
                "kernels": len(_kernels(X)),
                "SVC": theirs,
                "ours": mine,
                "ratio": mine / theirs,
                "one by one / ours": apart / mine,
            }
        )
        table("8 C x 4 p x 5 folds", found[-1:])
    table("8 C x 4 p x 5 folds, seconds", found)
    return found


def races():
    """Accuracy on rows that the search has not seen: races beside exhaustive grids."""
    found = []
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for name in SMALL:
        data = _part(name, None)
        if data is None:
            continue
        X, y = data
        raced = MKLClassifierCV(_kernels(X), Cs=COSTS, ps=NORMS, cv=folds, scale="standard")
        whole = clone(raced).set_params(exhaustive=True)
        right = {True: 0, False: 0}
        for train, test in folds.split(X, y):
            for model in (raced, whole):
                model.fit(X[train], y[train])
                right[model is whole] += int(np.sum(model.predict(X[test]) == y[test]))
        row = {"set": name, "rows": len(y), "race": right[False] / len(y)}
        found.append(row | {"exhaustive": right[True] / len(y)})
        table("Races beside exhaustive grids", found[-1:])
    table("Races beside exhaustive grids, nested accuracy", found)
    return found


def searches():
    """Seconds of the tuned model as it is, beside a grid of 40 SVCs, one run."""
    found = []
    other = {"svc__C": np.logspace(-1, 2.5, 8), "svc__gamma": [0.001, 0.01, 0.1, 1.0, "scale"]}
    for name, most in SEARCHES.items():
        data = _part(name, most)
        if data is None:
            continue
        X, y = data
        theirs, mine = _medians([GridSearchCV(_svc(), other), MKLClassifierCV()], X, y, 1)
        row = {"set": name, "rows": len(y), "columns": X.shape[1], "SVC": theirs, "ours": mine}
        found.append(row | {"ratio": mine / theirs})
        table("Tuned at the defaults", found[-1:])
    table("Tuned at the defaults, seconds", found)
    return found


def classes():
    """Several classes."""
    found = []
    for name, (X, y) in _several().items():
        chosen = np.random.default_rng(0).permutation(len(y))
        train, test = chosen[:DIGITS], chosen[DIGITS:]
        models = {
            "SVC": _svc(),
            "MKL": MKLClassifier(),
            "MKL, p = 2": MKLClassifier(p=2.0),
            "MKL, one against one": MKLClassifier(multiclass="ovo"),
        }
        found += _beside(name, models, X[train], y[train], X[test], y[test])
    table("Several classes", found)
    return found


def _several():
    """Tables with several classes."""
    sizes = {"5 classes": (20, 8, 5), "20 classes": (30, 15, 20)}
    made = {
        name: make_classification(
            2 * DIGITS,
            columns,
            n_informative=informative,
            n_classes=count,
            n_clusters_per_class=1,
            random_state=0,
        )
        for name, (columns, informative, count) in sizes.items()
    }
    return {"digits": load_digits(return_X_y=True), **made}


def texts():
    """Many classes of sparse texts."""
    data = read("sector")
    if data is None:
        return []
    X, _, X_test, _ = data
    with np.load(DATA / "sector.npz") as archive:
        y, y_test = archive["y_multi"], archive["y_test_multi"]
    chosen = np.random.default_rng(0).permutation(len(y))[:TEXTS]
    models = {
        "LinearSVC": LinearSVC(),
        "MKL": MKLClassifier(),
        "MKL, p = 2": MKLClassifier(p=2.0),
        "MKL, scale=None": MKLClassifier(scale=None),
    }
    found = _beside("sector", models, X[chosen], y[chosen], X_test, y_test, 1)
    table("Many classes", found)
    return found


def _beside(name, models, X, y, X_test, y_test, repeats=None):
    """Seconds, accuracy and gap of models, the first of which is the measure."""
    seconds = _medians(list(models.values()), X, y, repeats)
    found = []
    for (kind, model), one in zip(models.items(), seconds, strict=True):
        result = getattr(model, "result_", None)
        row = {"set": name, "classes": len(np.unique(y)), "model": kind, "seconds": one}
        row |= {"ratio": one / seconds[0], "accuracy": model.score(X_test, y_test)}
        found.append(row | {"gap": None if result is None else result.certificate.gap})
    return found


def losses():
    """Seconds of smooth losses with exact kernels, as multiples of the hinge: few points with
    systems factorized, and by conjugate gradients.
    """
    found = []
    for count, name, C in LOSSES:
        data = _part(name, count)
        if data is None:
            continue
        X, y = data
        y = np.unique(y, return_inverse=True)[1]  # numbers, for regression
        for p in LOSS_NORMS:
            models = _with_losses(X, C, p)
            row = {"set": name, "rows": len(y), "C": C, "p": p}
            for way, points in _ways(len(y)).items():
                with lowered(factorized_points=points):
                    seconds = _medians(models, X, y, 1)
                row["hinge"] = seconds[0]
                ratios = zip(models[1:], np.divide(seconds[1:], seconds[0]), strict=True)
                row |= {f"{m.loss}{way}": ratio for m, ratio in ratios}
            row |= {f"gap, {m.loss}": m.result_.certificate.gap for m in models}
            found.append(row)
            table("Losses", found[-1:])
    table("Losses, exact kernels: seconds of the hinge, and times as long for the others", found)
    return found


def _with_losses(X, C, p):
    """Models of four losses, the hinge first."""
    options = {"kernels": _three(X), "p": p, "C": C, "scale": "standard"}
    names = ("hinge", "logistic", "squared_hinge")
    models = [MKLClassifier(loss=loss, **options) for loss in names]
    return [*models, MKLRegressor(loss="squared", **options)]


def _ways(count):
    """Points up to which systems are factorized, by the name of the way."""
    if count > FACTORIZED_ROWS:
        return {"": thresholds().factorized_points}
    return {", factorized": count, "": 1}


def _three(X):
    """Three Gaussians around the mean distance."""
    return KernelCollection([RBF(gamma=float(f) / X.shape[1]) for f in (0.25, 0.5, 1.0)])


def _kernels(X):
    """The kernels of the default model, of standardized columns."""
    return auto_bank(StandardScaler().fit_transform(X))


def _svc():
    return make_pipeline(StandardScaler(), SVC())


def _part(name, most):
    """Rows of a table, without constant columns; None where it is not there."""
    data = read(name)
    if data is None:
        return None
    X, y = data[:2]
    chosen = np.random.default_rng(7).permutation(len(y))[:most]
    X = X[chosen].toarray() if sparse.issparse(X) else np.asarray(X[chosen], dtype=float)
    return X[:, np.ptp(X, axis=0) > 0.0], y[chosen]


def _medians(models, X, y, repeats=None):
    """Median seconds of fitting each model, in turns, after fits of few rows that compile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in models:
            model.fit(X[:150], y[:150])
        times = []
        for _ in range(repeats or REPEATS):
            times.append([])
            for model in models:
                began = time.perf_counter()
                model.fit(X, y)
                times[-1].append(time.perf_counter() - began)
    return np.median(times, axis=0).tolist()


STEPS = {run.__name__: run for run in (rows, grids, races, searches, classes, texts, losses)}
SPLIT = {"rows": "ROWS", "grids": "GRIDS", "searches": "SEARCHES"}
GUESSED = {
    "rows": 250,
    "grids": 90,
    "races": 600,
    "searches": 60,
    "classes": 200,
    "texts": 300,
    "losses": 400,
}
QUICK = {
    "ROWS": {200: ("letter",)},
    "SMALL": ("liver",),
    "GRIDS": {"liver": None},
    "SEARCHES": {"letter": 100},
    "DIGITS": 200,
    "TEXTS": 200,
    "LOSSES": ((200, "magic", 1.0),),
    "FACTORIZED_ROWS": 0,
    "COSTS": [1.0, 10.0],
    "NORMS": (1.0, 2.0),
    "REPEATS": 1,
}
