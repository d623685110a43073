"""Where Newton's method stands, with the products of all kernels in memory or without.

A point knows beta and its quadratic forms. It is judged by a regularizer, makes the quadratic
program of the next step, and says how the forms change along a step. `HeldPoint` keeps the products
``K_k beta``, (m, t, n) numbers, and updates them. `StreamedPoint` keeps none: one sweep over the
kernels adds up what judging and the program need of them, (t, t, n, n) numbers, and another gives
the forms along the step.
"""

from typing import NamedTuple

import numpy as np

from ..banks.base import Sums
from .base import Iterate
from .dual import HeldProgram, StreamedProgram, forms_of, inner, judged


def held_bytes(run):
    """Bytes of the products of all kernels, with those of a step."""
    outputs, n = run.problem.targets.shape
    return 16 * run.bank.m * outputs * n


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
        products = run.held_products(beta)
        return cls(beta, products, forms_of(products, beta))

    def times(self, size):
        """The same for a multiple of beta."""
        return HeldPoint(size * self.beta, size * self.products, size**2 * self.forms)

    def only(self, kernels):
        """The same for some of the kernels."""
        if len(kernels) == len(self.forms):
            return self
        return HeldPoint(self.beta, self.products[kernels], self.forms[kernels])

    def judged(self, run, model):
        """The point, and the iterate with the weights that belong to its forms."""
        return self, judged(run, model, self.beta, self.products, self.forms)

    def fresh(self, run):
        """The same point, computed anew to be judged again."""
        return self.at(run, self.beta)

    def scores(self, run, weights):
        """``K_d beta`` for any weights d."""
        m, *shape = self.products.shape
        return (weights @ self.products.reshape(m, -1)).reshape(shape)

    def program(self, run, model):
        """The curvature of the dual here, and the point that knows it."""
        weights = model.weights(self.forms)
        K, J = run.combine(weights), model.curvature(self.forms)
        return self, HeldProgram(run.bank, K, self.products, J, self.scores(run, weights))

    def line(self, run, change):
        moved = run.held_products(change)
        return Line(change, inner(self.products, change), forms_of(moved, change), moved)

    def moved(self, line, size):
        """The point after a step along a line."""
        products = size * line.products
        products += self.products  # a large array less
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
        scores = point.sums.times(point.beta)
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
        slope, curve = run.directional_forms(self.beta, change)
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
            sums=run.newton_sums(weights, self.beta, model.curvature(self.forms)),
        )
