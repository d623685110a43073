"""A decision function as what it is in the end: kernels between a row and some points, each with
coefficients, and a constant.

Centered kernels and rows that lack views come to that, too: what centering takes away, and what
stands for a view that is missing, are means of kernels over training points.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...banks import CombinationBank, MissingBank
from ...banks.wrappers.centered import CenteredBank
from ...kernels.vector import dense
from ...lowrank import LandmarkMap
from ..data.decision import FactorDecision, ProductDecision


class Term(NamedTuple):
    """A kernel with coefficients: ``sizes[i] sum_j coefficients[:, j] kernel(x_i, points[j])``.

    Attributes
    ----------
    kernel : Kernel, or Combination with its weights
    name : str
        Of the kernel.
    columns : (d,) int
        That it sees, of all columns.
    see : callable
        From rows to what the kernel sees of them.
    points : (s, d) array
        What it sees of them.
    coefficients : (t, s) array
    sizes : (n,) array or None
        Zero for rows that lack the kernel; all have it as it is by default.
    is_scaled_by_row : bool
        Whether it is divided by the roots of its diagonal, row by row.
    """

    kernel: Any
    name: str
    columns: np.ndarray
    see: Callable[[Any], Any]
    points: Any
    coefficients: np.ndarray
    sizes: np.ndarray | None = None
    is_scaled_by_row: bool = False


class Expansion(NamedTuple):
    """The terms of a decision function for some rows, and what is the same for rows that have the
    same views, (t, 1) or (t, n).
    """

    terms: list[Term]
    constant: np.ndarray


def expansion(decision, X, categories):
    """The `Expansion` of a decision at new rows.

    Parameters
    ----------
    decision : Decision
    X, categories
        As `Decision.scores` takes them.
    """
    bank = decision.bank.with_categories(categories) if categories else decision.bank
    constant = decision.intercept[:, None]
    if isinstance(decision, FactorDecision | ProductDecision):
        return Expansion(_of_factors(bank, decision.coefficients), constant)
    weights, beta = decision._weights_of_outputs, np.zeros((len(constant), bank.n))
    beta[:, decision.support] = decision.beta
    if isinstance(bank, CombinationBank):
        outputs = range(1 if decision.weights.ndim == 1 else len(weights))
        shares = [beta if len(outputs) == 1 else _only(beta, c) for c in outputs]
        terms = [_of_combination(bank, weights[c], shares[c]) for c in outputs]
        return Expansion(terms, constant)
    if isinstance(bank, MissingBank):
        terms, level = _of_views(bank, weights, beta, X)
        return Expansion(terms, constant + level)
    terms, levels = _of_bank(bank, weights, beta, np.arange(X.shape[1]))
    return Expansion(terms, constant + levels.sum(axis=1, keepdims=True))


def _of_bank(bank, weights, beta, within, sizes=None):
    """The terms of a sum of kernels, and the constants of its kernels, (t, m).

    Parameters
    ----------
    bank : SumBank
    weights : (t, m) array
    beta : (t, n) array
    within : (f,) int
        The columns of X that its points have.
    sizes : (n_new, m) array, optional
        Of the rows.
    """
    if isinstance(bank, CenteredBank):
        shares, col_means, means, factor = bank.centering
        totals, weights = beta.sum(axis=1), weights * factor
        levels = weights * (np.outer(totals, means) - beta @ col_means.T)
        beta = beta - np.outer(totals, shares)
        return _of_bank(bank.bank, weights, beta, within, sizes)[0], levels
    support = np.flatnonzero(beta.any(axis=0))
    points, beta, scaled = bank.right[support], beta[:, support], weights * bank.scales
    terms = []
    for k in np.flatnonzero(scaled.any(axis=0)) if support.size else ():
        term = _term(bank, k, points, scaled[:, k, None] * beta, within)
        terms.append(term if sizes is None else term._replace(sizes=sizes[:, k]))
    return terms, np.zeros(weights.shape)


def _term(kernels, k, points, coefficients, within):
    """One kernel of a `KernelSet` with coefficients at points that have some columns."""
    kernel, columns = kernels.kernels[k], kernels.columns_of(k)
    columns = within if columns is None else within[columns]
    if kernel.reads == "strings":
        points, see = kernels.spec.seen(k, points), lambda X: kernels.spec.seen(k, X[:, within])
    else:
        places = np.searchsorted(within, columns)
        points = dense(points[:, places])
        see = partial(_numbers, columns)
    is_scaled = kernels.normalize == "cosine" and not kernel.unit_diagonal
    of = kernels.names[k], columns, see, points, coefficients
    return Term(kernel, *of, is_scaled_by_row=is_scaled)


def _numbers(columns, X):
    return dense(X[:, columns])


def _of_views(bank, weights, beta, X):
    """The terms for rows that may lack views, and the constants of the rows, (t, n); the notation
    is that of `manykernels.banks.missing`.
    """
    presence = bank.views.presence(X)
    size, terms, constant = bank.views.sizes(presence), [], np.zeros((len(beta), X.shape[0]))
    for part in bank.parts:
        own, cols = weights[:, part.kernels], part.cols
        inside, total = beta[:, cols.at] * cols.own, beta @ cols.rest
        at_mean = own * (inside @ cols.means.T + np.outer(total, part.norms))
        sizes = presence[:, bank.views.of_kernel[part.kernels]] * size[:, None]
        if not isinstance(part.bank, CenteredBank):  # whose mean is zero
            inside = inside + np.outer(total, part.shares)
        found, levels = _of_bank(part.bank, own, inside, part.columns, sizes)
        terms += found
        constant += levels @ sizes.T + at_mean @ (1.0 - sizes).T
    return terms, constant


def _of_combination(bank, weights, beta):
    support = np.flatnonzero(beta.any(axis=0))
    columns = np.arange(bank.right.shape[1])
    of = columns, partial(_numbers, columns), bank.right[support], beta[:, support]
    return Term((bank.combination, weights), type(bank.combination).__name__, *of)


def _of_factors(features, coefficients):
    """Those of a map of features, where features are sums of kernels at landmarks."""
    if not isinstance(features, LandmarkMap):
        raise ValueError(
            "Shapley values need kernels of columns, and random features mix all columns: train "
            "with approximation=None or Nystroem()."
        )
    terms, within = [], np.arange(features.landmarks.shape[1])
    for k, P in enumerate(features.projections):
        part = coefficients[:, features.offsets[k] : features.offsets[k + 1]] @ P.T
        part = features.on_points.scales[k] * part.astype(float)
        chosen = slice(None) if features.chosen is None else features.chosen[k]
        if part.any():
            terms.append(_term(features.on_points, k, features.landmarks[chosen], part, within))
    return terms


def _only(beta, c):
    """Coefficients of one output, zero for the others."""
    out = np.zeros_like(beta)
    out[c] = beta[c]
    return out
