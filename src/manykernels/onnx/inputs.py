"""The columns of a model's table in a graph: numbers, as they come and in the units of the kernels,
and texts.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from skl2onnx.common.data_types import FloatTensorType, StringTensorType

from .nodes import Nodes


class Columns:
    """The columns that a fitted estimator sees, from the inputs of its graph.

    Parameters
    ----------
    nodes : Nodes
    model : MKLEstimator
    inputs : list of variables of skl2onnx
        Numbers or texts, each with one or more of the columns, in the order of the training.
    """

    def __init__(self, nodes: Nodes, model: Any, inputs: list) -> None:
        self.count, self._names = model.n_features_in_, model._column_names()
        self._categories = model._by_column(getattr(model, "categories_", {}))
        self._means = getattr(model, "feature_means_", np.zeros(self.count))
        self._spreads = getattr(model, "feature_spreads_", np.ones(self.count))
        self._digit = np.finfo(np.float32 if _is_single(inputs) else np.float64).eps
        self._first = inputs[0].onnx_name
        self._texts: dict[int, tuple[str, int]] = {}  # input and place of columns of texts
        self._places: dict[int, int] = {}  # of columns of numbers, among these
        numbers = self._sorted(inputs)
        if numbers:
            self._write_numbers(nodes, numbers, getattr(model, "feature_medians_", None))

    def _sorted(self, inputs):
        """Names of the inputs with numbers; notes where every column is."""
        widths = [_width(one) for one in inputs]
        if widths == [None]:
            widths = [self.count]
        if None in widths or sum(widths) != self.count:
            given = ", ".join(f"{one.raw_name} {one.type.shape}" for one in inputs)
            raise ValueError(
                f"The model has {self.count} columns, and its graph gets {given}: give X or "
                "initial_types with the columns of the training."
            )
        numbers, f = [], 0
        for one, width in zip(inputs, widths, strict=True):
            is_text = isinstance(one.type, StringTensorType)
            numbers += [] if is_text else [one.onnx_name]
            for place in range(width):
                self._check(f, is_text)
                if is_text:
                    self._texts[f] = one.onnx_name, place
                else:
                    self._places[f] = len(self._places)
                f += 1
        return numbers

    def _check(self, f, is_text):
        """Raise unless a column holds what it held in training."""
        if self.is_text(f) != is_text:
            held, given = ("texts", "numbers") if is_text is False else ("numbers", "texts")
            raise ValueError(
                f"Column {self._names[f]!r} held {held} in training, and its input has {given}: "
                "give X as a data frame, or initial_types with an input for each column."
            )

    def _write_numbers(self, nodes, numbers, medians):
        numbers = [nodes.cast(name) for name in numbers]
        given = numbers[0] if len(numbers) == 1 else nodes("Concat", *numbers, axis=1)
        kept = np.array(list(self._places))
        if medians is not None:
            medians = medians.copy()
            medians[list(self._categories)] = np.nan  # those of codes
            given = nodes("Where", nodes("IsNaN", given), medians[kept], given)
        self._given = self._in_units = given
        if self._means[kept].any():
            self._in_units = nodes("Sub", self._in_units, self._means[kept])
        if (self._spreads[kept] != 1.0).any():
            self._in_units = nodes("Div", self._in_units, self._spreads[kept])

    def seen(self, nodes: Nodes, columns: np.ndarray) -> str:
        """Some columns of numbers in the units of the kernels, (n, d)."""
        return self._some(nodes, self._in_units, columns)

    def as_given(self, nodes: Nodes, columns: np.ndarray) -> str:
        """Some columns of numbers as they are in the table, (n, d)."""
        return self._some(nodes, self._given, columns)

    def _some(self, nodes, numbers, columns):
        places = np.array([self._places[f] for f in columns], dtype=int)
        if np.array_equal(places, np.arange(len(self._places))):
            return numbers
        return nodes("Gather", numbers, places, axis=1)

    def is_text(self, f: int) -> bool:
        """Whether a column holds texts."""
        kinds = {isinstance(entry, str) for entry in self._categories.get(f, [0])}
        if len(kinds) > 1:
            raise ValueError(
                f"Column {self._names[f]!r} cannot be converted to ONNX: it holds texts and "
                "numbers, and an input has one type. Make its entries texts."
            )
        return kinds == {True}

    def text(self, nodes: Nodes, f: int) -> str:
        """A column of texts, (n, 1)."""
        name, place = self._texts[f]
        several = sum(other == name for other, _ in self._texts.values()) > 1
        return nodes("Gather", name, np.array([place]), axis=1) if several else name

    def entries(self, f: int, values: np.ndarray) -> Iterable:
        """What numbers that a kernel sees are in the table: texts and categories for codes."""
        if f in self._categories:
            return [self._categories[f][int(value)] for value in values]
        return values * self._spreads[f] + self._means[f]

    def last_digits(self, columns: Any, entries: Any) -> np.ndarray:
        """A unit in the last digit of entries of the table."""
        sizes = np.abs(np.array(entries, dtype=float)) + np.abs(self._means[np.array(columns)])
        return self._digit * sizes + np.finfo(float).tiny

    def repeated(self, nodes: Nodes, values: np.ndarray) -> str:
        """The same values for every row, (n, len(values))."""
        rows = nodes("Gather", nodes("Shape", self._first), np.array([0]), axis=0)
        return nodes("Expand", values[None], nodes("Concat", rows, np.array([1]), axis=0))


def _is_single(inputs):
    """Whether numbers come in float32."""
    return any(isinstance(one.type, FloatTensorType) for one in inputs)


def _width(variable):
    width = variable.get_second_dimension()
    return width if isinstance(width, int) else None  # or a name
