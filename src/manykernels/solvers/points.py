"""Where Newton's method stands, with the products of all kernels in memory or without.

A point knows beta and its quadratic forms. It is judged by a model (the regularizer, or a smoothed
version of it), makes the quadratic program of the next step, and says how the forms change along a
step. `HeldPoint` keeps the products ``K_k beta``, (m, t, n) numbers, and updates them.
`StreamedPoint` keeps none: one sweep over the kernels adds up what judging and the program need of
them, (t, t, n, n) numbers, and another gives the forms along the step.
"""

from typing import NamedTuple

import numpy as np

from ..banks.base import Sums
from ..machines import DenseMachine
from .base import Iterate
from .dual import forms_of, judged

ROWS = 256


class Line(NamedTuple):
    """Quadratic forms ``s + 2 size slope + size^2 curve`` along a change of beta, and its products
    if they are held.
    """

    change: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    products: np.ndarray | None

    def forms(self, start, size):
        """Forms after a step of this size, which rounding must not make negative."""
        return np.maximum(start + 2 * size * self.slope + size**2 * self.curve, 0.0)


class HeldPoint(NamedTuple):
    """A point with the products of all kernels: beta (t, n), products (m, t, n), forms (m,)."""

    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray

    @classmethod
    def at(cls, run, beta):
        products = run.products(beta)
        return cls(beta, products, forms_of(products, beta))

    def times(self, size):
        """The same for a multiple of beta."""
        return HeldPoint(size * self.beta, size * self.products, size**2 * self.forms)

    def judged(self, run, model):
        """The point, and the iterate with the weights that belong to its forms."""
        return self, judged(run, model, self.beta, self.products, self.forms)

    def fresh(self, run):
        """The same point, computed anew to be judged again."""
        return self.at(run, self.beta)

    def scores(self, run, weights):
        """``K_d beta`` for any weights d."""
        return np.einsum("k,ktn->tn", weights, self.products)

    def program(self, run, model):
        """The curvature of the dual here, and the point that knows it."""
        weights = model.weights(self.forms)
        K, J = run.combine(weights), model.curvature(self.forms)
        return self, HeldProgram(K, self.products, J, self.scores(run, weights))

    def line(self, run, change):
        moved = run.products(change)
        return Line(
            change, np.einsum("ktn,tn->k", self.products, change), forms_of(moved, change), moved
        )

    def moved(self, line, size):
        """The point after a step along a line."""
        products = self.products + size * line.products
        return HeldPoint(self.beta + size * line.change, products, line.forms(self.forms, size))


class StreamedPoint(NamedTuple):
    """A point without products; `sums` are those of the last sweep here, for a model and its
    weights.
    """

    beta: np.ndarray
    forms: np.ndarray
    model: object = None
    weights: np.ndarray | None = None
    sums: Sums | None = None

    @classmethod
    def at(cls, run, beta):
        return cls(beta, run.quadratic_forms(beta))

    def times(self, size):
        return StreamedPoint(size * self.beta, size**2 * self.forms)

    def judged(self, run, model):
        point = self._swept(run, model)
        scores = _multiply(point.sums.K, point.beta)
        certificate = run.certificate(point.weights, point.beta, scores=scores, forms=point.forms)
        return point, Iterate(point.weights, point.beta, certificate)

    def fresh(self, run):
        # any weights are good for a certificate: those of the sweep, whose scores are known, save
        # another one
        return self._replace(forms=run.quadratic_forms(self.beta))

    def scores(self, run, weights):
        return run.decision(weights, self.beta)

    def program(self, run, model):
        point = self._swept(run, model)
        return point, StreamedProgram(
            point.sums, model.curvature(point.forms).factor, point.beta, run.bank.dtype
        )

    def line(self, run, change):
        slope, curve = run.along(self.beta, change)
        return Line(change, slope, np.maximum(curve, 0.0), None)

    def moved(self, line, size):
        return StreamedPoint(self.beta + size * line.change, line.forms(self.forms, size))

    def _swept(self, run, model):
        if self.model is model:
            return self
        weights = model.weights(self.forms)
        return self._replace(
            model=model,
            weights=weights,
            sums=run.sweep(weights, self.beta, model.curvature(self.forms)),
        )


class HeldProgram:
    """The curvature ``H_ce = [c = e] K + 2 M_c' J M_e`` between outputs c and e, by the products.

    Attributes
    ----------
    kernels : list of (n, n) arrays
        ``H_cc``, in the precision of K.
    scores : (t, n)
    """

    def __init__(self, K, products, J, scores):
        self.products, self.J, self.scores = products, J, scores
        self.kernels = [self._curved(K, products[:, c]) for c in range(products.shape[1])]
        self._pulls = np.zeros((len(self.kernels), len(products)))

    def moved(self, c, change):
        """Take note of how far output c has gone."""
        self._pulls[c] = self.products[:, c] @ change

    def coupling(self, c):
        """``sum_e H_ce change_e`` over the other outputs, (n,)."""
        x, J = self._pulls.sum(axis=0) - self._pulls[c], self.J
        return 2.0 * ((J.diagonal * x + J.factor * (J.vector @ x) * J.vector) @ self.products[:, c])

    def _curved(self, K, M):
        rows = (M * np.sqrt(2.0 * self.J.diagonal)[:, None]).astype(K.dtype)
        out = rows.T @ rows
        out += K
        v = (self.J.vector @ M).astype(K.dtype)
        out += K.dtype.type(2.0 * self.J.factor) * np.outer(v, v)
        return out


class StreamedProgram:
    """The same by sums over the kernels."""

    def __init__(self, sums, factor, beta, dtype):
        self.sums, self.factor, self.scores = sums, factor, _multiply(sums.K, beta)
        self.kernels = [self._curved(c, np.dtype(dtype).type) for c in range(len(beta))]
        self._changes = np.zeros_like(beta)

    def _curved(self, c, dtype):
        """``K + 2 squares + 2 factor outer(mixed, mixed)``, in as few passes as it takes."""
        out = self.sums.squares[c, c].astype(dtype)
        out *= dtype(2.0)
        out += self.sums.K
        v = self.sums.mixed[c]
        for start in range(0, v.size, ROWS):
            out[start : start + ROWS] += np.outer(
                2.0 * self.factor * v[start : start + ROWS], v
            ).astype(dtype)
        return out

    def moved(self, c, change):
        self._changes[c] = change

    def coupling(self, c):
        others = (e for e in range(len(self._changes)) if e != c)
        return sum(
            (2.0 * (self._block(c, e) @ self._changes[e]) for e in others),
            np.zeros(self._changes.shape[1]),
        )

    def _block(self, c, e):
        return self.sums.squares[c, e] + self.factor * np.outer(
            self.sums.mixed[c], self.sums.mixed[e]
        )


def _multiply(K, beta):
    return np.stack([DenseMachine().multiply(K, b) for b in beta])
