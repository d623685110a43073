"""Our estimators as JSON and arrays, and back.

A file keeps the support vectors (or landmarks) with their coefficients, the kernels and their
scales, the weights, the outcome of the training and the constructor's parameters. The estimator
says what it is (`model_state`), and takes it back (`restore`); here it is only packed.
"""

import numpy as np

from .._threads import thread_count
from ..banks import SumBank
from ..banks.spec import NORMALIZATIONS
from ..banks.views import RULES
from ..estimators import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
)
from ..estimators.base import ModelState
from ..estimators.calibration import KINDS
from ..estimators.checks import (
    check_bool,
    check_choice,
    check_parameters,
    check_real,
    choose_combination,
    choose_regularizer,
)
from ..estimators.coverage import HeldOutFold
from ..estimators.data.units import MADE
from ..result import (
    Certificate,
    Compression,
    Counters,
    Missing,
    Record,
    Result,
    Resumed,
    Status,
    Subsets,
)
from . import banks
from .learned import by_column, check_columns, check_table
from .specs import Columns
from .values import (
    CannotSave,
    check_array,
    check_indices,
    check_list,
    check_mapping,
    check_number,
    check_whole,
    require,
)

TUNED = (MKLClassifierCV, MKLRegressorCV)
ESTIMATORS = {kind.__name__: kind for kind in (MKLClassifier, MKLOneClass, MKLRegressor, *TUNED)}
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
    if "compression_" in state.learned:
        state.learned["compression_"] = state.learned["compression_"]._asdict()
    parameters, unsaved = _parameters(estimator, packer)
    folds = [_described_fold(fold, packer) for fold in getattr(estimator, "held_out_folds_", [])]
    return {
        "estimator": name,
        "parameters": parameters,
        "unsaved": unsaved,
        "learned": packer.pack(state.learned, "the model"),
        "bank": packer.pack(bank, "kernels"),
        "decision": packer.pack(state.decision, "the model"),
        "result": packer.pack(_outcome(state.result), "the result"),
        **({"folds": folds} if folds else {}),
    }


def _described_fold(fold, packer):
    arrays = {name: value for name, value in fold._asdict().items() if name != "model"}
    return {"model": describe(fold.model, packer), "arrays": packer.pack(arrays, "a fold")}


def rebuild(described, unpacker, depth):
    """The estimator of a mapping."""
    depth += 1
    parameters = {
        name: unpacker.unpack(value, depth)
        for name, value in described["parameters"].items()
        if name not in LOCAL
    }
    model = ESTIMATORS[described["estimator"]](**parameters)
    _check_parameters(model)
    model.unsaved_parameters_ = check_mapping(described["unsaved"], "Unsaved parameters", str)
    learned = unpacker.unpack(described["learned"], depth)
    check_columns(learned)
    columns = Columns(learned["n_features_in_"], learned.get("feature_names_in_"))
    bank = banks.rebuild(unpacker.unpack(described["bank"], depth), columns, model.n_jobs)
    require(by_column(learned) == banks.categories(bank), "The categories have other codes.")
    result = _result(unpacker.unpack(described["result"], depth))
    decision = unpacker.unpack(described["decision"], depth)
    _check_learned(learned, model, len(result.intercept))
    _check_silent(learned, bank.m)
    if "compression_" in learned:
        learned["compression_"] = _compression(learned["compression_"])
    _check_decision(decision, len(result.intercept))
    check_array(result.beta, "The coefficients", (len(result.intercept), getattr(bank, "n", 0)))
    model.restore(ModelState(learned, bank, decision, result))
    folds = check_list(described.get("folds", []), "The folds")  # earlier files have none
    if folds:
        require(isinstance(model, TUNED), "There are folds of a model that has none.")
        model.held_out_folds_ = [_fold(fold, model, unpacker, depth) for fold in folds]
    return model


def _fold(described, model, unpacker, depth):
    """A fold of a tuned model."""
    check_mapping(described, "A fold", str)
    plain = check_mapping(described["model"], "The model of a fold", str)
    require(plain["estimator"] == model._plain_type.__name__, "A fold has another model.")
    require("folds" not in plain, "The model of a fold has folds.")
    own = rebuild(plain, unpacker, depth)
    require(own.n_features_in_ == model.n_features_in_, "A fold has other columns.")
    outputs, classes = len(model.intercept_), [0]
    if isinstance(model, MKLClassifier):
        require(np.isin(own.classes_, model.classes_).all(), "A fold has other classes.")
        outputs, classes = 1, model.classes_
    arrays = check_mapping(unpacker.unpack(described["arrays"], depth), "A fold", str)
    codes = check_indices(arrays["codes"], "The classes of a fold", len(classes))
    shapes = {"scores": (outputs, codes.size), "weight": (codes.size,)}
    kept = {
        name: check_array(arrays[name], "The scores of a fold", shape, finite=False)
        for name, shape in shapes.items()
    }
    require(not np.isnan(kept["scores"]).any(), "Scores of a fold are no numbers.")
    require((kept["weight"] > 0.0).all(), "Rows of a fold weigh nothing.")
    views = len(own.bank_.views) if hasattr(own.bank_, "views") else 0
    there = check_array(arrays["presence"], "The views of a fold", (codes.size, views), "b")
    return HeldOutFold(own, kept["scores"], codes, kept["weight"], there)


def _check_parameters(model):
    """Raise for parameters that `fit` would refuse."""
    check_parameters(model)
    choose_combination(model.combination)
    check_choice("normalize", model.normalize, NORMALIZATIONS)
    if not isinstance(model, TUNED) and model.p != "auto":
        choose_regularizer(model.p, model.regularizer)
    model._loss()
    if isinstance(model, MKLClassifier):
        check_bool("share_weights", model.share_weights)
        check_choice("multiclass", model.multiclass, ("ovr", "ovo"))


def _check_silent(learned, m):
    """Raise unless silent kernels are among m kernels."""
    silent = check_mapping(learned.get("silent_kernels_", {}), "Silent kernels", str)
    require(set(silent) <= {"identity", "constant"}, "There are unknown kinds of kernels.")
    for kernels in silent.values():
        check_array(kernels, "Silent kernels", (None,), "i")
        inside = kernels.size == 0 or (kernels.min() >= 0 and kernels.max() < m)
        require(inside, "Silent kernels are beyond the others.")


def _check_learned(learned, model, outputs):
    """Raise unless attributes are of their types, and there are so many outputs."""
    check_table(learned)
    if "target_spreads_" in learned:
        spreads = check_array(learned["target_spreads_"], "The spreads of the targets", (outputs,))
        require((spreads > 0.0).all(), "The spreads of the targets must be above zero.")
    support = check_array(learned["support_"], "The support", (None,), "i")
    require(support.min(initial=0) >= 0, "The support vectors are negative.")
    check_array(learned["dual_coef_"], "The dual coefficients", (outputs, support.size))
    check_array(learned["intercept_"], "The intercepts", (outputs,))
    check_whole(learned["n_iter_"], "The number of iterations")
    if "p_" in learned:
        choose_regularizer(check_number(learned["p_"], "The norm of the weights"), None)
    if isinstance(model, TUNED):
        _check_tuned(learned)
    elif "p_" in learned:
        check_mapping(learned["p_scores_"], "Scores of norms", float)
    if isinstance(model, MKLClassifier):
        classes = learned["classes_"]
        check_array(classes, "The classes", (None,), "biufOU", finite=False)
        count = classes.size
        wanted = count * (count - 1) // 2 if model.multiclass == "ovo" else count
        require(count > 1, "There are not two classes.")
        require(outputs == (1 if count == 2 else wanted), "There is not one output per class.")
        if isinstance(model, MKLClassifierCV):
            _check_calibration(learned, outputs)
    elif isinstance(model, MKLRegressor):
        axes = check_whole(learned["_y_ndim_"], "The dimensions of the targets", 1)
        require(axes == 2 or (axes == 1 and outputs == 1), "There is not one output per target.")
    else:
        require(outputs == 1, "There is more than one output.")


def _check_tuned(learned):
    """Raise unless what was found out on held-out folds is of one shape."""
    costs = check_array(learned["Cs_"], "The values of C", (None,))
    norms = check_array(learned["ps_"], "The norms", (None,), finite=False)
    shape = (None, costs.size, norms.size)
    check_array(learned["scores_"], "The scores of folds", shape, finite=False)
    check_array(learned["n_kernels_"], "The numbers of kernels", shape, finite=False)
    check_array(learned["n_groups_"], "The numbers of groups", shape, finite=False)
    if "kernels_" in learned:
        require(learned["kernels_"] in MADE, "The chosen kernels are not known.")
    check_real("C_", check_number(learned["C_"], "The chosen C"))
    check_number(learned["best_score_"], "The best score")
    places = check_list(learned["best_index_"], "The best place", 2)
    cost, norm = (check_whole(place, "The best place") for place in places)
    require(cost < costs.size and norm < norms.size, "The best place is none of the grid.")
    values = learned["oof_decision_"]
    shape = (None,) * min(np.ndim(values), 2)
    check_array(values, "Decision values of held-out rows", shape, finite=False)


def _check_calibration(learned, outputs):
    """Raise unless there is a table for every output, or none at all."""
    kind, tables = learned["calibration_kind_"], learned["calibration_table_"]
    if kind is None and tables is None:
        return
    require(kind in KINDS and isinstance(tables, list), "The calibration is not known.")
    require(len(tables) == outputs, "There is not one calibration per output.")
    for table in tables:
        check_array(table, "A calibration", (2,) if kind == "sigmoid" else (2, None))


def _check_decision(decision, outputs):
    """Raise unless the parts of a decision are of their types; `Decision.check` compares them."""
    check_mapping(decision, "The decision", str)
    check_whole(decision["n_fit"], "The number of rows", 1)
    for name, size in (("beta", outputs), ("coefficients", outputs), ("norms", outputs)):
        if name in decision:
            check_array(decision[name], f"The decision's {name}", (size, None))
    if "support" in decision:
        check_array(decision["support"], "The decision's support", (None,), "i")
        require(isinstance(decision["whole"], bool), "The decision is neither whole nor not.")
    if "rows" in decision:
        rows = check_indices(decision["rows"], "The decision's rows", decision["n_fit"])
        check_array(decision["dual_coef"], "The decision's coefficients", (outputs, rows.size))
    thread_count(decision.get("n_jobs"))  # raises if it is no number of threads


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
        "missing": None if result.missing is None else result.missing._asdict(),
        "subsets": None if result.subsets is None else result.subsets._asdict(),
        "seconds": float(result.seconds),
    }


def _result(outcome):
    rows = check_array(outcome["history"], "The history", (None, len(HISTORY)), finite=False)
    history = [
        Record(
            **{name: kind(value) for (name, kind), value in zip(HISTORY.items(), row, strict=True)}
        )
        for row in rows.tolist()
    ]
    intercept = check_array(outcome["intercept"], "The intercepts of the result", (None,))
    require(intercept.size > 0, "The result has no outputs.")
    weights, beta = outcome["weights"], outcome["beta"]
    per_output = (intercept.size, None) if np.ndim(weights) == 2 else (None,)
    return Result(
        weights=check_array(weights, "The weights", per_output),
        beta=check_array(beta, "The coefficients", (intercept.size, None)),
        intercept=intercept,
        status=Status[outcome["status"]],
        certificate=Certificate(intercept=intercept, **_numbers(outcome["certificate"], BOUNDS)),
        n_iter=check_whole(outcome["n_iter"], "The number of iterations"),
        counters=_counters(outcome["counters"]),
        history=history,
        resumed=_resumed(outcome["resumed"]),
        advice=_text(outcome.get("advice", "")),
        missing=_missing(outcome.get("missing")),
        subsets=_subsets(outcome.get("subsets")),
        seconds=check_number(
            outcome.get("seconds", outcome["counters"]["seconds"]), "The result's seconds"
        ),
    )


def _counters(work):
    names = list(vars(Counters()))
    counts = {name: int(value) for name, value in _numbers(work, names).items()}
    return Counters(**counts | {"seconds": float(work["seconds"])})


def _text(value):
    require(isinstance(value, str), "The advice of the result should be a text.")
    return value


def _subsets(described):
    """How the best subset was found; files of earlier versions have nothing on it."""
    if described is None:
        return None
    require(set(described) == set(Subsets._fields), "The result is not complete.")
    require(described["kind"] in ("kernel", "group"), "There is no such kind of subset.")
    counts = {name: value for name, value in described.items() if name != "kind"}
    return Subsets(
        described["kind"],
        **{name: check_whole(value, "A number of subsets") for name, value in counts.items()},
    )


def _compression(described):
    """What is known of a model that stands for a larger one."""
    check_mapping(described, "The compression", str)
    require(set(described) == set(Compression._fields), "The compression is not complete.")
    found = Compression(**described)
    require(found.kind in ("free", "support", "synthetic"), "There is no such kind of points.")
    for name, value in described.items():
        if name in ("difference", "largest_difference"):
            check_number(value, "A difference of scores")
        elif name != "kind" and not (value is None and name.startswith("bytes")):
            check_whole(value, "A number of the compression")
    require(found.rows > 0 and found.agreeing <= found.rows, "More rows agree than there are.")
    return found


def _missing(described):
    """What was assumed of rows that lack views; files of earlier versions have nothing on it."""
    if described is None:
        return None
    require(set(described) == set(Missing._fields), "The result is not complete.")
    missing = Missing(**described)
    require(missing.rule in RULES, "There is no such rule for missing views.")
    for count in (missing.rows, missing.incomplete):
        check_whole(count, "The number of rows")
    for count in check_mapping(missing.lacking, "The missing views", str).values():
        check_whole(count, "The number of rows that lack a view")
    return missing


def _resumed(described):
    return None if described is None else Resumed(**_numbers(described, Resumed._fields))


def _numbers(values, names):
    """Numbers by name, if they are such and all there."""
    require(set(values) == set(names), "The result is not complete.")
    return {name: check_number(values[name], f"The result's {name}") for name in names}
