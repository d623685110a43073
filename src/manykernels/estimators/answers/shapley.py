"""Exact Shapley values of the columns: what each of them adds to the decision at a row."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from itertools import takewhile
from typing import Any

import numpy as np
from scipy.special import comb, gammaln, roots_legendre
from sklearn.utils.validation import check_is_fitted

from ..._loops.shapley import add_power_games, add_product_games
from ..._threads import Threads, one_thread, thread_count
from ..._words import count
from ...banks import MissingBank
from ...combinations import PolynomialMixture, Product
from ...kernels import RBF, Hamming, Laplacian, Linear, Polynomial, Precomputed
from ..checks import Points
from ..data.frames import data_frame
from ..data.units import in_units
from .expansions import expansion

EPOCH = datetime(1970, 1, 1)
# Largest error of a quadrature, in units of the coefficients: a rounding. Larger: fewer nodes.
QUADRATURE_ERROR = 1e-15
# Highest degree of polynomials: the cumulants of higher ones cancel too many digits.
HIGHEST_DEGREE = 6
# Pairs of points of one call of a compiled loop. With more of them Ctrl-C is heard later.
PAIRS_AT_ONCE = 2**17
ROWS_AT_ONCE = 64  # rows of a task at most: more leave threads without work at the end


@dataclass(eq=False)
class ShapleyValues:
    """What every column adds to the decision at every row. Made by `shapley_values`.

    Attributes
    ----------
    values : (n, d) array, or (n, d, t) for t outputs
        Their sum over the columns and the base value are the decision value of the row.
    base_values : (n,) array, or (n, t)
        The value of no column at all, the same for all rows, unless some lack views.
    data : (n, d) array
        The rows in their own units; codes in the place of categories.
    feature_names : list of str
    output_names : list of str
        Classes, pairs of classes or targets.
    background_size : int
        Rows of the background; zero in the game in which columns are left out.
    categories : dict from int to list
        What the codes of a column stand for.
    dates : list of int
        Columns that hold days since 1970-01-01.
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str]
    output_names: list[str]
    background_size: int = 0
    categories: dict[int, list[Any]] = field(default_factory=dict)
    dates: list[int] = field(default_factory=list)

    @property
    def decision(self) -> np.ndarray:
        """The decision values that the values add up to, (n,) or (n, t)."""
        return self.base_values + self.values.sum(axis=1)

    def output(self, output: int | str | None = None) -> ShapleyValues:
        """The values of one output, the first by default, given by its number or its name."""
        of = self.output_names
        place = of.index(output) if output in of else output or 0
        if not isinstance(place, numbers.Integral) or not 0 <= place < len(of):
            raise ValueError(f"There is no output {output!r}: there are {of}, by name or number.")
        if self.values.ndim == 2:
            return self
        return replace(
            self,
            values=self.values[:, :, place],
            base_values=self.base_values[:, place],
            output_names=[self.output_names[place]],
        )

    @property
    def game(self) -> str:
        """What is taken for columns outside of a coalition, in words."""
        if not self.background_size:
            return "unknown columns left out"
        return f"unknown columns as in {count(self.background_size, 'background row')}"

    def entry(self, row: int, column: int) -> str:
        """An entry of the data as it was given: a word, a date or a number."""
        value = self.data[row, column]
        if np.isnan(value):
            return "missing"
        if column in self.categories:
            return str(self.categories[column][int(value)]) or "empty"
        if column in self.dates:
            moment = EPOCH + timedelta(days=float(value))
            return moment.isoformat(" ", "minutes").removesuffix(" 00:00")
        return f"{value:.4g}"

    def mean_sizes(self) -> np.ndarray:
        """The mean absolute value of each column over rows and outputs, (d,)."""
        sizes = np.abs(self.values).mean(axis=0)
        return sizes if sizes.ndim == 1 else sizes.mean(axis=1)

    def frame(self, backend: str = "pandas") -> Any:
        """The columns as a table, largest first: feature and mean absolute value, of every output
        where there are several.

        Parameters
        ----------
        backend : {"pandas", "polars"}
        """
        sizes = self.mean_sizes()
        columns = {"feature": np.array(self.feature_names, dtype=object), "mean |value|": sizes}
        if self.values.ndim == 3:
            each = np.abs(self.values).mean(axis=0).T
            columns |= {
                f"mean |value| {name}": row
                for name, row in zip(self.output_names, each, strict=True)
            }
        order = np.argsort(-sizes, kind="stable")
        return data_frame({name: values[order] for name, values in columns.items()}, backend)

    def to_shap(self) -> Any:
        """The same as an ``Explanation`` of the package shap, for its plots."""
        try:
            import shap
        except ImportError as error:
            raise ImportError(
                "This needs the package shap: install it, or draw with BeeswarmDisplay and "
                "WaterfallDisplay of manykernels.display."
            ) from error
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names if self.values.ndim == 3 else None,
        )

    def __repr__(self) -> str:
        order = np.argsort(-self.mean_sizes(), kind="stable")[:5]
        named = ", ".join(self.feature_names[f] for f in order)
        outputs = "" if self.values.ndim == 2 else f" and {len(self.output_names)} outputs"
        return (
            f"<ShapleyValues of {len(self.feature_names)} columns at {len(self.values)} "
            f"rows{outputs}; largest: {named}>"
        )


def shapley_values(model: Any, X: Points, *, background: Points | None = None) -> ShapleyValues:
    """Exact Shapley values of the columns at some rows, without sampling.

    The players are the columns, and the value of a coalition is the decision at a row as far as
    its columns tell. For kernels that are products or powers of sums over the columns, the values
    are integrals of polynomials, which a quadrature gives exactly (`manykernels._loops.shapley`).
    There are two such games:

    * By default a column outside of a coalition is left out of every kernel: its factor is one, or
      its summand zero (Mohammadi et al., arXiv 2505.16516). Nothing but the model and the row
      matters, and the base value is the decision where nothing is known.
    * With a `background`, it has the value of a row of the background, in the mean over its rows,
      as in the package shap (the interventional game). The base value is the mean decision of the
      background. That takes as many times as long as there are rows in it.

    Both add up to the decision, and the values of one are not those of the other.

    Parameters
    ----------
    model : fitted MKL estimator, or a scikit-learn pipeline or search that ends in one
        Columns are those that the last step of a pipeline sees. Kernels may be `RBF`, `Laplacian`,
        `Linear`, `Hamming`, `Polynomial` (of a degree up to 6), any kernel on a single column, and
        the combinations `Product` and `PolynomialMixture`; exact or with `Nystroem`. With
        ``normalize="cosine"`` only kernels with a unit diagonal.
    X : as for `predict`
    background : as X, optional
        A few dozen rows that stand for the others, such as a sample of the training rows.

    Returns
    -------
    ShapleyValues

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier, shapley_values
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> model = MKLClassifier().fit(X, X[:, 1] > 0)
    >>> found = shapley_values(model, X)
    >>> bool(np.allclose(found.decision, model.decision_function(X)))
    True
    >>> found.frame()["feature"][0]
    'x1'
    """
    names, (model, X, background) = _names(model), _last_step(model, X, background)
    check_is_fitted(model)
    raw, categories = model._read_new(X, in_units=False)
    rows = in_units(model, raw)
    of = expansion(model.decision_, rows, categories)
    games = [_game(term) for term in of.terms]
    base = _empty(of, games, rows.shape[0])
    others = None
    if background is not None:
        others, known = _read_background(model, background, categories)
        base = model.decision_.scores(others, known).mean(axis=1)[:, None]
        base = np.repeat(base, rows.shape[0], axis=1)
    values = _values(of.terms, games, rows, others, len(base), thread_count(model.n_jobs))
    data = raw.toarray() if hasattr(raw, "toarray") else np.asarray(raw)
    own = list(model._column_names())
    outputs = model._output_names() if hasattr(model, "_output_names") else ["inside"]
    found = ShapleyValues(
        values.transpose(0, 2, 1),
        base.T,
        data,
        [str(name) for name in (names or own)],
        outputs,
        background_size=0 if others is None else others.shape[0],
        categories=categories,
        dates=[own.index(name) for name in getattr(model, "date_columns_", [])],
    )
    is_single = len(base) == 1 and getattr(model, "_y_ndim_", 1) == 1
    return found.output() if is_single else found


def _names(model):
    """Names of the columns that the last step of a pipeline sees, if the steps before know them."""
    model = getattr(model, "best_estimator_", model)
    if len(getattr(model, "steps", ())) < 2:
        return None
    try:
        return list(model[:-1].get_feature_names_out())
    except (AttributeError, ValueError):
        return None


def _last_step(model, X, background):
    """The MKL estimator inside of a search or pipeline, and the rows as it gets them."""
    model = getattr(model, "best_estimator_", model)
    if hasattr(model, "steps"):
        before = model[:-1]
        X = before.transform(X) if len(before) else X
        if background is not None and len(before):
            background = before.transform(background)
        return _last_step(model[-1], X, background)
    if not hasattr(model, "_read_new"):
        raise TypeError(
            "This needs a fitted estimator of manykernels, or a pipeline that ends in one, got "
            f"{type(model).__name__}."
        )
    return model, X, background


def _read_background(model, background, categories):
    """Rows of a background, and the entries that codes in them stand for."""
    if isinstance(model.bank_, MissingBank):
        raise ValueError(
            "With missing views there is no background: a row that has some columns of a view from "
            "another row has a part of the view. Leave background=None."
        )
    others, known = model._read_new(background)
    if any(known.get(f) != entries for f, entries in categories.items()):
        raise ValueError(
            "X and the background hold categories that were not there in training, which cannot "
            "be compared: leave such rows out."
        )
    return others, known


# --- games ----------------------------------------------------------------------------------------


class ProductGame:
    """``prod_f exp(-rates[f] distance_f)``, distances being squared or not."""

    empty = 1.0

    def __init__(self, rates, squared):
        self.rates, self.squared = rates, squared

    def add(self, A, others, points, coefficients, out):
        """Add the values at rows A to out, (n, t, d)."""
        ends = np.concatenate([A, points, others])
        largest = np.ptp(ends, axis=0)
        largest = self.rates @ (np.square(largest) if self.squared else largest)
        tables = _rules(_top_rule(self.rates.size, float(largest)))
        of = self.rates, self.squared, coefficients
        add_product_games(A, points, others, *of, *tables, out)


class PowerGame:
    """``(offset + sum_f rates[f] x_f z_f)^degree``."""

    def __init__(self, rates, offset, degree):
        self.rates, self.offset, self.degree = rates, float(offset), int(degree)
        self.empty = self.offset**self.degree

    def add(self, A, others, points, coefficients, out):
        of = self.rates, self.offset, self.degree, coefficients
        add_power_games(A, points, others, *of, *_moments(self.degree), out)


class SumGame:
    """A sum over the columns, ``parts(A, points, coefficients)``, (n, t, d)."""

    empty = 0.0

    def __init__(self, parts):
        self.parts = parts

    def add(self, A, others, points, coefficients, out):
        out += self.parts(A, points, coefficients)
        if len(others):
            out -= self.parts(others, points, coefficients).mean(axis=0)


def _game(term):
    """The game of a term; raise if its kernel is none."""
    kernel = term.kernel
    if term.is_scaled_by_row:
        raise ValueError(
            f"normalize='cosine' divides {term.name!r} by the length of the whole row, which is no "
            "product or sum over its columns: use another normalization, such as 'diagonal'."
        )
    if isinstance(kernel, tuple):
        return _game_of_combination(*kernel)
    count = term.columns.size
    if np.unique(term.columns).size < count:
        raise ValueError(
            f"{term.name!r} sees a column more than once, which is one player: name each once."
        )
    if type(kernel) in (RBF, Laplacian):
        return ProductGame(np.full(count, kernel.gamma * kernel.factor), type(kernel) is RBF)
    if type(kernel) is Linear:
        return SumGame(_of_linear)
    if type(kernel) is Hamming:
        weights = np.ones(count) if kernel.weights is None else np.asarray(kernel.weights, float)
        return SumGame(lambda *given: _of_agreement(weights / weights.sum(), *given))
    if type(kernel) is Polynomial:
        return _power_game(np.full(count, kernel.gamma), kernel.coef0, kernel.degree, term.name)
    if count == 1 and not isinstance(kernel, Precomputed):
        return SumGame(lambda A, points, given: (kernel.block(A, points) @ given.T)[:, :, None])
    raise ValueError(
        f"{term.name!r} is no product or sum over its columns that is known here, so that there "
        "are no exact Shapley values: they are to be had for RBF, Laplacian, Linear, Hamming, "
        "Polynomial and for kernels on single columns. group_decisions says what it adds as a "
        "whole."
    )


def _game_of_combination(combination, weights):
    if type(combination) is Product:
        return ProductGame(np.asarray(weights, dtype=float)[combination._group], True)
    if type(combination) is PolynomialMixture:
        rates = np.asarray(weights, dtype=float)
        return _power_game(rates, combination.offset, combination.degree, "PolynomialMixture")
    raise ValueError(
        f"{type(combination).__name__} is a combination of your own, and it is not known how it is "
        "made of columns: Shapley values are to be had for Product and PolynomialMixture."
    )


def _power_game(rates, offset, degree, name):
    if degree > HIGHEST_DEGREE:
        raise ValueError(
            f"{name!r} has degree {degree}, and Shapley values are exact up to degree "
            f"{HIGHEST_DEGREE}: beyond, rounding takes their digits."
        )
    return PowerGame(rates, offset, degree)


def _of_linear(A, points, coefficients):
    return A[:, None, :] * (coefficients @ points)


def _of_agreement(weights, A, points, coefficients):
    out = np.empty((len(A), len(coefficients), weights.size))
    for f, weight in enumerate(weights):
        entries, codes = np.unique(points[:, f], return_inverse=True)
        sums = np.stack([np.bincount(codes, row, entries.size) for row in coefficients])
        places = np.minimum(np.searchsorted(entries, A[:, f]), entries.size - 1)
        out[:, :, f] = weight * (sums[:, places] * (entries[places] == A[:, f])).T
    return out


def _empty(of, games, n):
    """Values of the empty coalition, (t, n)."""
    base = np.repeat(of.constant, n, axis=1) if of.constant.shape[1] == 1 else of.constant.copy()
    for term, game in zip(of.terms, games, strict=True):
        level = game.empty * term.coefficients.sum(axis=1)
        base += level[:, None] * (1.0 if term.sizes is None else term.sizes)
    return base


def _values(terms, games, rows, others, outputs, threads):
    """Values of all columns at rows, (n, t, d)."""
    n, d = rows.shape
    out = np.zeros((n, outputs, d))
    each = 1 if others is None else others.shape[0]
    most = max((term.coefficients.shape[1] for term in terms), default=1) * each
    step = max(1, min(-(-n // (4 * threads)), ROWS_AT_ONCE, PAIRS_AT_ONCE // most))
    seen = [(None if others is None else term.see(others)) for term in terms]

    def fill(start):
        at = np.arange(start, min(start + step, n))
        for term, game, beyond in zip(terms, games, seen, strict=True):
            here = at if term.sizes is None else at[term.sizes[at] > 0.0]
            if here.size:
                part = np.zeros((here.size, outputs, term.columns.size))
                A = term.see(rows[here])
                given = A, A[:0] if beyond is None else beyond, term.points, term.coefficients
                # of each other order of the entries the loops would be compiled anew
                game.add(*map(np.ascontiguousarray, given), part)
                part *= 1.0 if term.sizes is None else term.sizes[here][:, None, None]
                out[np.ix_(here, np.arange(outputs), term.columns)] += part

    with one_thread():
        Threads(threads).map(fill, range(0, n, step))
    return out


# --- quadrature -----------------------------------------------------------------------------------


def _largest_sum(nodes):
    """The sum of changes of the factors up to which so many nodes are as good as exact.

    With a sum S, derivatives of order 2n of the integrand are at most ``S^2n``, and the error of n
    nodes that times ``(n!)^4 / ((2n + 1) (2n)!^3)``.
    """
    logs = 3.0 * gammaln(2 * nodes + 1) - 4.0 * gammaln(nodes + 1) + math.log(2 * nodes + 1)
    return math.exp((math.log(QUADRATURE_ERROR) + logs) / (2 * nodes))


def _counts():
    """Numbers of nodes, by four, which the loops take together, and later by a quarter."""
    nodes = 4
    while True:
        yield nodes
        nodes += 4 * max(1, nodes // 16)


def _top_rule(columns, largest):
    """The first number of nodes that is exact for so many columns, or for sums of changes up to
    the largest.
    """
    enough = min(float(columns), largest)
    return next(n for n in _counts() if 2 * n >= columns or _largest_sum(n) >= enough)


@cache
def _rules(top):
    """Limits, starts, nodes below one half and weights of all rules up to one."""
    counts = list(takewhile(lambda nodes: nodes <= top, _counts()))
    limits = np.array([_largest_sum(nodes) for nodes in counts])
    starts = np.concatenate([[0], np.cumsum([nodes // 2 for nodes in counts])])
    found = [roots_legendre(nodes) for nodes in counts]
    halves = [(0.5 * x[: x.size // 2] + 0.5, 0.5 * w[: x.size // 2]) for x, w in found]
    return limits, starts, *(np.concatenate(part) for part in zip(*halves, strict=True))


@cache
def _moments(degree):
    """Binomials, cumulants at every node, and weights of the nodes for a polynomial."""
    x, w = roots_legendre(max(1, -(-degree // 2)))
    t = 0.5 * x + 0.5
    cumulant, cumulants = np.polynomial.Polynomial([0.0, 1.0]), []
    spread = np.polynomial.Polynomial([0.0, 1.0, -1.0])
    for _ in range(degree):
        cumulants.append(cumulant(t))
        cumulant = spread * cumulant.deriv()
    orders = np.arange(degree + 1)
    binomials = comb(orders[:, None], orders[None, :])
    return binomials, np.ascontiguousarray(np.stack(cumulants, axis=1)), 0.5 * w
