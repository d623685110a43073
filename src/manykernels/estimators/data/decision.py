"""From a result to decision values: what a fitted estimator predicts with.

``estimator.decision_`` is one of four kinds: an expansion in kernels at the support vectors, a
product with low-rank factors, one with the random features of a product of kernels, or an expansion
whose kernels may also be given as Gram matrices of the new samples.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..._threads import Threads, one_thread, thread_count
from ...banks import ColumnBank, KernelSet, TiledBank
from ...banks.lowrank.product import ProductFeatureBank
from ...banks.packed import Expansion, PackedExpansion, can_pack
from ...kernels.points import as_points, is_sparse
from ...kernels.precomputed import GramElsewhere, Precomputed
from ...kernels.vector import dense
from ...thresholds import thresholds

FACTOR_ROWS = 4096  # points whose factors are held at a time
ARRAY_ENTRIES = 2**25  # of rows of a sparse table that become an array at a time


@dataclass(eq=False, repr=False)
class Decision(ABC):
    """Decision functions ``f_c(x) = sum_i beta_ci K_d(x, x_i) + b_c`` of t outputs.

    Attributes
    ----------
    bank : KernelSet
        The kernels on the training points, or the map of features of a low-rank model.
    weights : (m,) array, or (t, m) where every output has its own
    intercept : (t,) array
    n_fit : int
        Rows that were given to `fit`.
    approximate : bool
        Whether the kernels are those of an approximation.
    takes_grams : bool
        Whether matrices K(test, train) will do in place of points.
    """

    bank: KernelSet
    weights: np.ndarray
    intercept: np.ndarray
    n_fit: int

    approximate = False
    takes_grams = False

    @abstractmethod
    def scores(self, X, categories=None) -> np.ndarray:
        """Decision values of every output, (t, n_new).

        Parameters
        ----------
        X : (n_new, n_features) array or CSR matrix
            Checked points.
        categories : dict, optional
            The entries that codes in X stand for, by column.
        """

    @abstractmethod
    def parts(self, X, members, categories=None) -> np.ndarray:
        """What some kernels together add to the decision values, (g, t, n_new): without the
        intercepts, `scores` is their sum if every kernel is in one of the parts.

        Parameters
        ----------
        X, categories
            As for `scores`.
        members : (g, m) bool array
            The kernels of each part.
        """

    @abstractmethod
    def squared_norms(self) -> np.ndarray | None:
        """The part of every kernel in the squared norms of the functions, ``w_k sum_c beta_c' K_k
        beta_c``, (m,); None where it is not to be had.
        """

    def grams_of(self, X) -> list[np.ndarray] | None:
        """Checked matrices K(test, train), if X is such and not points; None otherwise."""
        return None

    @property
    def points(self) -> np.ndarray:
        """Numbers of the training points of the bank that are needed."""
        return np.empty(0, dtype=np.intp)

    @property
    def has_training_points(self) -> bool:
        """Whether the bank holds all the distinct training points."""
        return False

    def on_points(self, kept) -> Self:
        """The same for a bank of some of the training points, in ascending order."""
        return self

    def lean(self) -> "Decision":
        """The same without training points and Gram matrices that no prediction needs, where the
        bank can do without them; otherwise itself.
        """
        return self

    def state(self) -> dict[str, Any]:
        """What `restored` needs besides kernels, weights and intercept: plain values and arrays."""
        shared = {one.name for one in fields(Decision)} - {"n_fit"}
        own = {one.name for one in fields(self)} - shared
        return {"kind": type(self).__name__} | {name: getattr(self, name) for name in sorted(own)}

    def check(self) -> None:
        """Raise ValueError unless the parts fit each other."""
        if not self._fits():
            raise ValueError("its parts do not fit each other.")

    def _fits(self):
        outputs, m = len(self.intercept), len(self.bank.names)
        return self.weights.shape in ((m,), (outputs, m))

    @property
    def _weights_of_outputs(self):
        return np.broadcast_to(self.weights, (len(self.intercept), self.weights.shape[-1]))


@dataclass(eq=False, repr=False)
class ExpansionDecision(Decision):
    """An expansion in kernels at the support vectors.

    Attributes
    ----------
    support : (s,) int
        Numbers of the support vectors among the points of the bank.
    beta : (t, s) array
        Their coefficients.
    whole : bool
        Whether the bank holds all the distinct training points.
    """

    support: np.ndarray
    beta: np.ndarray
    whole: bool = True

    def scores(self, X, categories=None):
        if self.support.size == 0:
            return np.repeat(self.intercept[:, None], X.shape[0], axis=1)
        if isinstance(X, np.ndarray) and self._packed is not None:
            return self._packed_scores(X) + self.intercept[:, None]
        at_once = _rows_at_once(X)
        if at_once < X.shape[0]:
            starts = range(0, X.shape[0], at_once)
            parts = [self.scores(X[start : start + at_once], categories) for start in starts]
            return np.concatenate(parts, axis=1)
        bank = self.bank.with_categories(categories) if categories else self.bank
        with one_thread():
            cross = bank.cross(X, self.support)
            return _expanded(cross, self.weights, self.beta) + self.intercept[:, None]

    def _packed_scores(self, X):
        """Decision values of dense rows without the intercepts: few by NumPy alone, of many what
        needs pairs of points by compiled loops.
        """
        packed, limits = self._packed, thresholds()
        if X.shape[0] * packed.entries <= limits.uncompiled_entries:
            return packed.scores(X, self.bank.threads)
        looks_up = packed.functions is not None
        looks_up = looks_up and X.shape[0] >= limits.rows_per_node * packed.functions.nodes
        scores, left = packed.begun(X, looks_up)
        if left.size:
            with one_thread():
                cross = self.bank.take_kernels(left).cross(X, self.support)
                scores += _expanded(cross, self.weights[..., left], self.beta)
        return scores

    @cached_property
    def _packed(self):
        """The same in NumPy alone, for few rows; None where there is no such form."""
        bank = self.bank
        if type(bank) is not TiledBank or not can_pack(bank.spec, bank.right):
            return None
        weights = np.atleast_2d(self.weights)
        return PackedExpansion(Expansion(bank.spec, bank.right[self.support], weights, self.beta))

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_packed"}

    def parts(self, X, members, categories=None):
        if not self.bank.is_sum:
            raise AttributeError("This model is no sum of kernels: it has no parts.")
        bank = self.bank.with_categories(categories) if categories else self.bank
        out = np.zeros((len(members), len(self.intercept), X.shape[0]))
        if self.support.size:
            with one_thread():
                products = bank.cross(X, self.support).products(self.beta)  # (m, t, n_new)
            products *= self._weights_of_outputs.T[:, :, None]
            out += np.tensordot(members.astype(float), products, 1)
        return out

    def squared_norms(self):
        if not self.bank.is_sum:
            return None
        weights, beta = np.atleast_2d(self.weights), np.zeros((len(self.beta), self.bank.n))
        beta[:, self.support] = self.beta
        used = np.flatnonzero(weights.any(axis=0))
        if used.size == 0:
            return np.zeros(self.bank.m)
        bank = None if used.size == self.bank.m else self.bank.take_kernels(used)
        if bank is None:
            return weighted_forms(self.bank, weights, beta)
        parts = np.zeros(self.bank.m)
        parts[used] = weighted_forms(bank, weights[:, used], beta)
        return parts

    @property
    def points(self):
        # a bank needs a point
        return self.support if self.support.size else np.zeros(1, dtype=np.intp)

    @property
    def has_training_points(self):
        return self.whole

    def on_points(self, kept):
        whole = self.whole and len(kept) == self.bank.n
        return replace(self, support=np.searchsorted(kept, self.support), whole=whole)

    def lean(self):
        if type(self.bank) is not TiledBank:
            return self
        bank = self.bank.forgetful()
        if len(self.points) == bank.n:
            return replace(self, bank=bank)
        return replace(self.on_points(self.points), bank=bank.take_points(self.points))

    def _fits(self):
        support, n = self.support, self.bank.n
        fits = self.beta.shape == (len(self.intercept), support.size)
        fits = fits and support.ndim == 1 and support.dtype.kind == "i"
        return (
            super()._fits()
            and fits
            and (support.size == 0 or (0 <= support.min() and support.max() < n))
        )


@dataclass(eq=False, repr=False)
class GramDecision(ExpansionDecision):
    """An expansion in precomputed kernels alone: new samples are indices, or the matrices K(test,
    train) of all kernels.

    Attributes
    ----------
    rows : (r,) int
        Numbers of the support vectors among the rows that were given to `fit`.
    dual_coef : (t, r) array
        Their coefficients.
    """

    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    dual_coef: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def takes_grams(self):
        return self.bank.normalize not in ("cosine", "center")

    def scores(self, X, categories=None):
        if not isinstance(X, list):
            return super().scores(X, categories)
        scores = np.repeat(self.intercept[:, None], X[0].shape[0], axis=1)
        weights = np.atleast_2d(self.weights) * self.bank.scales
        for w, K in zip(weights.T, X, strict=True):
            if w.any():
                scores += w[:, None] * (self.dual_coef @ K[:, self.rows].T)
        return scores

    def parts(self, X, members, categories=None):
        if not isinstance(X, list):
            return super().parts(X, members, categories)
        out = np.zeros((len(members), len(self.intercept), X[0].shape[0]))
        weights = np.atleast_2d(self.weights) * self.bank.scales
        for k, (w, K) in enumerate(zip(weights.T, X, strict=True)):
            if w.any():
                out[members[:, k]] += w[:, None] * (self.dual_coef @ K[:, self.rows].T)
        return out

    def lean(self):
        return self  # its points are rows of the matrices of the kernels

    def squared_norms(self):
        if any(isinstance(kernel, GramElsewhere) for kernel in self.bank.kernels):
            return None
        return super().squared_norms()

    def grams_of(self, X):
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != 1:
            X = [X]
        elif not _many_matrices(X):
            return None
        grams, count = [np.asarray(K) for K in X], len(self.bank.names)
        if len(grams) != count:
            raise ValueError(
                f"There are {count} precomputed kernels, but {len(grams)} test matrices were given."
            )
        for k, K in enumerate(grams):
            self._check_gram(k, K, grams[0].shape[0])
        if not self.takes_grams:
            raise ValueError(
                f"normalize={self.bank.normalize!r} needs more of new samples than K(test, "
                "train): pass sample indices."
            )
        return grams

    def _check_gram(self, k, K, n_rows):
        if K.shape[0] != n_rows:
            raise ValueError(f"Test matrix {k} has {K.shape[0]} rows, the first has {n_rows}.")
        if K.shape[1] != self.n_fit:
            raise ValueError(
                f"Test matrix {k} has shape {K.shape}; K(test, train) is needed, with one column "
                f"for each of the {self.n_fit} training samples in the order given to fit (K(test, "
                "test) will not do)."
            )
        if not np.isfinite(K).all():
            raise ValueError(f"Test matrix {k} holds NaN or infinite values.")

    def _fits(self):
        rows = self.rows
        fits = rows.ndim == 1 and self.dual_coef.shape == (len(self.intercept), rows.size)
        return super()._fits() and fits


@dataclass(eq=False, repr=False)
class FactorDecision(Decision):
    """A product with the low-rank factors of new points, ``f_c(x) = v_c' V(x)' + b_c``.

    Attributes
    ----------
    coefficients : (t, width) array
        The v_c, as the map of features takes them.
    norms : (t, m) array
        Squared lengths of the parts of v_c that belong to each kernel.
    n_jobs : int, optional
        Threads.
    """

    coefficients: np.ndarray
    norms: np.ndarray
    n_jobs: int | None = None

    approximate = True

    def scores(self, X, categories=None):
        features, coefficients, _ = self._in_use(categories)
        scores = np.empty((len(self.intercept), X.shape[0]))

        def fill(start):
            part = slice(start, start + FACTOR_ROWS)
            scores[:, part] = coefficients @ features.block(as_points(X[part])).T

        with one_thread():
            Threads(thread_count(self.n_jobs)).map(fill, range(0, X.shape[0], FACTOR_ROWS))
        return scores + self.intercept[:, None]

    def parts(self, X, members, categories=None):
        features, coefficients, used = self._in_use(categories)
        out = np.empty((len(members), len(self.intercept), X.shape[0]))
        columns = np.repeat(members[:, used], np.diff(features.offsets), axis=1)  # (g, width)
        masked = (columns[:, None] * coefficients).reshape(-1, features.width)

        def fill(start):
            part = slice(start, start + FACTOR_ROWS)
            found = masked @ features.block(as_points(X[part])).T
            out[:, :, part] = found.reshape(*out.shape[:2], -1)

        with one_thread():
            Threads(thread_count(self.n_jobs)).map(fill, range(0, X.shape[0], FACTOR_ROWS))
        return out

    def _in_use(self, categories):
        """Map of features and coefficients of the kernels that have some, and which these are."""
        features = self.bank.with_categories(categories) if categories else self.bank
        used = np.flatnonzero(self.norms.any(axis=0))
        if used.size in (0, self.norms.shape[1]):
            return features, self.coefficients, np.arange(self.norms.shape[1])
        columns = np.isin(np.repeat(np.arange(features.m), np.diff(features.offsets)), used)
        return features.take_kernels(used), self.coefficients[:, columns], used

    def squared_norms(self):
        """From ``v_k = w_k V_k' beta``: the part is ``|v_k|^2 / w_k``."""
        weights = self._weights_of_outputs
        parts = np.divide(self.norms, weights, out=np.zeros_like(self.norms), where=weights > 0)
        return parts.sum(axis=0)

    def _fits(self):
        outputs = len(self.intercept)
        fits = self.coefficients.shape == (outputs, self.bank.width)
        return super()._fits() and fits and self.norms.shape == (outputs, len(self.bank.names))


@dataclass(eq=False, repr=False)
class ProductDecision(Decision):
    """A product with the random features of new points at the learned weights.

    Attributes
    ----------
    coefficients : (t, width) array
    n_jobs : int, optional
        Threads.
    """

    coefficients: np.ndarray
    n_jobs: int | None = None

    approximate = True

    def scores(self, X, categories=None):
        scores = np.empty((len(self.intercept), X.shape[0]))
        outputs = [(slice(None), self.weights)]
        if self.weights.ndim == 2:
            outputs = list(enumerate(self.weights))

        def fill(start):
            part = slice(start, start + FACTOR_ROWS)
            points = dense(X[part])
            for output, weights in outputs:
                features = self.bank.block(points, weights)
                scores[output, part] = self.coefficients[output] @ features.T

        with one_thread():
            Threads(thread_count(self.n_jobs)).map(fill, range(0, X.shape[0], FACTOR_ROWS))
        return scores + self.intercept[:, None]

    def parts(self, X, members, categories=None):
        raise AttributeError("This model is no sum of kernels: it has no parts.")

    def squared_norms(self):
        return None

    def _fits(self):
        shape = len(self.intercept), self.bank.width
        return super()._fits() and self.coefficients.shape == shape


DECISIONS = ExpansionDecision, FactorDecision, GramDecision, ProductDecision
KINDS = {kind.__name__: kind for kind in DECISIONS}


def make_decision(result, bank, distinct, *, offset=0.0, n_features=None, n_jobs=None):
    """The decision function of a result on a bank.

    Parameters
    ----------
    result : Result
    bank : Bank
    distinct : Canonical
        The rows that were given to `fit`, and the distinct ones that the bank has.
    offset : float or (t,) array
        What was subtracted from the targets.
    n_features : int, optional
        Columns of X; matrices K(test, train) stand for a single column of indices.
    n_jobs : int, optional
    """
    of = result.weights, result.intercept + offset, distinct.group.size
    if isinstance(bank, ColumnBank):
        return _factor_decision(result, bank, of, n_jobs)
    if isinstance(bank, ProductFeatureBank):
        weights = np.broadcast_to(result.weights, (len(result.beta), result.weights.shape[-1]))
        parts = [bank.coefficients(w, b[None]) for w, b in zip(weights, result.beta, strict=True)]
        return ProductDecision(bank.features, *of, np.concatenate(parts), n_jobs)
    support = np.flatnonzero(result.beta.any(axis=0))
    expansion = bank, *of, support, result.beta[:, support]
    kernels = bank.kernels if n_features == 1 and bank.needs_grams else ()
    if not kernels or not all(isinstance(kernel, Precomputed) for kernel in kernels):
        return ExpansionDecision(*expansion)
    beta = distinct.expand(result.beta)
    rows = np.flatnonzero(beta.any(axis=0))
    return GramDecision(*expansion, rows=rows, dual_coef=beta[:, rows])


def _factor_decision(result, bank, of, n_jobs):
    """Landmarks and coefficients are all that is needed from now on."""
    weights = np.broadcast_to(result.weights, (len(result.beta), result.weights.shape[-1]))
    parts = [bank.coefficients(w, b[None]) for w, b in zip(weights, result.beta, strict=True)]
    norms = np.stack([bank.squared_norms(part) for part in parts])
    coefficients = bank.lasting(np.concatenate(parts))
    return FactorDecision(bank.features, *of, coefficients, norms, n_jobs)


def restored_decision(state, bank, weights, intercept):
    """The decision of a `Decision.state`, checked."""
    state = dict(state)
    kind = state.pop("kind")
    if kind not in KINDS:
        raise ValueError(f"{str(kind)[:40]!r} is not a kind of decision.")
    decision = KINDS[kind](bank, weights, intercept, **state)
    decision.check()
    return decision


def _expanded(cross, weights, beta):
    """Decision values of kernels between new points and support vectors, (t, n_new)."""
    if weights.ndim == 1:
        return cross.decision(weights, beta)
    return np.stack([cross.decision(w, b) for w, b in zip(weights, beta, strict=True)])


def weighted_forms(bank, weights, beta):
    """``w_k beta' K_k beta`` summed over the outputs, (m,)."""
    if len(weights) == 1:
        return weights[0] * bank.quadratic_forms(beta)
    return sum(w * bank.quadratic_forms(b) for w, b in zip(weights, beta, strict=True))


def _rows_at_once(X):
    """How many new rows are worked on together: all, unless an array of those of a sparse table
    would be large.
    """
    if not is_sparse(X) or X.nnz < thresholds().stored_share * X.shape[0] * X.shape[1]:
        return X.shape[0]
    return max(1, ARRAY_ENTRIES // max(X.shape[1], 1))


def _many_matrices(X):
    if isinstance(X, (list, tuple)):
        return all(np.ndim(K) == 2 for K in X)
    return np.ndim(X) == 3
