"""What ``manykernels bench`` does: learned weights, a mean of kernels and one SVC, timed."""

import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ..estimators import MKLClassifier
from ..kernels import auto_bank
from ._input import choose_task
from ._samples import load_sample


class Comparison(NamedTuple):
    """What was measured.

    Attributes
    ----------
    rows, test_rows : int
    n_kernels : dict
        By what was done to the columns.
    methods : list of tuples
        What was done to the columns, the method, seconds of training and of prediction, accuracy,
        number of kernels in use.
    """

    rows: int
    test_rows: int
    n_kernels: dict
    methods: list


def compare(name, p, C, points, copies, seed):
    """Time the methods on the columns of a data set, and among shuffled copies of them."""
    methods, counts = [], {}
    for noise in (0, copies) if copies else (0,):
        X, y, X_test, y_test, kernels = _problem(name, points, seed, noise)
        _learned(X[:50], y[:50], X_test[:5], y_test[:5], kernels, p, C)  # loads what is compiled
        columns = "as they are" if not noise else f"+ {noise} shuffled"
        data, counts[columns] = (X, y, X_test, y_test), len(kernels)
        methods += [
            (columns, "learned weights", *_learned(*data, kernels, p, C)),
            (columns, "mean of kernels, SVC", *_mean(*data, kernels, C)),
            (columns, "SVC", *_plain(*data, C)),
        ]
    return Comparison(len(y), len(y_test), counts, methods)


def _problem(name, points, seed, copies):
    """Standardized rows in two parts, and the default kernels on them."""
    data = load_sample(name)
    if choose_task(data.y) != "classification":
        raise ValueError(
            f"bench compares classifiers, and the targets of {name} are no classes; choose another "
            "data set."
        )
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data.y))[:points]
    X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X, dtype=float)
    X, y = X[chosen], data.y[chosen]
    X = np.hstack([X, *(rng.permuted(X, axis=0) for _ in range(copies))])
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    bank = auto_bank(X)
    return X, y, X_test, y_test, [bank[k] for k in range(len(bank))]


def _learned(X, y, X_test, y_test, kernels, p, C):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, training = _timed(lambda: MKLClassifier(kernels, p=p, C=C).fit(X, y))
    accuracy, prediction = _timed(lambda: model.score(X_test, y_test))
    return training, prediction, float(accuracy), int((model.kernel_weights_ > 0).sum())


def _mean(X, y, X_test, y_test, kernels, C):
    """As one does it by hand: a Gram matrix after the other, each with mean diagonal one."""
    (gram, scales), computing = _timed(lambda: _mean_gram(X, kernels))
    model, training = _timed(lambda: SVC(C=C, kernel="precomputed").fit(gram, y))
    accuracy, prediction = _timed(
        lambda: model.score(_mean_cross(X_test, X, kernels, scales), y_test)
    )
    return computing + training, prediction, float(accuracy), len(kernels)


def _plain(X, y, X_test, y_test, C):
    model, training = _timed(lambda: SVC(C=C).fit(X, y))
    accuracy, prediction = _timed(lambda: model.score(X_test, y_test))
    return training, prediction, float(accuracy), 1


def _mean_gram(X, kernels):
    scales = [
        1.0 / max(float(kernel.diagonal(_seen(kernel, X)).mean()), 1e-300) for kernel in kernels
    ]
    return _mean_cross(X, X, kernels, scales), scales


def _mean_cross(A, B, kernels, scales):
    blocks = (
        scale * kernel.block(_seen(kernel, A), _seen(kernel, B))
        for kernel, scale in zip(kernels, scales, strict=True)
    )
    return sum(blocks) / len(kernels)


def _seen(kernel, X):
    return X if kernel.features is None else X[:, list(kernel.features)]


def _timed(function):
    began = time.perf_counter()
    return function(), time.perf_counter() - began
