"""Training for the command line: estimators from options, and scores on rows that were held out."""

import contextlib
import sys
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .kernels import kernels_from
from .scaling import Scaling


@dataclass
class Settings:
    """The options that make an estimator; names as in `MKLClassifier`, None for its default."""

    kernels: str
    p: str
    C: float
    loss: str | None
    epsilon: float | None
    solver: str
    normalize: str
    rank: int | None
    tol: float
    max_iter: int | None
    class_weight: str | None
    n_jobs: int | None
    device: str
    seed: int
    standardize: bool | None
    checkpoint: Any = None
    verbose: int = 0

    def estimator(self, task, X):
        """An estimator for the task that is not trained, with kernels for the rows X."""
        from .. import MKLClassifier, MKLRegressor

        options = {
            "kernels": kernels_from(self.kernels, X),
            "p": _norm(self.p),
            "C": self.C,
            "solver": self.solver,
            "normalize": None if self.normalize == "none" else self.normalize,
            "approximation": self._approximation(),
            "tol": self.tol,
            "max_iter": self.max_iter,
            "n_jobs": self.n_jobs,
            "device": self.device,
            "random_state": self.seed,
            "checkpoint": self.checkpoint,
            "verbose": self.verbose,
        } | ({} if self.loss is None else {"loss": self.loss})
        if task == "classification":
            if self.epsilon is not None:
                raise ValueError(
                    "--epsilon is for regression; leave it out, or say --task regression."
                )
            return MKLClassifier(**options, class_weight=self.class_weight)
        if self.class_weight is not None:
            raise ValueError(
                "--class-weight is for classification; leave it out, or say --task classification."
            )
        return MKLRegressor(
            **options, **({} if self.epsilon is None else {"epsilon": self.epsilon})
        )

    def _approximation(self):
        if self.rank is None:
            return None
        from ..lowrank import Nystroem

        return Nystroem(rank=self.rank, random_state=self.seed)

    def scaling(self, X):
        """That of the rows, if they are to be scaled: tables are, sparse data only if it is asked
        for.
        """
        from scipy import sparse

        wanted = not sparse.issparse(X) if self.standardize is None else self.standardize
        return Scaling.of(X) if wanted else None


def _norm(text):
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"--p must be a number of at least 1, inf or auto, got {text!r}."
        ) from None


class Trained(NamedTuple):
    """An estimator and the scaling that its rows went through."""

    estimator: Any
    scaling: Scaling | None

    def rows(self, X):
        return X if self.scaling is None else self.scaling.apply(X)

    def score(self, X, y):
        """Accuracy, or R² for regression."""
        return float(self.estimator.score(self.rows(X), y))

    @property
    def status(self):
        return self.estimator.result_.status


def train_on(X, y, task, settings):
    """Train on all the rows; what the library prints goes to the standard error."""
    from sklearn.exceptions import ConvergenceWarning

    scaling = settings.scaling(X)
    rows = X if scaling is None else scaling.apply(X)
    estimator = settings.estimator(task, rows)
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary and the exit code say it
        return Trained(estimator.fit(rows, y), scaling)


def held_out(X, y, task, share, seed):
    """Rows to train on and rows to score: X, y, X_test, y_test."""
    from sklearn.model_selection import train_test_split

    stratify = y if task == "classification" else None
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=share, random_state=seed, stratify=stratify
    )
    return X, y, X_test, y_test


def fold_scores(X, y, task, settings, folds):
    """Score of each fold, of a model that was trained on the others; scaling and kernels are
    learned there too.
    """
    from sklearn.model_selection import KFold, StratifiedKFold

    splitter = (StratifiedKFold if task == "classification" else KFold)(
        folds, shuffle=True, random_state=settings.seed
    )
    take = (lambda rows: X.iloc[rows]) if hasattr(X, "iloc") else (lambda rows: X[rows])
    scores = []
    for rest, fold in splitter.split(np.zeros(len(y)), y):
        trained = train_on(take(rest), y[rest], task, settings)
        if trained.status.name == "INTERRUPTED":
            raise KeyboardInterrupt
        scores.append(trained.score(take(fold), y[fold]))
    return scores
