"""What a model learned, written into the data that it came from."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._shares import heard_shares
from .._version import __version__
from .blocks import is_several
from .report import some
from .views import Views


def store(
    model: Any,
    data: Any,
    views: Views | None = None,
    *,
    key: str = "manykernels",
    predict: bool = False,
) -> None:
    """Write the weights of a fitted model into an AnnData or MuData, in place.

    Everything is of types that ``write_h5ad`` and ``write_h5mu`` can write.

    Parameters
    ----------
    model : MKL estimator
        Fitted on `views`, or on the AnnData itself. Of a pipeline, give the last step.
    data : AnnData or MuData
    views : Views, optional
        What the model was fitted on, if that was not the AnnData itself: it says which gene a
        column is.
    key : str
        ``uns[key]`` gets the tables ``weights`` (of kernels) and ``groups``, and C, p, the gap and
        the like. ``var[key + "_weight"]`` gets the weight of each gene: the shares of all kernels
        that see it, summed, without those that only regularize, whose share of everything is
        ``uns[key]["regularization"]``; genes of several groups have that of all of them. In a
        MuData it is in the ``var`` of the modalities.
    predict : bool
        Whether ``obs[key + "_prediction"]`` gets predictions, for the samples of `views` or all.
    """
    if not hasattr(model, "weights_frame"):
        raise TypeError(
            f"model must be an estimator of this library, got {type(model).__name__}; of a "
            "pipeline, give the last step: pipeline[-1]."
        )
    check_is_fitted(model)
    if not model.bank_.is_sum:
        raise ValueError("The weights of this model are not those of a sum of kernels.")
    places = _places(model, data, views)
    data.uns[key] = _facts(model)
    _put_weights(data, places, _column_weights(model), f"{key}_weight")
    if predict:
        _put_predictions(model, data, views, f"{key}_prediction")


def _facts(model):
    """What a file can hold of a model."""
    frame = model.weights_frame()
    frame = frame[[name for name in frame.columns if not name.startswith("weight ")]]
    facts = {
        "estimator": type(model).__name__,
        "version": __version__,
        "weights": frame.set_index(frame.index.astype(str)),
        "groups": _groups_frame(model),
        "gap": float(model.result_.duality_gap),
        "converged": bool(model.result_.status.converged),
        "regularization": float(model.group_weights_.regularization),
    }
    for name in ("C", "p", "nu"):
        value = getattr(model, f"{name}_", getattr(model, name, None))
        if isinstance(value, numbers.Real):
            facts[name] = float(value)
    if getattr(model, "regularizer", None) is not None:
        del facts["p"]
        facts["regularizer"] = repr(model.regularizer)
    if np.ndim(model.kernel_weights_) == 2:
        facts["output_weights"] = np.asarray(model.kernel_weights_, dtype=float)
        facts["outputs"] = np.array([str(name) for name in model._output_names()], dtype=object)
        facts["kernels"] = np.array(list(model.kernel_names_), dtype=object)
    return facts


def _groups_frame(model):
    import pandas as pd

    shares = model.group_weights_
    frame = pd.DataFrame({"share": list(shares.values())}, index=list(map(str, shares)))
    if hasattr(model, "kernel_contributions_"):
        frame["contribution"] = list(model.group_contributions_.values())
    return frame.sort_values("share", ascending=False, kind="stable")


def _column_weights(model):
    """Summed shares of the kernels that see each column, (n_features,)."""
    weights = np.zeros(model.n_features_in_)
    heard, _ = heard_shares(model.kernel_weights_, model._is_silent)
    for k, share in enumerate(heard):
        columns = model.bank_.columns_of(k)
        weights[slice(None) if columns is None else columns] += share
    return weights


def _places(model, data, views):
    """Modality and gene of each column; None for one that is not of a gene."""
    names = getattr(model, "feature_names_in_", None)
    if views is None:
        if is_several(data) or names is None or not set(names) <= set(data.var_names):
            raise ValueError(
                "The columns of this model are not the var_names of data: give the views that it "
                "was fitted on, store(model, data, views)."
            )
        return [("", name) for name in names]
    if len(views.columns) != model.n_features_in_ or (
        names is not None and list(names) != list(views.columns)
    ):
        raise ValueError(
            f"The model was fitted on other columns ({model.n_features_in_}) than these views have "
            f"({len(views.columns)})."
        )
    return [
        (origin.source.modality, origin.name) if origin.source.kind == "layers" else None
        for origin in views.origins
    ]


def _put_weights(data, places, weights, name):
    parts = data.mod if is_several(data) else {"": data}
    sums: dict[str, dict[str, list]] = {}
    for place, weight in zip(places, weights, strict=True):
        if place is not None:
            sums.setdefault(place[0], {}).setdefault(place[1], []).append(weight)
    for modality, found in sums.items():
        if modality not in parts:
            raise ValueError(f"data has no modality {modality!r}, which the model was fitted on.")
        var = parts[modality].var
        lost = [gene for gene in found if gene not in var.index]
        if lost:
            raise ValueError(f"data lack {len(lost)} genes of the model: {some(lost)}.")
        parts[modality].var[name] = [float(sum(found.get(gene, ()))) for gene in var.index]


def _put_predictions(model, data, views, name):
    import pandas as pd

    table = data if views is None else views
    predicted = model.predict(table)
    if predicted.ndim != 1:
        raise ValueError("Predictions of several targets do not fit into a column of obs.")
    names = list(table.obs_names)
    lost = sorted(set(names) - set(data.obs_names))
    if lost:
        raise ValueError(f"data lack {len(lost)} samples of the views: {some(lost)}.")
    column = pd.Series(predicted, index=names)
    if hasattr(model, "classes_"):
        classes = [str(label) for label in model.classes_]
        column = pd.Series(pd.Categorical(column.astype(str), categories=classes), index=names)
    data.obs[name] = column.reindex(data.obs_names)
