"""From files to rows and targets that a model can take, and models from their files."""

import os
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .. import load
from ..kernels.points import check_width
from ..readers.tables import read_table

FEW = 20  # distinct whole numbers that are still taken for classes
NAMED = (".csv", ".tsv", ".parquet")  # files whose columns have names


class Origin(NamedTuple):
    """What must be known of the training data to read others in the same way; kept in the model's
    file.
    """

    task: str | None = None
    target: str | None = None
    feature_names: list | None = None
    zero_based: bool | None = None
    n_features: int | None = None
    dense: bool | None = None
    words: list | None = None  # names of the columns that do not hold numbers

    @classmethod
    def of(cls, model):
        """That of a model from a file; little is known of models that were not trained by this
        command.
        """
        kept = getattr(model, "extra_", None) or {}
        if "train" in kept:
            return cls(**kept["train"])
        names = getattr(model, "feature_names_in_", None)
        return cls(
            "classification" if hasattr(model, "classes_") else "regression",
            n_features=model.n_features_in_,
            feature_names=None if names is None else list(names),
        )

    def read(self, path, target=None):
        """Rows of another file as the model wants them, and their targets if there are some."""
        based = "auto" if self.zero_based is None else self.zero_based
        named = {} if self.n_features is None else {"n_features": self.n_features}
        wanted = target or (self.target if _has_columns(path) else None)
        data = read_table(
            path, target=wanted, has_target=target is not None, zero_based=based, **named
        )
        if data.feature_names is None and (sparse.issparse(data.X) or self.feature_names):
            self._check_number(data.X.shape[1], path)
        X = self._same_columns(data, path)
        _refuse_missing(X, path)
        y = None if data.y is None else as_targets(data.y, self.task)
        return as_in_training(X, self.dense), y

    def read_with_targets(self, path):
        """The same, for data to score on."""
        X, y = self.read(path)
        if y is None:
            raise ValueError(
                f"{path} has no target{f' {self.target!r}' if self.target else ''} to score on."
            )
        return X, y

    def _check_number(self, found, path):
        """Raise unless a file whose columns have no names has as many as the model was trained
        on.
        """
        wanted = self.n_features if self.feature_names is None else len(self.feature_names)
        if wanted is not None and found != wanted:
            raise ValueError(f"{path} has {found:,} features, the model was trained on {wanted:,}.")

    def _same_columns(self, data, path):
        """The features that the model knows, in its order."""
        if self.feature_names is None:
            return data.X if data.feature_names is None else data.X.to_numpy()
        if data.feature_names is None:
            return _with_names(data.X, self.feature_names)
        missing = [name for name in self.feature_names if name not in data.feature_names]
        if missing:
            raise ValueError(
                f"{path} lacks columns that the model needs: {', '.join(map(repr, missing[:10]))}."
            )
        X = data.X[self.feature_names]
        for name in self.feature_names if self.words is not None else ():
            if name not in self.words:
                refuse_text(X[name], path)
        return X


def load_model(path):
    """The pipeline or estimator of a model's file."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no model {path}; manykernels train writes one.")
    return load(path)


def last_step(model):
    """The estimator at the end of a pipeline, or the model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


class Training(NamedTuple):
    """Rows and targets to learn from, the task, and how to read others like them."""

    X: Any
    y: np.ndarray
    task: str
    origin: Origin


def read_training(path, *, target=None, task="auto", n_features=None):
    """The training data of a file, with targets for the task."""
    data = read_table(path, target=target, n_features=n_features)
    task = choose_task(data.y) if task == "auto" else task
    _refuse_missing(data.X, path)
    check_width(data.X)
    X = as_in_training(data.X)
    origin = Origin(
        task, data.target, data.feature_names, data.zero_based, X.shape[1], not sparse.issparse(X),
        [name for name in data.feature_names or () if X[name].dtype.kind not in "fiub"],
    )  # fmt: skip
    return Training(X, as_targets(data.y, task), task, origin)


def as_in_training(X, dense=None):
    """Sparse rows of which half are there are made dense, unless it is known what they were in
    training: they are a table, written as LIBSVM text.
    """
    if not sparse.issparse(X):
        return X
    dense = 2 * X.nnz >= X.shape[0] * X.shape[1] if dense is None else dense
    return X.toarray() if dense else X


def choose_task(y):
    """Classification for words, truth values and a few whole numbers; else regression."""
    if y.dtype.kind not in "fiu":
        return "classification"
    return "classification" if _whole(y) and np.unique(y).size <= FEW else "regression"


def as_targets(y, task):
    """Targets as the estimators want them: words, whole numbers or, for regression, real ones."""
    if task == "regression":
        if y.dtype.kind not in "fiub":
            raise ValueError(
                f"Regression needs numbers as targets, got {y[0]!r}; use --task classification or "
                "another --target."
            )
        return y.astype(float)
    if y.dtype.kind in "fiu":
        return y.astype(int) if _whole(y) else y
    return y.astype(str)


def _whole(y):
    return bool((np.isfinite(y) & (np.abs(y) < 2**53)).all() and (y == np.round(y)).all())


def _has_columns(path):
    return str(path).lower().removesuffix(".gz").removesuffix(".bz2").endswith(NAMED)


def _with_names(X, names):
    import pandas as pd

    return pd.DataFrame(X.toarray() if sparse.issparse(X) else X, columns=names)


def refuse_text(column, path):
    """Raise for a column of text where a model was trained on numbers."""
    if column.dtype.kind in "fiub":
        return
    for row, word in enumerate(column.tolist(), 1):
        try:
            float(word)
        except (TypeError, ValueError):
            raise ValueError(
                f"{path}: column {column.name!r} holds {word!r} in row {row}, and the model was "
                "trained on numbers there; write numbers alone, without units."
            ) from None


def _refuse_missing(X, path):
    for name in X.columns if hasattr(X, "columns") else ():
        missing = X[name].isna().to_numpy() if X[name].dtype.kind == "f" else np.zeros(1, bool)
        if missing.any():
            raise ValueError(
                f"{path}: column {name!r} lacks {np.count_nonzero(missing)} of its numbers, the "
                f"first in row {int(missing.argmax()) + 1}; fill them in or remove those rows."
            )
