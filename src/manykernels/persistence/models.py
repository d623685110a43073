"""Model files: what a fitted estimator needs to predict, and nothing that could run.

A file keeps the support vectors (or landmarks) with their coefficients, the kernels and their
scales, the weights, the outcome of the training and the constructor's parameters. `load` gives back
an ordinary estimator.
"""

import json

import numpy as np

from .._files import CorruptFile, read, write
from ..kernels import KernelCollection, Precomputed
from ..result import Certificate, Counters, Record, Result, Resumed, Status
from .banks import describe, rebuild
from .values import CannotSave, Packer, Unpacker

# learned, and stored as they are
PLAIN = (
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "p_",
    "p_scores_",
    "_y_ndim_",
    "categories_",
)
ESTIMATORS = ("MKLClassifier", "MKLOneClass", "MKLRegressor")
LOCAL = ("checkpoint", "callbacks")  # parameters that belong to one run on one machine


def save(estimator, path, extra=None):
    """Write a fitted estimator to a file; see `MKLClassifier.save`."""
    if (
        type(estimator).__name__ not in ESTIMATORS
        or type(estimator).__module__.partition(".")[0] != "manykernels"
    ):
        raise CannotSave(
            f"{type(estimator).__name__} is not an estimator of this library: use pickle, joblib "
            "or skops."
        )
    packer = Packer()
    content = _content(estimator, packer)
    content["extra"] = _plain_json(extra)
    # only now: whatever cannot be stored was refused before
    write(path, packer.arrays, content, "model")


def load(path):
    """The estimator of a model file that `save` wrote.

    It predicts as it did before, and can be fitted again. Not in the file are the training data, so
    that ``result_.beta`` has the coefficients of the support vectors only, results of other starts,
    callbacks and the checkpoint's path; other parameters that could not be stored are named in
    ``unsaved_parameters_`` and have their default values. The attribute ``extra_`` is what was
    given to `save`.

    A file is data, never code: at worst it is refused.

    Parameters
    ----------
    path : path

    Returns
    -------
    MKLClassifier, MKLRegressor or MKLOneClass

    Raises
    ------
    CorruptFile
        A ValueError: the file is damaged, or not a model.
    """
    arrays, content = read(path, "model")
    try:
        return _estimator(content, Unpacker(arrays))
    except CorruptFile as error:
        raise CorruptFile(f"{path} does not hold a sound model: {error}") from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:
        raise CorruptFile(
            f"{path} does not hold a sound model ({type(error).__name__}: {error})."
        ) from error


def _content(estimator, packer):
    _refuse_indices(estimator)
    result, points = estimator.result_, estimator._bank_support
    # a bank needs a point
    bank, kept = describe(estimator.bank_, points if points.size else np.zeros(1, dtype=np.intp))
    low_rank = estimator._coefficients is not None
    learned = {name: getattr(estimator, name) for name in PLAIN if hasattr(estimator, name)}
    learned["feature_names_in_"] = _texts(learned.get("feature_names_in_"))
    numbers = {
        "support_": estimator.support_,
        "dual_coef_": estimator.dual_coef_,
        "intercept_": estimator.intercept_,
    }
    machine = {
        name: getattr(estimator, name) for name in ("_coefficients", "_norms", "_n_fit", "n_iter_")
    }
    parameters, unsaved = _parameters(estimator, packer)
    return {
        "estimator": type(estimator).__name__,
        "parameters": parameters,
        "unsaved": unsaved,
        "learned": packer.pack(learned | numbers | machine, "the model"),
        "bank": packer.pack(bank, "kernels"),
        "support": packer.pack(np.searchsorted(kept, points), "the model"),
        "result": packer.pack(
            _outcome(result, np.empty(0, dtype=np.intp) if low_rank else kept), "the result"
        ),
    }


def _refuse_indices(estimator):
    """Raise where predictions need Gram matrices at sample indices, which a file does not hold."""
    bank = getattr(estimator.bank_, "bank", getattr(estimator.bank_, "source", estimator.bank_))
    spec = getattr(getattr(bank, "kernels", bank), "spec", None)
    given = [
        isinstance(kernel, Precomputed) for kernel in (spec.kernels if spec is not None else [])
    ]
    if not any(given):
        return
    plain = all(given) and estimator.n_features_in_ == 1 and hasattr(estimator.bank_, "spec")
    if not plain or estimator.bank_.normalize in ("cosine", "center"):
        raise CannotSave(
            "This model predicts from the Gram matrices of precomputed kernels at sample indices, "
            "which a model file does not "
            "hold: use pickle or joblib. (With precomputed kernels alone, normalize='diagonal', "
            "'trace' or None and no "
            "approximation, a model predicts from K(test, train) and can be saved.)"
        )


def _texts(names):
    return None if names is None else np.array([str(name) for name in names], dtype=object)


def _parameters(estimator, packer):
    """Packed parameters of the constructor, and a few words for each that cannot be packed."""
    packed, unsaved = {}, {}
    for name, value in estimator.get_params(deep=False).items():
        if name in LOCAL:
            continue
        before = dict(packer.arrays)
        try:
            packed[name] = packer.pack(_collection(value) if name == "kernels" else value, name)
        except CannotSave:
            unsaved[name], packer.arrays = repr(value)[:200], before
    return packed, unsaved


def _collection(kernels):
    """Kernels without the data that a fitted bank has."""
    bank = getattr(kernels, "source", getattr(kernels, "bank", kernels))
    if hasattr(bank, "collection"):
        return bank.collection
    return KernelCollection(bank.spec.kernels) if hasattr(bank, "spec") else kernels


def _outcome(result, kept):
    history = np.array([record[:6] for record in result.history], dtype=float).reshape(-1, 6)
    return {
        "weights": result.weights,
        "beta": result.beta[:, kept],
        "intercept": result.intercept,
        "status": result.status.name,
        "certificate": [
            float(getattr(result.certificate, name))
            for name in ("primal", "dual", "gap", "rounding")
        ],
        "n_iter": int(result.n_iter),
        "counters": {name: float(value) for name, value in vars(result.counters).items()},
        "history": history,
        "resumed": None if result.resumed is None else [float(number) for number in result.resumed],
    }


def _plain_json(extra):
    """Extra information, if JSON can hold it."""
    if extra is None:
        return {}
    try:
        return json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CannotSave(
            f"extra must be a dictionary of texts, finite numbers, lists and dictionaries: {error}."
        ) from None


def _estimator(content, unpacker):
    from .. import estimators

    if content["estimator"] not in ESTIMATORS:
        raise CorruptFile(f"{content['estimator']!r} is not an estimator that files may hold.")
    kind = getattr(estimators, content["estimator"])
    parameters = {
        name: unpacker.unpack(value)
        for name, value in content["parameters"].items()
        if name not in LOCAL
    }
    model = kind(**parameters)
    model.unsaved_parameters_, model.extra_ = content["unsaved"], content["extra"]
    learned = unpacker.unpack(content["learned"])
    names = learned.pop("feature_names_in_")
    if names is not None:
        model.feature_names_in_ = names
    allowed = {
        *PLAIN,
        "support_",
        "dual_coef_",
        "intercept_",
        "_coefficients",
        "_norms",
        "_n_fit",
        "n_iter_",
    }
    for name in allowed & learned.keys():
        setattr(model, name, learned[name])
    model.bank_ = rebuild(unpacker.unpack(content["bank"]), names, getattr(model, "n_jobs", None))
    model.result_ = _result(unpacker.unpack(content["result"]))
    model.kernel_weights_, model.other_results_ = model.result_.weights, []
    model._bank_support = unpacker.unpack(content["support"])
    _check(model)
    return model


def _result(outcome):
    primal, dual, gap, rounding = outcome["certificate"]
    whole = (int, float, float, int, int, float)
    history = [
        Record(*(kind(value) for kind, value in zip(whole, row, strict=True)))
        for row in outcome["history"].tolist()
    ]
    counters = Counters(**{name: int(value) for name, value in outcome["counters"].items()})
    counters.seconds = float(outcome["counters"]["seconds"])
    certificate = Certificate(primal, dual, gap, outcome["intercept"], rounding)
    numbers = (outcome["weights"], outcome["beta"], outcome["intercept"])
    resumed = (
        None
        if outcome["resumed"] is None
        else Resumed(int(outcome["resumed"][0]), *outcome["resumed"][1:])
    )
    return Result(
        *numbers,
        Status[outcome["status"]],
        certificate,
        outcome["n_iter"],
        counters,
        history,
        resumed,
    )


def _check(model):
    """Raise unless the parts of a model fit each other."""
    outputs, m = len(model.intercept_), len(model.bank_.names)
    weights, beta, support = model.kernel_weights_, model.result_.beta, model._bank_support
    fits = weights.shape in ((m,), (outputs, m)) and model.dual_coef_.shape == (
        outputs,
        model.support_.size,
    )
    if model._coefficients is None:
        fits &= (
            beta.shape == (outputs, model.bank_.n)
            and support.ndim == 1
            and support.dtype.kind == "i"
        )
        fits &= support.size == 0 or (0 <= support.min() and support.max() < model.bank_.n)
    else:
        fits &= model._coefficients.shape == (outputs, model.bank_.width) and np.shape(
            model._norms
        ) == (outputs, m)
    if not fits:
        raise CorruptFile("its parts do not fit each other.")
