"""The parts of `proof` on exactly k kernels or groups; see there."""

import time
import warnings
from functools import partial
from itertools import combinations
from math import comb

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.svm import SVC

from manykernels import MKLClassifier
from manykernels.banks.dense import DenseBank
from manykernels.callbacks import EarlyStop
from manykernels.kernels import RBF, Precomputed, auto_bank
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall, SimplexRidge
from manykernels.solvers import Newton, solve

from . import sparse_mkl
from .common import DATA, load, once, table

INTERVAL = 1.96
TOLERANCE = 1e-4


def on_published_split(names, starts):
    """The k-sparse optimum of Sparse MKL's sets on their split, beside what they published."""
    known = sparse_mkl.published()
    _timed(_limited(np.stack([np.eye(4), np.ones((4, 4))]), 1, 1.0, 1.0), np.resize([-1, 1], 4))
    rows = [once(name, _published, name, known[name], starts) for name in names]
    table("Sparse MKL's sets on their split: proven optima", rows)
    return rows


def _published(name, known, starts):
    X, y = sparse_mkl.read(name)
    train, test = sparse_mkl.published_split(len(y))
    grams, cross = sparse_mkl.kernels(*sparse_mkl.standardized(X, train, test))
    k, C, ridge = int(known["k"]), known["C"], known["ridge"]
    model, seconds = _timed(_limited(grams, k, C, ridge), y[train])
    definite, _ = _timed(_limited(grams[list(sparse_mkl.DEFINITE)], k, C, ridge), y[train])
    others = [sparse_mkl.alternating(grams, y[train], k, C, ridge, seed) for seed in range(starts)]
    found, sdp = model.result_, known["sdp_seconds"]
    return {
        "set": name,
        "rows": len(train),
        "k": k,
        "objective": found.objective,
        "gap": found.duality_gap,
        "subsets": found.subsets.total,
        "problems": found.subsets.solved,
        "alternating, best": min(others),
        "alternating, median": float(np.median(others)),
        "8 definite kernels": definite.result_.objective,
        "gap of these": definite.result_.duality_gap,
        "published": known["objective"],
        "published, from the relaxation": known["objective_from_relaxation_start"],
        "published bound": known["sdp_lower_bound"],
        "published above the optimum, %": 100.0
        * (known["objective"] / definite.result_.objective - 1.0),
        "s": seconds,
        "published s of the bound": sdp,
        "s / published": None if sdp is None else seconds / sdp,
        "kernels": np.flatnonzero(model.kernel_weights_).tolist(),
        "accuracy": float(np.mean(model.predict(cross) == y[test])),
        "published accuracy": known["test_accuracy"],
    }


def accuracies(names, splits):
    """Accuracy over random splits, in %, with intervals for the difference of training sets; splits
    are spread over the cores.
    """
    known = sparse_mkl.published()
    rows = [once(f"accuracy {name}", _accuracy, name, known[name], splits) for name in names]
    table("Accuracy in %, mean and half of a 95 % interval", rows)
    return rows


def _accuracy(name, known, splits):
    X, y = sparse_mkl.read(name)
    shuffled = StratifiedShuffleSplit(splits, train_size=sparse_mkl.TRAIN, random_state=0)
    jobs = (delayed(_on_split)(X, y, known, *split) for split in shuffled.split(X, y))
    found = Parallel(n_jobs=-1, batch_size=1)(jobs)
    scores = {label: np.array([one[label] for one in found]) for label in found[0]}
    scores["best k less p = 1"] = scores["best k"] - scores["p = 1"]
    row = {"set": name, "k": int(known["k"]), "splits": splits}
    # training sets overlap: Nadeau and Bengio's correction of the variance
    wider = np.sqrt(1.0 / splits + (1.0 - sparse_mkl.TRAIN) / sparse_mkl.TRAIN)
    for label, values in scores.items():
        half = INTERVAL * np.std(values, ddof=1) * wider if splits > 1 else np.inf
        row |= {label: float(np.mean(values)), f"± {label}": float(half)}
    return row


def _on_split(X, y, known, train, test):
    """Accuracies in % of all models on one split."""
    k, C, ridge = int(known["k"]), known["C"], known["ridge"]
    A, B = sparse_mkl.standardized(X, train, test)
    grams, cross = sparse_mkl.kernels(A, B)
    models = {
        "best k": _limited(grams, k, C, ridge),
        "best single": _limited(grams, 1, C, ridge),
        "p = 1": _plain(grams, C, p=1.0),
        # the mean of the kernels is their sum with a C that is smaller by as much
        "uniform": _plain(grams, C / len(grams), p=np.inf),
    }
    fitted = {label: _timed(model, y[train])[0] for label, model in models.items()}
    predicted = {label: model.predict(cross) for label, model in fitted.items()}
    predicted["SVC"] = SVC(C=C).fit(A, y[train]).predict(B)
    return {label: 100.0 * np.mean(one == y[test]) for label, one in predicted.items()}


def beyond(problems, seconds, costs, sampling, smaller):
    """More kernels: what is proven in so many seconds, beside some of the subsets drawn at random,
    and beside all subsets of some of the kernels.
    """
    rows = []
    for name in problems:
        for C in costs:
            rows.append(once(f"{name} {C}", _beyond, name, C, seconds, sampling))
            rows.append(once(f"{name} {C} smaller", _beyond, name, C, seconds, np.inf, smaller))
    table(f"Beyond ten kernels, {seconds} s at most, {sampling} s for subsets one by one", rows)
    return rows


def _beyond(name, C, seconds, sampling, smaller=None):
    """A search, and the best of as many subsets one by one as there is time for; of at most
    `smaller` subsets, if that is given: of the last kernels that have no more.
    """
    X, y, kernels, k, scale = _PROBLEMS[name]()
    if smaller is not None:
        kernels = _last(kernels, k, smaller)
    options = {"scale": scale, "C": C, "callbacks": [EarlyStop(seconds=seconds)]}
    model, spent = _timed(MKLClassifier(kernels, max_kernels=k, **options), y, X)
    found = model.result_
    return {
        "problem": name,
        "C": C,
        "rows": len(y),
        "kernels": len(model.kernel_names_),
        "k": k,
        "objective": found.objective,
        "gap": found.duality_gap,
        "subsets": found.subsets.total,
        "ruled out": found.subsets.ruled_out,
        "problems": found.subsets.solved,
        "s": spent,
        **_one_by_one(model, X, y, k, sampling),
    }


def _last(kernels, k, most):
    """The last kernels, as many as have at most so many subsets of size k."""
    return kernels[-max(m for m in range(k + 1, len(kernels)) if comb(m, k) <= most) :]


def _one_by_one(model, X, y, k, seconds):
    """The best of all subsets, or of as many, in random order, as there is time for."""
    prepared = clone(model)._data(X, y, None)
    bank, costs = DenseBank.from_bank(prepared.bank), model.C * prepared.cost
    subsets = list(combinations(range(bank.m), k))
    best, tried, began = np.inf, 0, time.perf_counter()
    for place in np.random.default_rng(0).permutation(len(subsets)):
        if time.perf_counter() - began > seconds:
            break
        some = bank.take_kernels(np.array(subsets[place]))
        problem = Problem(some, prepared.targets, costs, PNormBall(1.0))
        best = min(best, solve(problem, Newton()).objective)
        tried += 1
    spent = time.perf_counter() - began
    return {
        "best one by one": float(best),
        "tried one by one, %": 100.0 * tried / len(subsets),
        "s, all one by one": spent * len(subsets) / tried,
    }


def _columns(name, count, k):
    """A Gaussian on each of some columns, and six kernels on all of these."""
    X, y = load(name)
    return X[:, :count], y, auto_bank(X[:, :count]), k, None


def _cells():
    with np.load(DATA / "pbmc_dc_mono.npz") as archive:
        X, y = archive["X"].astype(float), np.where(archive["y"] == 1, 1.0, -1.0)
        sets = np.split(archive["members"], archive["offsets"][1:-1])
    largest = sorted(np.argsort([-len(one) for one in sets], kind="stable")[:30].tolist())
    kernels = [RBF(0.5 / len(sets[one]), features=sets[one].tolist()) for one in largest]
    return X, y, kernels, 3, "standard"


_PROBLEMS = {
    "sonar, 34 columns": partial(_columns, "sonar", 34, 3),
    "bci, 94 columns": partial(_columns, "bci", 94, 2),
    "gene sets": _cells,
}


def _limited(grams, k, C, ridge):
    return _plain(grams, C, regularizer=SimplexRidge(ridge), max_kernels=k, tol=TOLERANCE)


def _plain(grams, C, **options):
    kernels = [Precomputed(K) for K in grams]
    return MKLClassifier(kernels, C=C, normalize=None, n_jobs=1, **options)


def _timed(model, y, X=None):
    """A fitted model, and the seconds that took."""
    X = np.arange(len(y))[:, None] if X is None else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model.fit(X, y)
    return model, time.perf_counter() - began
