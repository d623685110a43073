"""Our estimators as models that skl2onnx converts, alone or in a pipeline."""

from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx import update_registered_converter
from skl2onnx.common.data_types import (
    DictionaryType,
    DoubleTensorType,
    FloatTensorType,
    Int64TensorType,
    SequenceType,
    StringTensorType,
    guess_proto_type,
)
from sklearn.utils.validation import check_is_fitted

from ..estimators import (
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
)
from .inputs import Columns
from .nodes import Nodes
from .outputs import (
    class_labels,
    has_probabilities,
    write_decision,
    write_label,
    write_probabilities,
)
from .terms import write_scores

# Versions of ONNX before it take the axes of a sum in another way.
LEAST_OPSET = 13
CLASSIFIERS = (MKLClassifier, MKLClassifierCV)


def register() -> None:
    """Tell skl2onnx of the estimators."""
    for classifier in CLASSIFIERS:
        options = {"zipmap": [True, False]}
        _register(classifier, _classifier_types, _convert_classifier, _parse_classifier, options)
    for regressor in (MKLRegressor, MKLRegressorCV):
        _register(regressor, _regressor_types, _convert_regressor)
    _register(MKLOneClass, _outlier_types, _convert_outlier)
    _register(MKLFeatureSelector, _selector_types, _convert_selector)


def _register(kind, types, convert, parser=None, options=None):
    update_registered_converter(kind, _alias(kind), types, convert, parser=parser, options=options)


def _alias(kind):
    return f"Manykernels{kind.__name__}"


def _begin(scope, operator, container):
    """Nodes to write, and the decision values of a fitted estimator."""
    check_is_fitted(operator.raw_operator, "decision_")
    if container.main_opset < LEAST_OPSET:
        raise ValueError(
            f"Models of manykernels need target_opset={LEAST_OPSET} or more, got "
            f"{container.main_opset}."
        )
    nodes = Nodes(scope, container)
    columns = Columns(nodes, operator.raw_operator, operator.inputs)
    return nodes, write_scores(nodes, operator.raw_operator, columns)


def _numbers(operator, *shape):
    """The type of an output of numbers: float64 if an input is, float32 otherwise."""
    doubles = any(isinstance(one.type, DoubleTensorType) for one in operator.inputs)
    rows = operator.inputs[0].get_first_dimension()
    return (DoubleTensorType if doubles else FloatTensorType)([rows, *shape])


def _write(nodes, output, values):
    """Write numbers to an output, in its type."""
    nodes.write(output.onnx_name, "Cast", values, to=guess_proto_type(output.type))


# --- classifiers ----------------------------------------------------------------------------------


def _kinds(model):
    """What a graph gives, in order."""
    some = ("probabilities",) if has_probabilities(model) else ()
    return ("label", *some, "scores")


def _parse_classifier(scope, model, inputs, custom_parsers=None):
    """Declare the outputs that skl2onnx has by default: dictionaries of probabilities."""
    with_maps = scope.get_options(model, {"zipmap": True})["zipmap"] and has_probabilities(model)
    if not with_maps:
        return parse_to_arrays(scope, model, inputs)
    probabilities = SequenceType(DictionaryType(_label_type(model), FloatTensorType()))
    names = {"output_label": None, "output_probability": probabilities, "scores": None}
    return _declared(scope, model, inputs, names)


def parse_to_arrays(scope: Any, model: Any, inputs: list, custom_parsers: Any = None) -> list:
    """Declare the outputs of a classifier, all of them arrays."""
    return _declared(scope, model, inputs, dict.fromkeys(_kinds(model)))


def _declared(scope, model, inputs, types):
    operator = scope.declare_local_operator(_alias(type(model)), model)
    operator.inputs = inputs
    for name, type_ in types.items():
        operator.outputs.append(scope.declare_local_variable(name, type_ or FloatTensorType()))
    _classifier_types(operator)
    return operator.outputs


def _label_type(model, *shape):
    texts = class_labels(model).dtype == object
    return (StringTensorType if texts else Int64TensorType)(list(shape))


def _classifier_types(operator):
    model, count = operator.raw_operator, operator.raw_operator.classes_.size
    types = {
        "label": _label_type(model, operator.inputs[0].get_first_dimension()),
        "probabilities": _numbers(operator, count),
        "scores": _numbers(operator, *((count,) if count > 2 else ())),
    }
    # others that hold a classifier may want the first two alone
    for kind, output in zip(_kinds(model), operator.outputs, strict=False):
        if not isinstance(output.type, SequenceType):
            output.type = types[kind]


def _convert_classifier(scope, operator, container):
    model = operator.raw_operator
    nodes, scores = _begin(scope, operator, container)
    decision, probabilities = write_decision(nodes, model, scores), None
    if has_probabilities(model):
        probabilities = write_probabilities(nodes, model, scores)
    label = write_label(nodes, model, decision, probabilities)
    values = {"label": label, "probabilities": probabilities, "scores": decision}
    for kind, output in zip(_kinds(model), operator.outputs, strict=False):
        if kind == "label":
            nodes.write(output.onnx_name, "Identity", label)
        elif isinstance(output.type, SequenceType):
            _write_maps(nodes, output, model, probabilities)
        else:
            _write(nodes, output, values[kind])


def _write_maps(nodes, output, model, probabilities):
    """A dictionary from class to probability for every row."""
    labels = class_labels(model)
    kind = "classlabels_strings" if labels.dtype == object else "classlabels_int64s"
    nodes.write(
        output.onnx_name,
        "ZipMap",
        nodes.cast(probabilities, TensorProto.FLOAT),
        **{kind: labels.tolist()},
    )


# --- others ---------------------------------------------------------------------------------------


def _regressor_types(operator):
    operator.outputs[0].type = _numbers(operator, len(operator.raw_operator.intercept_))


def _convert_regressor(scope, operator, container):
    nodes, scores = _begin(scope, operator, container)
    _write(nodes, operator.outputs[0], scores)


def _outlier_types(operator):
    label, scores = operator.outputs
    label.type, scores.type = Int64TensorType([None]), _numbers(operator)


def _convert_outlier(scope, operator, container):
    nodes, scores = _begin(scope, operator, container)
    scores = nodes("Squeeze", scores, np.array([1]))
    outside = nodes("Less", scores, np.array(0.0))
    label, decision = operator.outputs
    nodes.write(label.onnx_name, "Where", outside, np.array(-1), np.array(1))
    _write(nodes, decision, scores)


def _selector_types(operator):
    operator.outputs[0].type = _numbers(operator, int(operator.raw_operator.get_support().sum()))


def _convert_selector(scope, operator, container):
    nodes, type_ = Nodes(scope, container), guess_proto_type(operator.outputs[0].type)
    numbers = [nodes.cast(one.onnx_name, type_) for one in operator.inputs]
    table = numbers[0] if len(numbers) == 1 else nodes("Concat", *numbers, axis=1)
    chosen = operator.raw_operator.get_support(indices=True)
    nodes.write(operator.outputs[0].onnx_name, "Gather", table, chosen, axis=1)
