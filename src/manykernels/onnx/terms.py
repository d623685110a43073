"""The decision function of a model as nodes.

What is linear in something is added up beforehand: linear kernels to one vector, categories to a
table. Kernels that see the same columns share their distances or dot products.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from ..banks import MissingBank
from ..banks.lowrank.product import ProductMap
from ..combinations import PolynomialMixture, Product
from ..estimators.answers.expansions import expansion
from ..kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    Laplacian,
    Linear,
    MinMax,
    Polynomial,
    Precomputed,
    Spectrum,
    Tanimoto,
)
from ..kernels.overlaps import EMPTY
from ..lowrank import FourierMap
from .inputs import Columns
from .nodes import Nodes
from .pairs import (
    Summand,
    differences,
    inverse_roots,
    squares,
    write_gaussians,
    write_pairs,
    write_polynomials,
)

# Digits by which two numbers may differ and still be the same category, in units of the last one.
SAME = 4.0
REASONS = {
    FunctionKernel: "it is a function in Python, which a graph cannot call",
    Precomputed: "it is a Gram matrix, whose entries at new samples a graph does not have",
    Spectrum: "it compares substrings, for which ONNX has no operators",
}
OWN = "only its code in Python says what it computes"


def write_scores(nodes: Nodes, model: Any, columns: Columns) -> str:
    """Decision values of a fitted estimator, (n, t).

    Parameters
    ----------
    nodes : Nodes
    model : MKLEstimator
    columns : Columns
        Of its table.
    """
    decision, constant = model.decision_, model.decision_.intercept
    if isinstance(decision.bank, MissingBank):
        raise ValueError(
            f"A model with missing={model.missing!r} cannot be converted to ONNX: its kernels "
            "depend on the views that a row lacks. Train with missing='impute'."
        )
    if decision.bank.needs_grams:
        raise ValueError(_refusal("Precomputed", REASONS[Precomputed]))
    if isinstance(decision.bank, ProductMap):
        raise ValueError(
            "Random features of a product cannot be converted to ONNX. Train with "
            "approximation=None, or serve the model in Python."
        )
    if isinstance(decision.bank, FourierMap):
        parts = _fourier(nodes, columns, decision.bank, decision.coefficients)
    else:
        terms, levels = expansion(decision, np.empty((0, model.n_features_in_)), None)
        summands, constant = [_summand(term) for term in terms], levels[:, 0]
        parts = []
        for kind, write in WRITERS.items():
            mine = [one for one in summands if type(one.kernel) is kind]
            parts += write(nodes, columns, mine) if mine else []
    if not parts:
        return columns.repeated(nodes, constant)
    return nodes("Add", nodes.summed(parts), constant)


def _summand(term):
    """A term of an expansion, if a graph can have it."""
    kernel, columns, points = term.kernel, term.columns, term.points
    if isinstance(kernel, tuple):
        return _of_combination(*kernel, term)
    if type(kernel) not in WRITERS:
        raise ValueError(_refusal(term.name, REASONS.get(type(kernel), OWN)))
    coefficients = term.coefficients
    if term.is_scaled_by_row:
        roots = np.sqrt(kernel.diagonal(points))
        coefficients = coefficients * np.divide(1.0, roots, where=roots > 0.0, out=0.0 * roots)
    return Summand(kernel, columns, points, coefficients, is_scaled_by_row=term.is_scaled_by_row)


def _of_combination(combination, weights, term):
    """A product of Gaussians is one Gaussian of scaled columns, a mixture one polynomial."""
    if type(combination) is Product:
        factors = np.sqrt(weights)[combination._group]
        used = np.flatnonzero(factors) if factors.any() else np.arange(1)
        factors, points = factors[used], term.points[:, used] * factors[used]
        return Summand(RBF(1.0), term.columns[used], points, term.coefficients, factors)
    if type(combination) is PolynomialMixture:
        kernel = Polynomial(combination.degree, 1.0, combination.offset)
        return Summand(kernel, term.columns, term.points * weights, term.coefficients)
    raise ValueError(_refusal(term.name, OWN))


def _refusal(name, reason):
    known = ", ".join(kind.__name__ for kind in WRITERS)
    return (
        f"{name} cannot be converted to ONNX: {reason}. Train with kernels of the library "
        f"({known}), or serve the model in Python."
    )


# --- kernels that are linear in something ---------------------------------------------------------


def _linear(nodes, columns, summands):
    """One product with the sum of all vectors; those that are scaled by row have their own."""
    parts, vectors = [], np.zeros((columns.count, summands[0].coefficients.shape[0]))
    for one in summands:
        vector = one.points.T @ one.coefficients.T
        if one.is_scaled_by_row:
            x = columns.seen(nodes, one.columns)
            part = nodes("MatMul", x, vector)
            parts.append(nodes("Mul", part, inverse_roots(nodes, squares(nodes, x))))
        else:
            np.add.at(vectors, one.columns, vector)
    used = np.flatnonzero(vectors.any(axis=1))
    if used.size:
        parts.append(nodes("MatMul", columns.seen(nodes, used), vectors[used]))
    return parts


def _hamming(nodes, columns, summands):
    """What each category of a column adds, looked up in a table."""
    texts, numbers = defaultdict(dict), []
    for one in summands:
        weights = np.ones(one.columns.size) if one.kernel.weights is None else one.kernel.weights
        shares = np.asarray(weights, dtype=float) / np.sum(weights)
        for f, share, values in zip(one.columns, shares, one.points.T, strict=True):
            distinct, place = np.unique(values, return_inverse=True)
            sums = np.zeros((distinct.size, len(one.coefficients)))
            np.add.at(sums, place, share * one.coefficients.T)
            for entry, value in zip(columns.entries(f, distinct), sums, strict=True):
                if columns.is_text(f):
                    texts[f][entry] = texts[f].get(entry, 0.0) + value
                else:
                    numbers.append((f, entry, value))
    parts = [_text_table(nodes, columns.text(nodes, f), table) for f, table in texts.items()]
    if numbers:
        places, entries, values = zip(*numbers, strict=True)
        x = columns.as_given(nodes, np.array(places))
        apart = nodes("Abs", nodes("Sub", x, np.array(entries, dtype=float)))
        same = nodes("Less", apart, SAME * columns.last_digits(places, entries))
        parts.append(nodes("MatMul", nodes.cast(same), np.array(values)))
    return parts


def _text_table(nodes, x, table):
    """The row of a table that belongs to a text, zeros for a text that is not there."""
    keys, values = list(table), np.array([*table.values()])
    code = nodes(
        "LabelEncoder",
        x,
        keys_strings=keys,
        values_int64s=list(range(len(keys))),
        default_int64=len(keys),
    )
    values = np.concatenate([values, np.zeros((1, values.shape[1]))])
    return nodes.total(nodes("Gather", values, code, axis=0), 1)


# --- kernels of what rows share -------------------------------------------------------------------


def _overlaps(nodes, columns, summands):
    """Kernels of sizes and of sums of absolute differences, of which bits have products."""
    parts = []
    for one in summands:
        x, points = columns.seen(nodes, one.columns), one.points
        both = nodes("Add", nodes.total(x, 1, keepdims=True), points.sum(axis=1))
        if type(one.kernel) is Tanimoto:
            apart = nodes("Sub", both, nodes("MatMul", x, 2.0 * points.T))
        else:
            apart = differences(nodes, x, points.T)
        both = nodes("Add", both, np.array(EMPTY))
        similar = nodes("Div", nodes("Sub", both, apart), nodes("Add", both, apart))
        parts.append(nodes("MatMul", similar, one.coefficients.T))
    return parts


# --- random features ------------------------------------------------------------------------------


def _fourier(nodes, columns, features, coefficients):
    """Cosines and sines of random frequencies, times coefficients."""
    angles, cosines, sines = [], [], []
    for k, F in enumerate(features.frequencies):
        own = coefficients[:, features.offsets[k] : features.offsets[k + 1]].T.astype(float)
        if not own.any():
            continue
        own = own * np.sqrt(features.scales[k] / F.shape[1])
        cosines.append(own[: F.shape[1]])
        sines.append(own[F.shape[1] :])
        seen = features.columns_of(k)
        seen = np.arange(features.n_features) if seen is None else seen
        angles.append(nodes("MatMul", columns.seen(nodes, seen), F.astype(float)))
    if not angles:
        return []
    angles = angles[0] if len(angles) == 1 else nodes("Concat", *angles, axis=1)
    cosines, sines = np.concatenate(cosines), np.concatenate(sines)
    # not every runtime has cosines of float64
    ahead = nodes("Add", angles, np.array(0.5 * np.pi))
    parts = [nodes("MatMul", nodes("Sin", ahead), cosines)]
    return [*parts, nodes("MatMul", nodes("Sin", angles), sines)]


# By exact type: a subclass may compute anything.
WRITERS = {
    RBF: write_gaussians,
    Laplacian: write_pairs,
    Linear: _linear,
    Polynomial: write_polynomials,
    Hamming: _hamming,
    Tanimoto: _overlaps,
    MinMax: _overlaps,
}
