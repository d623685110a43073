"""Steps of scikit-learn's pipelines as JSON and arrays, and back.

Of each the parameters of its constructor are kept, and what it learned: plain values, arrays,
texts, and other steps. Only classes of the table below are ever built again, by their own
constructors, and no attribute can take the place of one of their methods.
"""

import numpy as np
from sklearn import compose, decomposition, feature_selection, impute, pipeline, preprocessing
from sklearn.base import BaseEstimator

from .._files import CorruptFile
from ..estimators import MKLFeatureSelector
from .values import CannotSave, check_array, check_list, require

STEPS = {
    kind.__name__: kind
    for kind in (
        compose.ColumnTransformer,
        decomposition.PCA,
        feature_selection.SelectKBest,
        feature_selection.SelectPercentile,
        feature_selection.VarianceThreshold,
        impute.MissingIndicator,
        impute.SimpleImputer,
        pipeline.FeatureUnion,
        pipeline.Pipeline,
        preprocessing.Binarizer,
        preprocessing.FunctionTransformer,
        preprocessing.MaxAbsScaler,
        preprocessing.MinMaxScaler,
        preprocessing.Normalizer,
        preprocessing.OneHotEncoder,
        preprocessing.OrdinalEncoder,
        preprocessing.RobustScaler,
        preprocessing.StandardScaler,
        MKLFeatureSelector,
    )
}
HELPERS = {"make_column_selector": compose.make_column_selector}
# of one run or one process, or of a file that was loaded
LOCAL = ("_metadata_request", "_skl_callbacks", "extra_")


def on_one_machine(model):
    """The same with an estimator of one machine at its end, where it was trained on a cluster."""
    if type(model) is pipeline.Pipeline and model.steps:
        *before, (name, last) = model.steps
        ordinary = on_one_machine(last)
        return model if ordinary is last else pipeline.Pipeline([*before, (name, ordinary)])
    return model.ordinary() if hasattr(model, "ordinary") else model


def check_last(model, estimators):
    """Raise CannotSave unless a model is one of these estimators, or a pipeline that ends in one.

    Parameters
    ----------
    estimators : mapping from name to class
    """
    last = model
    while type(last) is pipeline.Pipeline and last.steps:
        last = last.steps[-1][1]
    if estimators.get(type(last).__name__) is type(last):
        return
    if isinstance(getattr(model, "best_estimator_", None), BaseEstimator):
        raise CannotSave(
            f"A model file does not hold a search; save the {type(model).__name__}'s "
            "best_estimator_."
        )
    whose = "" if last is model else ", in which the pipeline ends,"
    if isinstance(last, MKLFeatureSelector):
        raise CannotSave(
            f"{type(last).__name__}{whose} predicts nothing, and a model file holds what predicts: "
            f"save a pipeline with it before the last step, which is one of "
            f"{', '.join(sorted(estimators))}, or use pickle, joblib or skops."
        )
    raise CannotSave(
        f"{type(last).__name__}{whose} is not an estimator of this library: use pickle, joblib or "
        "skops."
    )


def describe(step, packer):
    """A step as a mapping that JSON can hold."""
    name = type(step).__name__
    if STEPS.get(name) is not type(step):
        raise CannotSave(
            f"A model file cannot hold {name}; before the last step it holds "
            f"{', '.join(sorted(STEPS))}. Use one of these, or pickle, joblib or skops for this "
            "model."
        )
    parameters = step.get_params(deep=False)
    learned = {
        key: value
        for key, value in vars(step).items()
        if key not in parameters and key not in LOCAL
    }
    return {
        "estimator": name,
        "parameters": {key: packer.pack(one, f"{name}.{key}") for key, one in parameters.items()},
        "learned": {key: packer.pack(one, f"{name}.{key}") for key, one in learned.items()},
    }


def rebuild(described, unpacker, depth):
    """The step of a mapping."""
    name = described["estimator"]
    if name not in STEPS:
        raise CorruptFile(f"{str(name)[:40]!r} is not an estimator that files may hold.")
    kind, depth = STEPS[name], depth + 1
    parameters = {key: unpacker.unpack(one, depth) for key, one in described["parameters"].items()}
    step = kind(**parameters)
    if hasattr(kind, "_parameter_constraints"):
        step._validate_params()  # as its `fit` does
    for key, one in described["learned"].items():
        if not key.isidentifier() or key in parameters or hasattr(kind, key):
            raise CorruptFile(f"{name} cannot have learned {key[:40]!r}.")
        vars(step)[key] = unpacker.unpack(one, depth)
    _check_names(step, name)
    _check_features(step, name)
    return step


def _check_names(step, name):
    """Raise unless the steps within a step are named by texts, and the fitted ones are those that
    were given.
    """
    for inner in ("steps", "transformer_list", "transformers", "transformers_"):
        for one in getattr(step, inner, None) or ():
            good = isinstance(one, (tuple, list)) and len(one) > 1 and isinstance(one[0], str)
            require(good, f"{name} holds a step without a name.")
    given = {one[0]: one[1] for one in getattr(step, "transformers", None) or ()}
    for one in getattr(step, "transformers_", None) or ():
        wanted = given.get(one[0])
        same = not isinstance(wanted, BaseEstimator) or type(one[1]) is type(wanted)
        require(same, f"{name} holds another step than it was given.")


def _check_features(step, name):
    """Raise unless the columns that a step has seen are a number, with as many names."""
    seen = vars(step).get("n_features_in_")
    names = vars(step).get("feature_names_in_")
    if seen is not None and (type(seen) is not int or seen < 0):
        raise CorruptFile(f"{name} has not seen a number of columns.")
    if names is not None:
        require(np.shape(names) == (seen,), f"{name} has not a name for every column.")
        require(all(isinstance(one, str) for one in names), f"{name} has names that are no text.")
    if hasattr(step, "categories_"):
        for entries in check_list(step.categories_, f"Categories of {name}", seen):
            check_array(entries, f"Categories of {name}", (None,), "biufOU", finite=False)
