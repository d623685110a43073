"""Sets of classes, or intervals, by MAPIE from the predictions of given fold models; prints JSON.

The estimator that it is given looks predictions up: which fold it is, it knows from the rows that
it is trained on, so that models and folds are those of the file. Arguments: the file (see
`benchmarks.coverage`).
"""

import json
import sys
import time
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import PredefinedSplit

warnings.simplefilter("ignore")


class LooksUp(BaseEstimator):
    """Predictions of the fold whose rows are not among those that it is trained on."""

    def __init__(self, folds=None, table=None):
        self.folds, self.table = folds, table

    def fit(self, X, y):
        rows = np.asarray(X)[:, 0].astype(int)
        missing = np.setdiff1d(self.folds, self.folds[rows])
        self.fold_ = int(missing[0]) if missing.size else 0
        self.is_fitted_ = True
        return self

    def _found(self, X):
        return self.table[self.fold_][np.asarray(X)[:, 0].astype(int)]


class Classes(ClassifierMixin, LooksUp):
    def fit(self, X, y):
        self.classes_ = np.arange(self.table.shape[2])
        return super().fit(X, y)

    def predict_proba(self, X):
        return self._found(X)

    def predict(self, X):
        return self._found(X).argmax(axis=1)


class Numbers(RegressorMixin, LooksUp):
    def predict(self, X):
        return self._found(X)


def main(path):
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    folds, table, y = data["folds"], data["table"], data["y"]
    train = np.arange(folds.size)[:, None]
    new = np.arange(folds.size, table.shape[1])[:, None]
    make = sets if table.ndim == 3 else intervals
    began = time.perf_counter()
    found = make(folds, table, train, y[: folds.size], new, data["levels"].tolist())
    print()
    print(json.dumps({"seconds": time.perf_counter() - began, "found": found}))


def sets(folds, table, train, y, new, levels):
    from mapie.classification import CrossConformalClassifier

    model = CrossConformalClassifier(
        Classes(folds, table), confidence_level=levels, cv=PredefinedSplit(folds)
    )
    model.fit_conformalize(train, y)
    _, found = model.predict_set(new, agg_scores="crossval")
    return np.moveaxis(found, 2, 0).astype(int).tolist()


def intervals(folds, table, train, y, new, levels):
    from mapie.regression import CrossConformalRegressor

    model = CrossConformalRegressor(
        Numbers(folds, table), confidence_level=levels, cv=PredefinedSplit(folds)
    )
    model.fit_conformalize(train, y)
    _, found = model.predict_interval(new)
    return np.moveaxis(found, 2, 0).tolist()


main(*sys.argv[1:])
