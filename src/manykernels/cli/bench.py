"""``manykernels bench``."""

import time
from typing import Annotated

import typer

from ._output import Json, ends_well, print_json, print_table
from .datasets import load_sample

COLUMNS = ("columns", "method", "training s", "prediction s", "test accuracy", "kernels used")
KEYS = ("columns", "method", "training_seconds", "prediction_seconds", "accuracy", "kernels")


@ends_well
def bench(
    name: Annotated[
        str, typer.Argument(help="A data set of manykernels datasets list, with classes.")
    ] = "breast_cancer",
    p: Annotated[float, typer.Option("--p", help="Norm of the kernel weights.", min=1.0)] = 1.0,
    C: Annotated[float, typer.Option("--C", help="Cost of an error.")] = 1.0,
    points: Annotated[int, typer.Option(help="Rows at most, drawn at random.", min=20)] = 1000,
    copies: Annotated[
        int,
        typer.Option(help="Shuffled copies of every column, which say nothing, besides.", min=0),
    ] = 3,
    seed: Annotated[
        int, typer.Option(help="For the choice of rows, and for shuffling.", min=0)
    ] = 0,
    json: Json = False,
):
    """Time learned kernel weights beside the plain mean of the same kernels with one SVC of
    scikit-learn, and beside the SVC alone: on the columns as they are, where all sources are good
    and a mean is hard to beat, and among columns that say nothing, where weights pay.
    """
    rows, counts = [], {}
    for noise in (0, copies) if copies else (0,):
        X, y, X_test, y_test, kernels = _problem(name, points, seed, noise)
        _learned(X[:50], y[:50], X_test[:5], y_test[:5], kernels, p, C)  # loads what is compiled
        columns = "as they are" if not noise else f"+ {noise} shuffled"
        data, counts[columns] = (X, y, X_test, y_test), len(kernels)
        rows += [
            (columns, "learned weights", *_learned(*data, kernels, p, C)),
            (columns, "mean of kernels, SVC", *_mean(*data, kernels, C)),
            (columns, "SVC", *_plain(*data, C)),
        ]
    if json:
        print_json(
            {
                "dataset": name,
                "rows": len(y),
                "test_rows": len(y_test),
                "n_kernels": counts,
                "methods": [dict(zip(KEYS, row, strict=True)) for row in rows],
            }
        )
        return
    print_table(
        f"{name}: {len(y)} rows to train on, {len(y_test)} to test on, "
        f"{' and '.join(map(str, counts.values()))} kernels",
        rows,
        COLUMNS,
    )


def _problem(name, points, seed, copies):
    """Standardized rows in two parts, and the default kernels on them."""
    import numpy as np
    from scipy import sparse
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    from ..kernels import auto_bank
    from ._input import choose_task

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
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from .. import MKLClassifier

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, training = _timed(lambda: MKLClassifier(kernels, p=p, C=C).fit(X, y))
    accuracy, prediction = _timed(lambda: model.score(X_test, y_test))
    return training, prediction, float(accuracy), int((model.kernel_weights_ > 0).sum())


def _mean(X, y, X_test, y_test, kernels, C):
    """As one does it by hand: a Gram matrix after the other, each with mean diagonal one."""
    from sklearn.svm import SVC

    (gram, scales), computing = _timed(lambda: _mean_gram(X, kernels))
    model, training = _timed(lambda: SVC(C=C, kernel="precomputed").fit(gram, y))
    accuracy, prediction = _timed(
        lambda: model.score(_mean_cross(X_test, X, kernels, scales), y_test)
    )
    return computing + training, prediction, float(accuracy), len(kernels)


def _plain(X, y, X_test, y_test, C):
    from sklearn.svm import SVC

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
