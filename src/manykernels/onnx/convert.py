"""The function that converts a model."""

from typing import Any

import narwhals as nw
import numpy as np
import skl2onnx
from scipy import sparse
from skl2onnx.common.data_types import (
    BooleanTensorType,
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    StringTensorType,
)
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import MKLEstimator
from ..estimators.data.frames import as_table, through_narwhals
from .converters import CLASSIFIERS, parse_to_arrays, register

register()


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    initial_types: list[tuple[str, Any]] | None = None,
    target_opset: int | dict[str, int] | None = None,
) -> Any:
    """A fitted model, or a pipeline that ends in one, as an ONNX graph.

    The graph computes in float64 whatever its inputs are, so that its scores are those of the model
    to the digits of the outputs.

    Parameters
    ----------
    model : fitted estimator or pipeline
        `MKLClassifier`, `MKLRegressor`, `MKLOneClass`, the estimators that tune themselves, or a
        pipeline of steps that skl2onnx knows.
    X : array or DataFrame, optional
        One row or more, whose types become those of the inputs: one input ``X`` for an array,
        and for a data frame one for each column, by its name, with an underscore for what is
        neither letter nor digit. By default numbers are float32, in
        one input ``X`` unless the model has columns of texts. A pipeline whose first steps read
        texts or name columns needs it.
    initial_types : list of (name, type), optional
        The inputs, in place of X, by skl2onnx's types.
    target_opset : int or dict, optional
        The version of ONNX, 13 or more; as skl2onnx chooses by default.

    Returns
    -------
    onnx.ModelProto
        A classifier's outputs are ``label``, ``probabilities`` where there is `predict_proba`, and
        ``scores``, the values of `decision_function`; those of novelty detection ``label`` and
        ``scores``; that of a regression ``variable``, of shape (n, n_targets).

    Raises
    ------
    ValueError
        For what a graph cannot hold: precomputed kernels, kernels that are functions or classes of
        your own, kernels of strings, rows that lack views (``missing="mean"``).

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLRegressor
    >>> from manykernels.onnx import to_onnx
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> graph = to_onnx(MKLRegressor().fit(X, X[:, 0]))
    >>> [one.name for one in graph.graph.output]
    ['variable']
    """
    model = model.ordinary() if hasattr(model, "ordinary") else model
    check_is_fitted(model)
    if initial_types is None:
        initial_types = _types_by_model(model) if X is None else _types_of(X)
    return skl2onnx.convert_sklearn(
        model,
        initial_types=initial_types,
        target_opset=target_opset,
        # with options skl2onnx would compute all attributes of the model, to look for others in it
        custom_parsers=dict.fromkeys(CLASSIFIERS, parse_to_arrays),
    )


def _types_by_model(model):
    """Inputs of float32 and of texts for the columns that a model was trained on."""
    texts = {
        name
        for name, entries in getattr(model, "categories_", {}).items()
        if any(isinstance(entry, str) for entry in entries)
    }
    if not (texts and isinstance(model, MKLEstimator)):
        return [("X", FloatTensorType([None, model.n_features_in_]))]
    return [
        (name, (StringTensorType if name in texts else FloatTensorType)([None, 1]))
        for name in model._column_names()
    ]


def _types_of(X):
    """Inputs of the types that a table has."""
    X = through_narwhals(as_table(X))
    if isinstance(X, nw.DataFrame):
        return [(name, _type(X[name].to_numpy())([None, 1])) for name in X.columns]
    X = X[:1].toarray() if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X needs rows and columns, got shape {X.shape}: use X.reshape(1, -1).")
    return [("X", _type(X)([None, X.shape[1]]))]


def _type(values):
    """The type of an input for values like these."""
    if values.dtype.kind in "OUT":
        texts = any(isinstance(value, str) for value in values.flat)
        return StringTensorType if texts else _type(np.array(values.tolist(), dtype=float))
    if values.dtype.kind == "f":
        return FloatTensorType if values.dtype == np.float32 else DoubleTensorType
    return BooleanTensorType if values.dtype.kind == "b" else Int64TensorType
