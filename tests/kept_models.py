"""Model files of every version of their format, which every later release must read.

``python tests/kept_models.py`` writes those of the present version into ``tests/models``, for the
day when `SCHEMA` rises; files that are there already are never written again.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLOneClass, MKLRegressor, save
from manykernels._files.container import SCHEMA
from manykernels.kernels import on_groups
from manykernels.lowrank import Nystroem

FOLDER = Path(__file__).parent / "models"
GROUPS = on_groups({"first": [0, 1], "second": [2, 3]})


def tables():
    """Training rows, classes, and new rows."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((40, 4)), 3)
    return X, np.digitize(X[:, 0], [-0.7, 0.7]), np.round(rng.standard_normal((5, 4)), 3)


def frame(X):
    """Rows as a data frame with a column of words."""
    words = np.where(X[:, 2] > 0, "up", "down")
    return pd.DataFrame(X, columns=list("abcd")).assign(e=words)


def answers(model, new):
    """What a model says of new rows, as numbers."""
    given = frame(new) if "a" in getattr(model, "feature_names_in_", ()) else new
    says = getattr(model, "decision_function", model.predict)
    return np.asarray(says(given), dtype=float)


def main():
    X, codes, new = tables()
    sides = np.where(codes > 0, "yes", "no")
    views = np.where(np.arange(40)[:, None] % 5 == np.arange(4) // 2, np.nan, X)
    low_rank = MKLClassifier(GROUPS, approximation=Nystroem(5, random_state=0))
    models = {
        "two": MKLClassifier(GROUPS).fit(X, sides),
        "several": MKLClassifier(GROUPS, loss="logistic", share_weights=False).fit(X, codes),
        "regression": MKLRegressor(GROUPS).fit(X, X[:, :2]),
        "novelties": MKLOneClass(GROUPS).fit(X),
        "frame": MKLClassifier(missing="impute").fit(frame(X), sides),
        "views": MKLClassifier(GROUPS, missing="mean").fit(views, sides),
        "low_rank": low_rank.fit(X, sides),
        "centered": MKLClassifier(GROUPS, normalize="center").fit(X, sides),
        "product": MKLClassifier(combination="product").fit(X, sides),
        "pipeline": make_pipeline(StandardScaler(), MKLClassifier(GROUPS)).fit(X, sides),
    }
    folder = FOLDER / f"schema_{SCHEMA}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models.items():
        path = folder / f"{name}.mk"
        if not path.exists():
            values = answers(model, new).tolist()
            save(model, path, extra={"rows": new.tolist(), "values": values})
            print(path)


if __name__ == "__main__":
    main()
