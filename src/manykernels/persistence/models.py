"""Our estimators as JSON and arrays, and back.

A file keeps the support vectors (or landmarks) with their coefficients, the kernels and their
scales, the weights, the outcome of the training and the constructor's parameters. The estimator
says what it is (`model_state`), and takes it back (`restore`); here it is only packed.
"""

import numpy as np

from .._files import CorruptFile
from ..banks import SumBank
from ..estimators import MKLClassifier, MKLOneClass, MKLRegressor
from ..estimators.state import ModelState
from ..result import Certificate, Counters, Record, Result, Resumed, Status
from . import banks
from .values import CannotSave

ESTIMATORS = {kind.__name__: kind for kind in (MKLClassifier, MKLOneClass, MKLRegressor)}
LOCAL = ("checkpoint", "callbacks")  # parameters that belong to one run on one machine
# columns of the table that the history of a run is written as
HISTORY = {
    "iteration": int,
    "objective": float,
    "gap": float,
    "svm_solves": int,
    "kernels_used": int,
    "seconds": float,
}
BOUNDS = ("primal", "dual", "gap", "rounding")


def describe(estimator, packer):
    """A fitted estimator as a mapping that JSON can hold."""
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise CannotSave(
            f"{name} is not an estimator of this library: use pickle, joblib or skops."
        )
    estimator.model_state()  # raises if it is not fitted
    _refuse_indices(estimator)
    bank, kept = banks.describe(estimator.bank_, estimator.decision_.points)
    state = estimator.model_state(kept)
    parameters, unsaved = _parameters(estimator, packer)
    return {
        "estimator": name,
        "parameters": parameters,
        "unsaved": unsaved,
        "learned": packer.pack(state.learned, "the model"),
        "bank": packer.pack(bank, "kernels"),
        "decision": packer.pack(state.decision, "the model"),
        "result": packer.pack(_outcome(state.result), "the result"),
    }


def rebuild(described, unpacker, depth):
    """The estimator of a mapping."""
    depth += 1
    parameters = {
        name: unpacker.unpack(value, depth)
        for name, value in described["parameters"].items()
        if name not in LOCAL
    }
    model = ESTIMATORS[described["estimator"]](**parameters)
    model.unsaved_parameters_ = described["unsaved"]
    learned = unpacker.unpack(described["learned"], depth)
    names = learned.get("feature_names_in_")
    bank = banks.rebuild(unpacker.unpack(described["bank"], depth), names, model.n_jobs)
    result = _result(unpacker.unpack(described["result"], depth))
    decision = unpacker.unpack(described["decision"], depth)
    if result.beta.shape[1] != getattr(bank, "n", 0):
        raise CorruptFile("there is not one coefficient per point.")
    return model.restore(ModelState(learned, bank, decision, result))


def _refuse_indices(estimator):
    """Raise where predictions need Gram matrices at sample indices, which a file does not hold."""
    if estimator.bank_.needs_grams and not estimator.decision_.takes_grams:
        raise CannotSave(
            "This model predicts from the Gram matrices of precomputed kernels at sample indices, "
            "which a model file does not hold: use pickle or joblib. (With precomputed kernels "
            "alone, normalize='diagonal', 'trace' or None and no approximation, a model predicts "
            "from K(test, train) and can be saved.)"
        )


def _parameters(estimator, packer):
    """Packed parameters of the constructor, and a few words for each that cannot be packed."""
    packed, unsaved = {}, {}
    for name, value in estimator.get_params(deep=False).items():
        if name in LOCAL:
            continue
        before = dict(packer.arrays)
        try:
            # of a bank the kernels without their data
            value = value.collection() if isinstance(value, SumBank) else value
            packed[name] = packer.pack(value, name)
        except CannotSave:
            unsaved[name], packer.arrays = repr(value)[:200], before
    return packed, unsaved


def _outcome(result):
    history = [[getattr(record, name) for name in HISTORY] for record in result.history]
    resumed = None if result.resumed is None else result.resumed._asdict()
    return {
        "weights": result.weights,
        "beta": result.beta,
        "intercept": result.intercept,
        "status": result.status.name,
        "certificate": {name: float(getattr(result.certificate, name)) for name in BOUNDS},
        "n_iter": int(result.n_iter),
        "counters": {name: float(value) for name, value in vars(result.counters).items()},
        "history": np.array(history, dtype=float).reshape(-1, len(HISTORY)),
        "resumed": resumed,
        "advice": result.advice,
    }


def _result(outcome):
    history = [
        Record(
            **{name: kind(value) for (name, kind), value in zip(HISTORY.items(), row, strict=True)}
        )
        for row in outcome["history"].tolist()
    ]
    work = outcome["counters"]
    counters = Counters(**{name: int(work[name]) for name in work if name != "seconds"})
    counters.seconds = float(work["seconds"])
    bounds = {name: outcome["certificate"][name] for name in BOUNDS}
    return Result(
        weights=outcome["weights"],
        beta=outcome["beta"],
        intercept=outcome["intercept"],
        status=Status[outcome["status"]],
        certificate=Certificate(intercept=outcome["intercept"], **bounds),
        n_iter=outcome["n_iter"],
        counters=counters,
        history=history,
        resumed=None if outcome["resumed"] is None else Resumed(**outcome["resumed"]),
        advice=outcome.get("advice", ""),
    )
