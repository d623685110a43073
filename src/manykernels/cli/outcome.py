"""What ``train`` does once its data are read: scores, the model's file, the report."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..persistence import save
from .fitting import fold_scores, held_out, train_on
from .inputs import Origin
from .summary import described


class Plan(NamedTuple):
    """What to write, and what to score the model on."""

    out: Path
    report: Path | None = None
    test: Path | None = None
    holdout: float | None = None
    cv: int | None = None

    def check(self):
        """Raise for a folder that is not there, before hours are spent on training."""
        for path in (self.out, self.report):
            folder = os.path.dirname(os.path.abspath(path)) if path is not None else "."
            if not os.path.isdir(folder):
                raise FileNotFoundError(f"There is no folder {folder} to write {path} to.")


def carry_out(data, task, settings, plan, began):
    """Train as planned and return what happened, as a mapping.

    After Ctrl-C the model is that of the best weights so far; it is written, but nothing more is
    computed.
    """
    plan.check()
    scores = {}
    if plan.cv is not None:
        scores["cross-validated"] = fold_scores(
            data.X, data.y, task, replace(settings, checkpoint=None), plan.cv
        )
    X, y, X_test, y_test = _parts(data, task, settings.seed, plan)
    trained = train_on(X, y, task, settings)
    save(
        trained.estimator,
        plan.out,
        extra={"train": _origin(data, task, trained.scaling)._asdict()},
    )
    if trained.status.name != "INTERRUPTED":
        scores |= _scores(trained, (X, y), (X_test, y_test), plan)
        if plan.report is not None:
            _report(trained, X_test, y_test, plan)
    return {
        "model": str(plan.out),
        "task": task,
        "data": _described(X, y, task, trained.scaling),
        **described(trained.estimator),
        "measure": "accuracy" if task == "classification" else "R²",
        "scores": scores,
        "seconds": time.perf_counter() - began,
    }


def _described(X, y, task, scaling):
    classes = np.unique(y).tolist() if task == "classification" else None
    return {
        "rows": len(y),
        "features": X.shape[1],
        "standardized": scaling is not None,
        "classes": classes,
    }


def _parts(data, task, seed, plan):
    """Rows to train on, and rows to score the model on if there are any."""
    if plan.holdout is not None:
        return held_out(data.X, data.y, task, plan.holdout, seed)
    if plan.test is not None:
        return data.X, data.y, *_test_rows(_origin(data, task, None), plan.test)
    return data.X, data.y, None, None


def _origin(data, task, scaling):
    scaling = None if scaling is None else scaling.as_dict()
    return Origin(task, data.target, data.feature_names, data.zero_based, data.X.shape[1], scaling)


def _test_rows(origin, path):
    X, y = origin.read(path)
    if y is None:
        raise ValueError(
            f"{path} has no target{f' {origin.target!r}' if origin.target else ''} to score on."
        )
    return X, y


def _scores(trained, training, test, plan):
    """On the test rows; on the training rows only where there is nothing better."""
    if test[0] is not None:
        return {"test" if plan.test is not None else "held out": trained.score(*test)}
    return {} if plan.cv is not None else {"training": trained.score(*training)}


def _report(trained, X_test, y_test, plan):
    from ..display import report

    rows = None if X_test is None else trained.rows(X_test)
    report(trained.estimator, rows, y_test, path=plan.report, title=str(plan.out))
