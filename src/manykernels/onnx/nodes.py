"""Nodes of an ONNX graph, written as calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

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
        self._add(operator, names, [output], attributes)

    def _add(self, operator, inputs, outputs, attributes):
        if operator in MACHINE_LEARNING:
            attributes |= {"op_domain": "ai.onnx.ml", "op_version": MACHINE_LEARNING[operator]}
        self.container.add_node(operator, inputs, outputs, **attributes)

    def constant(self, values: Any) -> str:
        """The name of an array: numbers with a fraction as float64, whole ones as int64, texts."""
        values, name = np.asarray(values), self.scope.get_unique_variable_name("constant")
        types = {"f": np.float64, "O": object, "U": object, "T": object}
        values = np.array(values, dtype=types.get(values.dtype.kind, np.int64), order="C")
        self._size += values.nbytes
        if self._size >= LARGEST:
            raise ValueError(
                "The graph of this model is larger than the 2 GB that ONNX holds: train with "
                "approximation=Nystroem(), or on fewer rows."
            )
        self._hold(numpy_helper.from_array(values, name))
        return name

    def _hold(self, tensor):
        if tensor.data_type == TensorProto.STRING:  # which `add_initializer` loses
            self.container.initializers.append(tensor)
        else:
            self.container.add_initializer(tensor.name, tensor.data_type, tensor.dims, tensor)

    def cast(self, values: str, type_: int = COMPUTED) -> str:
        """Values as another type."""
        return self("Cast", values, to=type_)

    def total(self, values: str, axis: int, keepdims: bool = False) -> str:
        """Sums along an axis."""
        return self("ReduceSum", values, np.array([axis]), keepdims=int(keepdims))

    def summed(self, parts: list[str]) -> str:
        """The sum of one array or more."""
        return parts[0] if len(parts) == 1 else self("Sum", *parts)

    def scan(self, state: str, arrays: list[np.ndarray], step: Callable, *fixed: str) -> str:
        """The sum over the entries of arrays, one after the other.

        Parameters
        ----------
        state : name
            Of what the sum begins with.
        arrays : list of arrays of the same length
        step : callable
            ``step(nodes, *fixed, *entries)`` gives the name of what is added.
        *fixed : names
            Arrays that every step needs.
        """
        body = _Body(self)
        names = [body.scope.get_unique_variable_name("step") for _ in (state, *fixed, *arrays)]
        after = [body("Add", names[0], step(body, *names[1:]))]
        after += [body("Identity", name) for name in names[1 : 1 + len(fixed)]]
        outputs = [self.scope.get_unique_variable_name("scan") for _ in after]
        constants = [self.constant(array) for array in arrays]
        types = [COMPUTED] * (1 + len(fixed)) + [
            TensorProto.INT64 if array.dtype.kind in "iu" else COMPUTED for array in arrays
        ]
        attributes = {
            "num_scan_inputs": len(arrays),
            "body": body.graph(list(zip(names, types, strict=True)), after),
            "name": self.scope.get_unique_operator_name("Scan"),
        }
        self._add("Scan", [state, *fixed, *constants], outputs, attributes)
        return outputs[0]


class _Body(Nodes):
    """Adds nodes to the graph of a step."""

    def __init__(self, outer: Nodes) -> None:
        super().__init__(outer.scope, outer.container)
        self._nodes: list = []
        self._constants: list = []

    def _add(self, operator, inputs, outputs, attributes):
        self._nodes.append(helper.make_node(operator, inputs, outputs, **attributes))

    def _hold(self, tensor):
        self._constants.append(tensor)

    def graph(self, inputs, outputs):
        """The graph of these nodes, of inputs (name, type) and outputs of float64."""
        inputs = [helper.make_tensor_value_info(*one, None) for one in inputs]
        outputs = [helper.make_tensor_value_info(name, COMPUTED, None) for name in outputs]
        return helper.make_graph(self._nodes, "step", inputs, outputs, self._constants)
