"""When MKL pays: learned weights beside what else one could do, tuned alike, on all data sets.

At most ROWS random rows of every set (so that all of it ends within an hour), OUTER stratified
folds for the score, and INNER folds of each training part for the choice of parameters: nested
cross-validation. Columns are standardized by the training part. The kernels of the sums are those
of ``kernels="auto"`` (six on all columns, one on each), or, where a set has views or gene sets,
Gaussians of four widths and a linear kernel on each of them.

``uniform``: equal weights, C chosen; ``best single``: one kernel of the bank and C; ``l1``: p = 1;
``lp``: p of 1.33, 2 or 4; ``product``: a Gaussian with a weight for each column, C of two values
and at most STEPS_OF_PRODUCT iterations, since it is slow; ``SVC``: C and gamma of 32 pairs;
``boosting``: histogram boosting, rate and leaves of four pairs.

`benchmarks.report` makes mean ranks of the accuracies, Friedman's test and Nemenyi's critical
difference.
"""

import time
import warnings
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier, MKLClassifierCV
from manykernels.kernels import auto_bank, on_groups

from .common import file_of, once, read, table

SETS = (
    *("sonar", "ionosphere", "liver", "breast_cancer", "australian", "diabetes", "wpbc", "heart"),
    *("vote", "wdbc", "bci", "usps", "coil2", "mushrooms", "svmguide1", "letter", "magic", "poker"),
    *("a9a", "w8a", "cod_rna", "ijcnn1", "covtype", "leukemia", "reuters_money"),
    *("mfeat", "tcga_breast", "pbmc_dc_mono", "pbmc_t_rest"),
)
ROWS, OUTER, INNER, SEED = 250, 3, 3, 0
FINALISTS = 5  # single kernels for which C is chosen
COSTS, NORMS = np.logspace(-1, 3, 5), (1.33, 2.0, 4.0)
PRODUCT_COSTS, STEPS_OF_PRODUCT = (1.0, 10.0), 30
PAIRS = {"C": np.logspace(-1, 2.5, 8), "gamma": [0.001, 0.01, 0.1, "scale"]}
BOOSTED = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 31]}


class BestSingle(ClassifierMixin, BaseEstimator):
    """One kernel of a collection and C, by inner folds; unit mean diagonal.

    Values of C are tried for those kernels that do best at the middle one.
    """

    def __init__(self, kernels, costs, cv):
        self.kernels, self.costs, self.cv = kernels, costs, cv

    def fit(self, X, y):
        folds = list(self.cv.split(X, y))
        middle = self.costs[len(self.costs) // 2]
        tried = []
        for kernel in self.kernels:
            resolved = kernel.resolved(X, None) if kernel.needs_data else kernel
            scale = np.mean(resolved.diagonal(X))
            K = np.asarray(resolved.block(X, X)) / scale
            tried.append((self._score(K, y, middle, folds), resolved, scale, K))
        tried.sort(key=lambda one: -one[0])
        best = -1.0
        for _, resolved, scale, K in tried[:FINALISTS]:
            for C in self.costs:
                score = self._score(K, y, C, folds)
                if score > best:
                    best, found = score, (resolved, scale, C, K)
        self.kernel_, self.scale_, C, K = found
        self.X_, self.machine_ = X, SVC(kernel="precomputed", C=C).fit(K, y)
        self.classes_ = self.machine_.classes_
        return self

    def predict(self, X):
        return self.machine_.predict(np.asarray(self.kernel_.block(X, self.X_)) / self.scale_)

    @staticmethod
    def _score(K, y, C, folds):
        scores = []
        for train, test in folds:
            machine = SVC(kernel="precomputed", C=C).fit(K[np.ix_(train, train)], y[train])
            scores.append(machine.score(K[np.ix_(test, train)], y[test]))
        return np.mean(scores)


def contestants(kernels, cv):
    """Estimators by name, each of which chooses its own parameters."""
    options = {"Cs": COSTS, "cv": cv, "calibration": None, "n_jobs": 1}
    product = MKLClassifier(combination="product", max_iter=STEPS_OF_PRODUCT, random_state=0)
    boosting = HistGradientBoostingClassifier(random_state=0)
    return {
        "uniform": MKLClassifierCV(kernels, ps=(np.inf,), **options),
        "best single": BestSingle(list(kernels), COSTS, cv),
        "l1": MKLClassifierCV(kernels, ps=(1.0,), **options),
        "lp": MKLClassifierCV(kernels, ps=NORMS, **options),
        "product": GridSearchCV(product, {"C": PRODUCT_COSTS}, cv=cv),
        "SVC": GridSearchCV(SVC(), PAIRS, cv=cv),
        "boosting": GridSearchCV(boosting, BOOSTED, cv=cv),
    }


def sample(name):
    """Some rows of a set, their labels, and the groups of its columns if it has some; None if it is
    not here.
    """
    path = file_of(name)
    if path is None:
        return None
    groups = None
    with np.load(path) as archive:
        if "views" in archive:
            X, groups, at = [], {}, 0
            for view in archive["views"].tolist():
                X.append(archive[f"X_{view}"].astype(float))
                groups[view] = np.arange(at, at + X[-1].shape[1])
                at += X[-1].shape[1]
            X, y = np.hstack(X), archive["y"].astype(float)
        elif "offsets" in archive:
            X, y, ends = archive["X"].astype(float), archive["y"], archive["offsets"]
            members = [archive["members"][a:b] for a, b in pairwise(ends)]
            groups = dict(zip(map(str, archive["names"]), members, strict=True))
        else:
            X, y = read(name)[:2]
    rows = np.random.default_rng(SEED).permutation(len(y))[:ROWS]
    X = X[rows].toarray() if sparse.issparse(X) else np.asarray(X[rows], dtype=float)
    return X[:, X.std(axis=0) > 0.0] if groups is None else X, y[rows], groups


def one_set(name):
    """Accuracy and seconds of every contestant on the outer folds of a set."""
    data = sample(name)
    if data is None:
        return None
    X, y, groups = data
    row = {"set": name, "rows": len(y), "columns": X.shape[1], "groups": len(groups or ())}
    scores, seconds = {}, {}
    for train, test in StratifiedKFold(OUTER, shuffle=True, random_state=SEED).split(X, y):
        scaler = StandardScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[test])
        bank = auto_bank(A) if groups is None else on_groups(groups)
        row["kernels"] = len(list(bank))
        cv = StratifiedKFold(INNER, shuffle=True, random_state=SEED + 1)
        for title, model in contestants(bank, cv).items():
            began = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = np.mean(model.fit(A, y[train]).predict(B) == y[test])
            scores.setdefault(title, []).append(float(score))
            seconds[title] = seconds.get(title, 0.0) + time.perf_counter() - began
    row |= {title: float(np.mean(found)) for title, found in scores.items()}
    return row | {"seconds": {title: round(spent, 2) for title, spent in seconds.items()}}


def nested():
    """Accuracy by nested cross-validation, everything tuned alike."""
    rows = []
    for name in SETS:
        row = once(name, one_set, name)
        if row is not None:
            rows.append(row)
            table("Accuracy", rows[-1:])
    return rows


STEPS = {"nested": nested}
SPLIT = {"nested": "SETS"}
QUICK = {
    "SETS": ("liver", "tcga_breast", "heart", "wpbc"),
    "ROWS": 60,
    "OUTER": 2,
    "INNER": 2,
    "COSTS": (1.0, 100.0),
    "PAIRS": {"C": [1.0, 10.0], "gamma": ["scale"]},
    "BOOSTED": {"learning_rate": [0.1]},
}
