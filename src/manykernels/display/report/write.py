"""A report on a fitted model in one HTML file."""

import os
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..._files import check_replaceable, replace_file
from ..._html import element
from ..._words import count, number, percent, seconds
from ..facts import Shares, fitted_model, rows_of, training_rows
from .background import data_section, formulation_section, work_section
from .columns import columns_section
from .fit import certificate_section, convergence_section, tuning_section, weights_section
from .matter import matter_section
from .outcome import outcome_section, score
from .page import Charts, check_room, page
from .sure import sure_section


def report(
    estimator: BaseEstimator,
    X: Any = None,
    y: ArrayLike | None = None,
    *,
    path: str | os.PathLike[str],
    title: str | None = None,
    explanation: Any = None,
    stability: Any = None,
    importance: Any = None,
    shapley: Any = None,
) -> Path:
    """Write a report on a fitted model: one HTML file that needs no network.

    It begins with which groups matter, and how well the model does on the data given here. Then it
    says which groups and kernels carry the weight and the decision, how close to the optimum it is
    proven to be, how the fit went, what it was trained on, what was optimized, and what it cost. A
    part for which something is missing, such as data to judge the model on, is left out with a
    word.

    Parameters
    ----------
    estimator : fitted MKLClassifier, MKLRegressor or MKLOneClass
        Or a pipeline or search that ends in one.
    X, y : data to judge the model on, optional
        Best data that it was not trained on, as the estimator takes them: a confusion matrix and
        curves of other thresholds, residuals, or scores are shown for them, and how much worse the
        model is if one group is mixed up.
    path : str or path
        The file to write, in a folder that is there. It is replaced in one move, so nobody reads
        half a report.
    title : str, optional
        The kind of the model and its number of features by default.
    explanation : Explanation, optional
        What `manykernels.explain` found, for the first section; without it there are only the
        shares of the groups, and what X and y say of them.
    stability, importance : Stability and Importance, optional
        What `manykernels.stability` and `manykernels.group_importance` found, to be shown too.
    shapley : ShapleyValues, optional
        What `manykernels.shapley_values` found, for a section on single columns.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    ImportError
        Without altair and vl-convert-python (``manykernels[report]``).
    MemoryError
        Where a limit on the addresses of the process (``ulimit -v``) is too low for the engine that
        prepares the charts.
    CannotWrite
        An OSError: what was there before still is.
    """
    model = fitted_model(estimator)
    check_is_fitted(model)
    if X is None and y is not None:
        raise ValueError("report() was given y without X; give both, or neither of them.")
    check_replaceable(path)
    check_room()
    # a feature selector does not predict
    judged = estimator if hasattr(estimator, "predict") else model
    shares = Shares(model, with_contributions=True)
    sure = {"explanation": explanation, "stability": stability, "importance": importance}
    sure["shapley"] = shapley
    story = Story(judged, model, shares, X, y, **sure)
    sections = (
        matter_section,
        outcome_section,
        weights_section,
        columns_section,
        sure_section,
        tuning_section,
        certificate_section,
        convergence_section,
        data_section,
    )
    title = title or f"{type(model).__name__} on {count(model.n_features_in_, 'feature')}"
    parts = [_header(story, title), _tiles(story)]
    parts += [part(story) for part in (*sections, formulation_section, work_section)]
    text = page(title, [part for part in parts if part], story.charts)
    replace_file(path, [text.encode()])
    return Path(path)


def _header(story, title):
    model, kind = story.model, type(story.model).__name__
    words = [kind]
    if hasattr(model, "classes_"):
        words.append(count(len(model.classes_), "class"))
    elif len(model.intercept_) > 1:
        words.append(count(len(model.intercept_), "target"))
    words += [count(story.shares.m, "kernel" if story.is_sum else "weight")]
    words.append(f"report of {datetime.now():%d %B %Y, %H:%M}")
    return element("header", element("h1", title), element("p", " · ".join(words), class_="soft"))


def _tiles(story):
    """The few numbers to look at first."""
    result, shares, tiles = story.result, story.shares, []
    judged = score(story)
    if judged is not None:
        tiles.append(judged)
    tiles.append(
        (
            f"{shares.used:,} of {shares.m:,}",
            "kernels have weight" if story.is_sum else "weights above zero",
        )
    )
    if result is not None:
        gap = result.duality_gap
        has_gap = gap < float("inf")
        bound = (percent(max(gap, 0.0)), "left to gain at most")
        tiles.append(bound if has_gap else (number(result.objective), "objective"))
        tiles.append((seconds(result.seconds), "to train"))
    made = [
        element("div", element("b", value), element("span", word), class_="tile")
        for value, word in tiles
    ]
    return element("div", *made, class_="tiles")


# --- what the sections of a report are about ------------------------------------------------------


@dataclass
class Story:
    """A model, what is known of its kernels, and data to judge it on.

    Attributes
    ----------
    given : the estimator as it was given, which may be a pipeline or a search
    model : fitted MKL estimator
    shares : Shares
    X, y : data, or None
    explanation, stability, importance : Explanation, Stability and Importance, or None
    shapley : ShapleyValues or None
    charts : Charts
        Those placed so far.
    """

    given: object
    model: object
    shares: Shares
    X: object = None
    y: object = None
    explanation: object = None
    stability: object = None
    importance: object = None
    shapley: object = None
    charts: Charts = field(default_factory=Charts)

    @cached_property
    def predicted(self):
        """Predictions for X, computed once."""
        return np.asarray(self.given.predict(self.X))

    @cached_property
    def rows(self):
        """X as the model gets it, after the other steps of a pipeline."""
        return rows_of(self.given, self.X)

    @cached_property
    def trained_on(self):
        """Whether X and y are the rows that the model was trained on."""
        if self.X is None:
            return False
        # others than a table are matrices K(test, train)
        shape = getattr(self.rows, "shape", None) or np.shape(self.rows)
        if len(shape) != 2 or shape[1] != self.model.n_features_in_:
            return False
        y = np.zeros(len(self.predicted)) if self.y is None else self.y
        return training_rows(self.model, self.rows, y) is not None

    @property
    def is_sum(self):
        """Whether the kernel is a weighted sum, so that its weights belong to kernels."""
        return self.model.bank_.is_sum

    @property
    def result(self):
        """The outcome of the fit, or None if it was not kept."""
        return getattr(self.model, "result_", None)
