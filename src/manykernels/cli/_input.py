"""From files to rows and targets that a model can take, and models from their files."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import Predictor
from ..kernels.points import check_width, is_sparse
from ..readers.tables import read_table
from ._doubts import doubts_of, tell

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
    dates: dict | None = None  # how dates are written, by column

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
        if _has_columns(path):
            named |= {"columns": self.feature_names, "dates": self.dates}
        data = read_table(
            path, target=wanted, has_target=target is not None, zero_based=based, **named
        )
        if data.feature_names is None and (is_sparse(data.X) or self.feature_names):
            self._check_number(data.X.shape[1], path)
        X = self._same_columns(data, path)
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
        X = data.X[self.feature_names]
        for name in self.feature_names if self.words is not None else ():
            if name not in self.words:
                refuse_text(X[name], path)
        return X


def _known(path):
    """A path, if there is a file."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no model {path}; manykernels train writes one.")
    return path


def load_model(path):
    """The pipeline or estimator of a model's file."""
    from .. import load  # with scikit-learn and the solvers

    return load(_known(path))


def load_predictor(path):
    """What predicts of a model's file: the estimator or pipeline, or less than that."""
    predictor = Predictor(_known(path))
    return predictor if predictor.is_light else predictor.model


def last_step(model):
    """The estimator at the end of a pipeline, or the model itself."""
    return model.steps[-1][1] if hasattr(model, "steps") else model


class Training(NamedTuple):
    """Rows and targets to learn from, the task, how to read others like them, which rows belong
    together, and what is doubtful about them.
    """

    X: Any
    y: np.ndarray
    task: str
    origin: Origin
    groups: np.ndarray | None = None
    doubts: Sequence[str] = ()

    def part(self, rows):
        """Some of the rows: X, y and their groups."""
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else self.X[rows]
        return X, self.y[rows], None if self.groups is None else self.groups[rows]


class Columns(NamedTuple):
    """Which columns of a file are what; all but the target are features by default."""

    target: str | None = None
    features: Sequence[str] | None = None
    dropped: Sequence[str] = ()
    groups: str | None = None

    def read(self, path, n_features):
        """A file as `Data`, and the column of groups, if there is one."""
        together = [] if self.groups is None else [self.groups]
        wanted = None if self.features is None else [*self.features, *together]
        choice = {"target": self.target, "columns": wanted, "drop": self.dropped}
        data = read_table(path, n_features=n_features, **choice)
        if self.groups is None:
            return data, None
        if data.feature_names is None or self.groups not in data.feature_names:
            raise ValueError(f"{path} has no column {self.groups!r} of groups besides the target.")
        X, groups = data.X.drop(columns=together), data.X[self.groups]
        return data._replace(X=X, feature_names=list(X.columns)), groups


def read_training(path, columns, *, task="auto", n_features=None):
    """The training data of a file, with targets for the task; warnings say what is doubtful.

    Parameters
    ----------
    path : path
    columns : Columns
    task : {"auto", "classification", "regression"}
    n_features : int, optional
        Of LIBSVM text.
    """
    data, groups = columns.read(path, n_features)
    task = choose_task(data.y) if task == "auto" else task
    check_width(data.X)
    X, empty = _without_empty(as_in_training(data.X))
    names = None if data.feature_names is None else list(X.columns)
    origin = Origin(
        task, data.target, names, data.zero_based, X.shape[1], not is_sparse(X),
        [name for name in names or () if X[name].dtype.kind not in "fiub"],
        {name: written for name, written in (data.dates or {}).items() if name in X.columns},
    )  # fmt: skip
    y = as_targets(data.y, task)
    doubts = empty + doubts_of(X, y, task, origin.dates)
    tell(doubts)
    return Training(X, y, task, origin, _codes_of(groups, path), doubts)


def _without_empty(X):
    """X without the columns of a frame that hold nothing, and a sentence on them."""
    empty = list(X.columns[X.isna().all()]) if hasattr(X, "columns") else []
    if not empty:
        return X, []
    if len(empty) == X.shape[1]:
        raise ValueError(f"No column holds anything to learn from: {', '.join(map(repr, empty))}.")
    words = f"columns that hold nothing are left out: {', '.join(map(repr, empty))}"
    return X.drop(columns=empty), [words]


def _codes_of(groups, path):
    """Groups by number; raise for rows without one."""
    if groups is None:
        return None
    without = groups.isna().to_numpy()
    if without.any():
        raise ValueError(
            f"{path}: {np.count_nonzero(without)} rows have no entry in the column {groups.name!r} "
            f"of groups, the first being row {int(without.argmax()) + 1}; every row needs one."
        )
    return groups.factorize()[0]


def as_in_training(X, dense=None):
    """Sparse rows of which half are there are made dense, unless it is known what they were in
    training: they are a table, written as LIBSVM text.
    """
    if not is_sparse(X):
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

    return pd.DataFrame(X.toarray() if is_sparse(X) else X, columns=names)


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
