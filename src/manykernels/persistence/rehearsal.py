"""Trying a loaded model and the steps of a pipeline on a few rows, before anybody needs them.

What scikit-learn's steps have learned is theirs to know, so that a file could hold steps that fit
no data. Each step of a pipeline is given a row like those it was fitted on, and must make of it as
many columns as the next one has seen, which must take them. A model must give finite decision
values at some of its own points: numbers that are finite each may overflow together.
"""

import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..estimators.data.units import in_units
from ..estimators.outcomes import one_sided
from .banks import typical_points
from .values import require

# what steps keep of their training data, any row of which they take
TYPICAL = ("mean_", "center_", "data_min_", "max_abs_")
PLAIN = (0.0, 10.0)  # numbers that every scaler takes
LARGEST = 1e200  # decision value at the points of a model
WIDEST = 10**6  # columns of a row that is made
# what is wrong with the row, not with the step: a logarithm of what a scaler makes of it
OF_VALUES = ("NaN", "infinity", "unknown categor")


@contextmanager
def _quiet():
    """Nothing is said of what a model is tried on, but that compiled loops are not kept: that is
    said once in a process.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", message="Compiled loops")
        yield


def rehearse(model):
    """Raise unless a model has finite decision values, and every step of a pipeline takes a row and
    gives one to the next.
    """
    if hasattr(model, "decision_"):
        _rehearse_decision(model)
    if not isinstance(model, Pipeline):
        return
    steps = [step for _, step in model.steps if not _is_passed(step)]
    require(all(isinstance(step, BaseEstimator) for step in steps), "A step is no estimator.")
    for step, after in pairwise(steps):
        seen = _columns_seen(after)
        for made in (_tried(step), _tried(step, value=0.0)):
            if made is not None and seen is not None:
                require(made.shape == (1, seen), f"{type(after).__name__} has seen other columns.")
                _tried(after, made)
        if not get_tags(after).input_tags.allow_nan:
            for leaf in _leaves(step):
                _check_finite(leaf)
    for step in steps:
        check_is_fitted(step)
        rehearse(step)


def _rehearse_decision(model):
    """Raise unless decision values and probabilities are finite at rows like those of the
    training.
    """
    decision = model.decision_
    with _quiet():
        if getattr(decision.bank, "needs_grams", False):
            parts = [[np.ones((1, decision.n_fit))] * len(decision.bank.names)]
        else:
            parts = [typical_points(decision.bank, model.n_features_in_)]
            if hasattr(model, "feature_means_") and not sparse.issparse(parts[0]):
                parts.append(in_units(model, np.zeros((1, model.n_features_in_))))
        for rows in parts:
            scores = _checked_scores(decision.scores(rows))
            for table, values in zip(
                getattr(model, "calibration_table_", None) or (), scores, strict=False
            ):
                found = one_sided(model.calibration_kind_, table, values)
                require(np.isfinite(found).all(), "Probabilities are not finite.")


def _checked_scores(scores):
    """Decision values, if they are numbers that do not overflow at the next row."""
    require((np.abs(scores) < LARGEST).all(), "Decision values are not finite, or too large.")
    return scores


def _leaves(step):
    """The steps within a step that make what it gives to the next."""
    if isinstance(step, Pipeline):
        return _leaves(step.steps[-1][1])
    if isinstance(step, ColumnTransformer):
        return [leaf for _, inner, _ in step.transformers_ for leaf in _leaves(inner)]
    if isinstance(step, FeatureUnion):
        return [leaf for _, inner in step.transformer_list for leaf in _leaves(inner)]
    return [step] if isinstance(step, BaseEstimator) else []


def _check_finite(step):
    """Raise if a step makes NaN of a row like those that it was fitted on, or of plain numbers."""
    for made in (_tried(step), *(_tried(step, value=value) for value in PLAIN)):
        if made is not None:
            values = made.data if sparse.issparse(made) else np.asarray(made)
            finite = values.dtype.kind not in "fc" or np.isfinite(values).all()
            require(finite, f"{type(step).__name__} makes NaN of numbers.")


def _is_passed(step):
    return step is None or (isinstance(step, str) and step == "passthrough")


def _tried(step, table=None, value=None):
    """What a step makes of a table, or of a row like those that it was fitted on, with a value in
    the place of its typical numbers if one is given; None if that cannot be tried.
    """
    if table is None:
        count = _columns_seen(step)
        if count is None or count > WIDEST:
            return None
        row = _row(step, value)
        require(len(row) == count, f"{type(step).__name__} has seen other columns.")
        table = _table(row, getattr(step, "feature_names_in_", None))
    if table is None or _takes_matrices(step):
        return None
    with _quiet():
        try:
            if hasattr(step, "decision_"):
                return _checked_scores(step._scores(table))
            return step.transform(table) if hasattr(step, "transform") else step.predict(table)
        except ValueError as error:
            if any(words in str(error) for words in OF_VALUES):
                return None
            raise


def _table(row, names):
    """A table of one row, a data frame if its columns have names; None if there is no pandas."""
    if names is None:
        texts = any(isinstance(entry, str) for entry in row)
        return np.array([row], dtype=object if texts else None)
    try:
        import pandas as pd
    except ImportError:
        return None
    return pd.DataFrame({name: [entry] for name, entry in zip(names, row, strict=True)})


def _takes_matrices(step):
    """Whether a model predicts from matrices K(test, train) in the place of rows."""
    return getattr(getattr(step, "bank_", None), "needs_grams", False)


def _columns_seen(step):
    while isinstance(step, Pipeline) and step.steps:
        step = step.steps[0][1]
    return getattr(step, "n_features_in_", None)


def _row(step, value=None):
    """A row like those that a step was fitted on, or with a value in the place of its typical
    numbers.
    """
    if isinstance(step, Pipeline):
        return _row(step.steps[0][1], value)
    if isinstance(step, FeatureUnion):
        return _row(step.transformer_list[0][1], value)
    if isinstance(step, ColumnTransformer):
        return _row_of_columns(step, value)
    if hasattr(step, "categories_"):
        return [entries[0] if len(entries) else np.nan for entries in step.categories_]
    if hasattr(step, "statistics_"):
        return [1.0 if entry != entry else entry for entry in step.statistics_.tolist()]
    for name in TYPICAL:
        values = getattr(step, name, None)
        if isinstance(values, np.ndarray) and values.shape == (step.n_features_in_,):
            return np.where(np.isfinite(values), values if value is None else value, 1.0).tolist()
    require(step.n_features_in_ <= WIDEST, f"{type(step).__name__} has seen other columns.")
    return [1.0] * step.n_features_in_


def _row_of_columns(step, value):
    row = [1.0] * step.n_features_in_
    for name, inner, _ in step.transformers_:
        columns = step._transformer_to_input_indices[name]
        if not isinstance(inner, str) and len(columns):
            for f, entry in zip(columns, _row(inner, value), strict=True):
                row[f] = entry
    return row
