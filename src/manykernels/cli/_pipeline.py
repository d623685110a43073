"""From options to a scikit-learn pipeline: columns are prepared, then comes an MKL estimator with
its kernels.
"""

import contextlib
import json
import os
import re
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from .. import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV, kernels
from ..estimators.checks import check_parameters, choose_regularizer
from ..kernels import RBF, Laplacian, Linear, Polynomial
from ..kernels.points import as_points
from ..kernels.vector import weighted_variance
from ..lowrank import Nystroem
from ..solvers import choose_solver
from ._measures import Answers, measured

WORDS = (
    "auto, whole, or some of rbf, laplacian, linear, poly and polyN with commas between them, or a "
    "JSON file"
)
TABLES = ("auto", "whole")  # kernels that an estimator makes for a table
FACTORS = 2.0 ** np.arange(-5, 5)  # of gamma="scale", for ten widths
TUNING_FOLDS = 5
# Rows that must lack a number before its absence is a feature, and their share: scaled to deviation
# 1, the indicator of few rows would set them apart from all others.
INDICATED, INDICATED_SHARE = 10, 0.05
NOT_IN_FILES = ("Kernel", "FunctionKernel", "Precomputed")


@dataclass
class Settings:
    """The options that make a pipeline; names as in `MKLClassifier`, None for its default."""

    kernels: str
    p: str
    C: float | None
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
    tune: bool = False
    grouped: bool = False  # whether folds keep groups of rows together

    def check(self, task):
        """Raise for options that no data make right, before any are read.

        Parameters
        ----------
        task : {"auto", "classification", "regression"}
        """
        check_kernels(self.kernels)
        if self.grouped and self.p == "auto":
            raise ValueError(
                "--p auto makes folds of its own, which do not know the groups of --groups-column; "
                "use --tune, or give --p as a number."
            )
        tasks = ("classification", "regression") if task == "auto" else (task,)
        errors = [error for error in map(self._error, tasks) if error is not None]
        if len(errors) == len(tasks):
            raise errors[0]

    def _error(self, task):
        """What is wrong with the options for a task, or None."""
        try:
            estimator = replace(self, tune=False)._estimator("auto", task)
            check_parameters(estimator)
            if self.solver != "auto":
                choose_solver(self.solver)
            if estimator.p != "auto":
                choose_regularizer(estimator.p, None)
            estimator._loss()
        except (TypeError, ValueError) as error:
            return error
        return None

    def pipeline(self, X, task):
        """A pipeline that is not trained, with kernels for the rows X in their new units."""
        # an estimator that makes kernels for a table standardizes it by itself
        first = prepared_columns(X, self.scales(X) and self.kernels not in TABLES)
        rows = X if first is None else clone(first).fit_transform(X)
        steps = [] if first is None else [("prepare", first)]
        kernels = kernels_from(self.kernels, rows)
        return Pipeline([*steps, ("model", self._estimator(kernels, task))])

    def scales(self, X):
        """Whether rows are standardized: tables are, sparse data only if it is asked for."""
        return not sparse.issparse(X) if self.standardize is None else self.standardize

    def _estimator(self, kernels, task):
        options = {
            "kernels": kernels,
            **self._chosen(task),
            "solver": self.solver,
            "normalize": None if self.normalize == "none" else self.normalize,
            "approximation": self._approximation(),
            "missing": "impute",
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
            classifier = MKLClassifierCV if self.tune else MKLClassifier
            return classifier(**options, class_weight=self.class_weight)
        if self.class_weight is not None:
            raise ValueError(
                "--class-weight is for classification; leave it out, or say --task classification."
            )
        epsilon = {} if self.epsilon is None else {"epsilon": self.epsilon}
        return (MKLRegressorCV if self.tune else MKLRegressor)(**options, **epsilon)

    def _chosen(self, task):
        """C and p, or the folds that they are chosen on."""
        if not self.tune:
            return {"p": _norm(self.p)} | ({} if self.C is None else {"C": self.C})
        return {"cv": splitter(TUNING_FOLDS, task, self.grouped, self.seed)}

    def _approximation(self):
        return None if self.rank is None else Nystroem(rank=self.rank, random_state=self.seed)


def _norm(text):
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"--p must be a number of at least 1, inf or auto, got {text!r}."
        ) from None


def prepared_columns(X, scales):
    """What brings the features of rows like X to mean 0 and deviation 1, if that is wanted, and
    says where numbers are missing; None if nothing is to be done.

    Sparse rows are not centered, so that their zeros stay zeros; of a data frame only the columns
    of numbers are scaled, and it stays one, since kernels may name its columns.
    """
    if not hasattr(X, "columns"):
        return StandardScaler(with_mean=not sparse.issparse(X)) if scales else None
    numeric = [name for name in X.columns if X[name].dtype.kind in "fiu"]
    least = max(INDICATED, INDICATED_SHARE * len(X))
    lacking = X[numeric].isna().sum()
    lacking = list(lacking.index[lacking >= least])
    steps = [("numbers", StandardScaler() if scales else "passthrough", numeric)]
    steps += [("missing", MissingIndicator(features="all"), lacking)] if lacking else []
    if not scales and not lacking:
        return None
    return ColumnTransformer(
        steps, remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")


def fit(pipeline, X, y, groups=None):
    """Train a pipeline; what the library prints goes to the standard error.

    Parameters
    ----------
    groups : (n,) int, optional
        Rows that the folds of a tuned estimator keep together.
    """
    tuned = isinstance(pipeline[-1], (MKLClassifierCV, MKLRegressorCV))
    of_folds = {"model__groups": groups} if tuned and groups is not None else {}
    with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary and the exit code say it
        return pipeline.fit(X, y, **of_folds)


def splitter(folds, task, grouped, seed):
    """What makes folds for a task, of rows or of groups of rows."""
    by_class, plain = StratifiedKFold, KFold
    if grouped:
        by_class, plain = StratifiedGroupKFold, GroupKFold
    kind = by_class if task == "classification" else plain
    return kind(folds, shuffle=True, random_state=seed)


def held_out(data, share, seed):
    """Numbers of the rows to train on and of those to score.

    Classes have their shares in both, but for those of one row, which is to train on; groups of
    rows are in one of them.
    """
    everything, options = np.arange(len(data.y)), {"test_size": share, "random_state": seed}
    if data.groups is not None:
        return next(GroupShuffleSplit(1, **options).split(everything, groups=data.groups))
    if data.task != "classification":
        return next(ShuffleSplit(1, **options).split(everything))
    _, codes, rows = np.unique(data.y, return_inverse=True, return_counts=True)
    shared = everything[rows[codes] > 1]
    train, test = next(StratifiedShuffleSplit(1, **options).split(shared, data.y[shared]))
    return np.concatenate([shared[train], everything[rows[codes] == 1]]), shared[test]


def fold_measures(data, settings, folds, interrupted):
    """What is `measured` on each fold, of a pipeline that was made and trained on the others alone.

    Parameters
    ----------
    data : Training
    settings : Settings
    folds : int
    interrupted : callable
        Whether the fit of an estimator was interrupted.
    """
    found, cv = [], splitter(folds, data.task, data.groups is not None, settings.seed)
    for rest, fold in cv.split(np.zeros(len(data.y)), data.y, data.groups):
        X, y, groups = data.part(rest)
        pipeline = fit(settings.pipeline(X, data.task), X, y, groups)
        if interrupted(pipeline[-1]):
            raise KeyboardInterrupt
        X_fold, y_fold, _ = data.part(fold)
        found.append(measured(Answers.of(pipeline, X_fold), y_fold, y))
    return found


def kernels_from(text, X):
    """The kernels that an option asks for, on the training rows X.

    ``rbf`` and ``laplacian`` are ten widths around scikit-learn's ``gamma="scale"``, ``poly`` the
    degrees 2 and 3, all on all features that are numbers.
    """
    if text in TABLES:
        return text
    if text.lower().endswith(".json"):
        return _from_file(text)
    features, gamma = _numeric(X)
    return [
        kernel for word in text.split(",") for kernel in _from_word(word.strip(), features, gamma)
    ]


def check_kernels(text):
    """Raise unless an option asks for kernels that there are, whatever the data."""
    if text.lower().endswith(".json"):
        _from_file(text)
    elif text not in TABLES:
        for word in text.split(","):
            _from_word(word.strip(), None, 1.0)


def _from_word(word, features, gamma):
    if word in ("rbf", "laplacian"):
        kernel = RBF if word == "rbf" else Laplacian
        return [kernel(gamma=float(factor * gamma), features=features) for factor in FACTORS]
    if word == "linear":
        return [Linear(features=features)]
    if match := re.fullmatch(r"poly(\d*)", word):
        degrees = [int(match.group(1))] if match.group(1) else [2, 3]
        return [Polynomial(degree=degree, gamma=gamma, features=features) for degree in degrees]
    raise ValueError(f"--kernels {word!r} is not known; use {WORDS}.")


def _numeric(X):
    """The features that are numbers (None for all), and one over their summed variance."""
    features = None
    if hasattr(X, "columns"):
        numeric = [name for name in X.columns if X[name].dtype.kind in "fiub"]
        if len(numeric) < X.shape[1]:
            features = tuple(numeric)
            left = ", ".join(repr(name) for name in X.columns if name not in numeric)
            warnings.warn(
                f"Kernels of numbers do not see the columns {left}; --kernels auto does.",
                stacklevel=2,
            )
        X = X[numeric].astype(float)
    if X.shape[1] == 0:
        raise ValueError("There are no columns of numbers for these kernels; use --kernels auto.")
    if not sparse.issparse(X):
        X = SimpleImputer(strategy="median", keep_empty_features=True).fit_transform(X)
    variance = float(weighted_variance(as_points(X)).sum())
    return features, 1.0 / variance if variance > 0 else 1.0


def _from_file(path):
    """A list of kernels, or a mapping from groups to lists, each kernel as its kind and
    parameters.
    """
    with open(path, encoding="utf-8") as file:
        try:
            contents = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}.") from error
    if isinstance(contents, dict) and "kind" not in contents:
        return {
            group: [_kernel(entry, path) for entry in _listed(entries)]
            for group, entries in contents.items()
        }
    return [_kernel(entry, path) for entry in _listed(contents)]


def _listed(entries):
    return entries if isinstance(entries, list) else [entries]


def _kinds():
    """The classes of kernels that a file may name, by their names in small letters."""
    named = {name: getattr(kernels, name) for name in kernels.__all__ if name not in NOT_IN_FILES}
    return {
        name.lower(): kind
        for name, kind in named.items()
        if isinstance(kind, type) and issubclass(kind, kernels.Kernel)
    }


def _kernel(entry, path):
    kinds, name = _kinds(), os.path.basename(path)
    if not isinstance(entry, dict) or str(entry.get("kind")).lower() not in kinds:
        raise ValueError(
            f'{name}: a kernel is written as {{"kind": …}} and its parameters, the kind being one '
            f"of {', '.join(sorted(kinds))}; got {entry!r}."
        )
    parameters = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry.items()
        if key != "kind"
    }
    try:
        return kinds[entry["kind"].lower()](**parameters)
    except TypeError as error:
        raise ValueError(
            f"{name}: {entry!r} does not fit the kernel {entry['kind']}: {error}."
        ) from error
