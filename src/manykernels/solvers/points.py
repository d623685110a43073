"""The points of Newton's method, with the products of all kernels in memory or without.

A point knows beta and its quadratic forms. It is judged by a regularizer, makes the quadratic
program of the next step, and says how the forms change along a step. `HeldPoint` keeps the products
``K_k beta``, (m, t, n) numbers, and updates them. `StreamedPoint` keeps none: one sweep over the
kernels adds up what judging and the program need of them, (t, t, n, n) numbers, and another gives
the forms along the step.
"""

from typing import Any, NamedTuple

import numpy as np

from ..banks.base import Sums
from ..regularizers.base import Regularizer
from ..run_state import RunState
from .base import Iterate
from .dual import HeldProgram, StreamedProgram, forms_of, inner, judged


def held_bytes(run: RunState) -> int:
    """Bytes of the products of all kernels, with those of a step."""
    outputs, n = run.problem.targets.shape
    return 16 * run.bank.m * outputs * n


class Line(NamedTuple):
    """Quadratic forms ``s + 2 size slope + size^2 curve`` along a change of beta.

    Attributes
    ----------
    change : (t, n)
    slope, curve : (m,)
    products : (m, t, n), or what does as an array where the bank keeps them; None if not held
    """

    change: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    products: Any = None

    def forms(self, start: np.ndarray, size: float) -> np.ndarray:
        """Forms after a step of this size, which rounding must not make negative."""
        return np.maximum(start + 2 * size * self.slope + size**2 * self.curve, 0.0)


class HeldPoint(NamedTuple):
    """A point with the products of all kernels: beta (t, n), products (m, t, n), forms (m,)."""

    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray

    @classmethod
    def at(cls, run: RunState, beta: np.ndarray) -> "HeldPoint":
        products = run.held_products(beta)
        return cls(beta, products, forms_of(products, beta))

    def times(self, size: float) -> "HeldPoint":
        """The point of a multiple of beta."""
        return HeldPoint(size * self.beta, size * self.products, size**2 * self.forms)

    def only(self, kernels: np.ndarray) -> "HeldPoint":
        """The point for some of the kernels."""
        if len(kernels) == len(self.forms):
            return self
        return HeldPoint(self.beta, self.products[kernels], self.forms[kernels])

    def judged(self, run: RunState, model: Regularizer) -> tuple["HeldPoint", Iterate]:
        """The point, and the iterate with the weights that belong to its forms."""
        return self, judged(run, model, self.beta, self.products, self.forms)

    def fresh(self, run: RunState) -> "HeldPoint":
        """This point, computed anew to be judged again."""
        return self.at(run, self.beta)

    def scores(self, run: RunState, weights: np.ndarray) -> np.ndarray:
        """``K_d beta`` for any weights d."""
        m, *shape = self.products.shape
        return (weights @ self.products.reshape(m, -1)).reshape(shape)

    def program(self, run: RunState, model: Regularizer) -> tuple["HeldPoint", HeldProgram]:
        """The curvature of the dual here, and the point that knows it."""
        weights = model.weights(self.forms)
        K, J = run.combine(weights), model.curvature(self.forms)
        return self, HeldProgram(run.bank, K, self.products, J, self.scores(run, weights))

    def line(self, run: RunState, change: np.ndarray) -> Line:
        moved = run.held_products(change)
        return Line(change, inner(self.products, change), forms_of(moved, change), moved)

    def moved(self, line: Line, size: float) -> "HeldPoint":
        """The point after a step along a line."""
        products = size * line.products
        products += self.products  # a large array less
        return HeldPoint(self.beta + size * line.change, products, line.forms(self.forms, size))


class Sweep(NamedTuple):
    """Weights and sums of a sweep over the kernels for a model."""

    model: Regularizer
    weights: np.ndarray
    sums: Sums


class StreamedPoint(NamedTuple):
    """A point without products, with the last sweep here if there was one."""

    beta: np.ndarray
    forms: np.ndarray
    sweep: Sweep | None = None

    @classmethod
    def at(cls, run: RunState, beta: np.ndarray) -> "StreamedPoint":
        return cls(beta, run.quadratic_forms(beta))

    def times(self, size: float) -> "StreamedPoint":
        return StreamedPoint(size * self.beta, size**2 * self.forms)

    def judged(self, run: RunState, model: Regularizer) -> tuple["StreamedPoint", Iterate]:
        sweep, beta = self._swept(run, model), self.beta
        scores = sweep.sums.times(beta)
        certificate = run.certificate(sweep.weights, beta, scores=scores, forms=self.forms)
        return self._replace(sweep=sweep), Iterate(sweep.weights, beta, certificate)

    def fresh(self, run: RunState) -> "StreamedPoint":
        # any weights are good for a certificate: those of the sweep, whose scores are known, save
        # another one
        return self._replace(forms=run.quadratic_forms(self.beta))

    def scores(self, run: RunState, weights: np.ndarray) -> np.ndarray:
        return run.decision(weights, self.beta)

    def program(self, run: RunState, model: Regularizer) -> tuple["StreamedPoint", StreamedProgram]:
        sweep, factor = self._swept(run, model), model.curvature(self.forms).factor
        program = StreamedProgram(sweep.sums, factor, self.beta, run.bank.dtype)
        return self._replace(sweep=sweep), program

    def line(self, run: RunState, change: np.ndarray) -> Line:
        slope, curve = run.directional_forms(self.beta, change)
        return Line(change, slope, np.maximum(curve, 0.0))

    def moved(self, line: Line, size: float) -> "StreamedPoint":
        return StreamedPoint(self.beta + size * line.change, line.forms(self.forms, size))

    def _swept(self, run: RunState, model: Regularizer) -> Sweep:
        """The sweep for a model: the last one, or a new one."""
        if self.sweep is not None and self.sweep.model is model:
            return self.sweep
        weights = model.weights(self.forms)
        sums = run.newton_sums(weights, self.beta, model.curvature(self.forms))
        return Sweep(model, weights, sums)
