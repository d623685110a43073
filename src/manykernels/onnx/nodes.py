"""Nodes of an ONNX graph, written as calls."""

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

# Graphs compute in float64 whatever their inputs are: distances and sums of many coefficients lose
# the digits of float32.
COMPUTED = TensorProto.DOUBLE
# Bytes of a graph: a file of ONNX holds no more.
LARGEST = 2**31
# Operators of the domain for machine learning, and the versions that are meant.
MACHINE_LEARNING = {"LabelEncoder": 2, "ZipMap": 1}


class Nodes:
    """Adds nodes to the graph of a conversion.

    ``nodes("Sub", x, y)`` gives the name of the difference; arguments are such names, or arrays,
    which become constants of the graph.

    Parameters
    ----------
    scope, container
        Of skl2onnx, as its converters get them.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope, self.container, self._size = scope, container, 0

    def __call__(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        output = self.scope.get_unique_variable_name(operator.lower())
        self.write(output, operator, *inputs, **attributes)
        return output

    def write(self, output: str, operator: str, *inputs: Any, **attributes: Any) -> None:
        """Add a node whose output has a given name."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        attributes["name"] = self.scope.get_unique_operator_name(operator)
        if operator in MACHINE_LEARNING:
            attributes |= {"op_domain": "ai.onnx.ml", "op_version": MACHINE_LEARNING[operator]}
        self.container.add_node(operator, names, [output], **attributes)

    def constant(self, values: Any) -> str:
        """The name of an array: numbers with a fraction as float64, whole ones as int64, texts."""
        values, name = np.asarray(values), self.scope.get_unique_variable_name("constant")
        if values.dtype.kind in "OUT":
            # by hand: `add_initializer` loses texts
            tensor = numpy_helper.from_array(values.astype(object), name)
            self.container.initializers.append(tensor)
            return name
        type_ = np.float64 if values.dtype.kind == "f" else np.int64
        self._size += values.size * 8
        if self._size >= LARGEST:
            raise ValueError(
                "The graph of this model is larger than the 2 GB that ONNX holds: train with "
                "approximation=Nystroem(), or on fewer rows."
            )
        tensor = numpy_helper.from_array(np.ascontiguousarray(values, dtype=type_))
        self.container.add_initializer(name, tensor.data_type, list(values.shape), tensor)
        return name

    def cast(self, values: str, type_: int = COMPUTED) -> str:
        """Values as another type."""
        return self("Cast", values, to=type_)

    def total(self, values: str, axis: int, keepdims: bool = False) -> str:
        """Sums along an axis."""
        return self("ReduceSum", values, np.array([axis]), keepdims=int(keepdims))

    def summed(self, parts: list[str]) -> str:
        """The sum of one array or more."""
        return parts[0] if len(parts) == 1 else self("Sum", *parts)
