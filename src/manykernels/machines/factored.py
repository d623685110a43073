"""The SVM with a kernel of low rank, solved in the space of its factors.

With ``K = A A'`` and features A of few columns the SVM is a linear one,

    min_{w, b}  |w|^2 / 2 + loss(A w + b),

and Newton's method on it needs, at every step, the Gram matrix of the features of those points
whose loss bends. A loss with a curve, which bends everywhere, needs no more. Losses with corners do
not bend: the dual gets a proximal term around the last coefficients, ``width / cost |beta -
center|^2 / 2``, which rounds off the corners by the width, and its center moves until nothing is
left of it (the method of multipliers: X. Li, D. Sun and K.-C. Toh, A highly efficient semismooth
Newton augmented Lagrangian method for solving Lasso problems, SIAM Journal on Optimization 2018).
Good coefficients to begin with save most of the steps, and no step looks at pairs of points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq

from .._arrays import here
from .._pulse import pulse
from ..losses import Box, Curve
from .base import Machine
from .curved import best_length


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this machine.

    Attributes
    ----------
    first_width : float
        Width of the first rounded corners, in units of the violation. Larger makes the first
        center cheaper and its answer worse.
    next_width : float
        Width of the next corners, as a part of the last width or of the violation. Larger takes
        more centers, each of fewer steps.
    max_halvings : int
        Halvings of the length of a step.
    steps_per_center : int
        Steps around one center at most.
    sufficient_decrease : float
        Part of the expected decrease that a step must bring. Larger makes steps shorter.
    center_slope : float
        Part of the width that is left of the slope when the center moves. Larger moves it earlier.
    intercept_ridge : float
        Relative ridge on the intercept, which holds it where no point bends.
    patience : int
        Centers without a smaller violation. Larger waits longer where rounding has won.
    gram_price : float
        Steps that the Gram matrix of all points is worth. Larger makes limits on steps count
        sooner.
    rounding : float
        Relative rounding error of the value: smaller decreases are believed.
    largest_intercept : float
        An intercept beyond which there is none.
    """

    first_width: float = 0.3
    next_width: float = 0.3
    max_halvings: int = 40
    steps_per_center: int = 50
    sufficient_decrease: float = 1e-4
    center_slope: float = 0.05
    intercept_ridge: float = 1e-12
    patience: int = 8
    gram_price: float = 3.0
    rounding: float = 1e-14
    largest_intercept: float = 1e100


TOLERANCES = Tolerances()


class FactoredKernel:
    """The kernel ``K_d`` of a bank of low-rank factors: ``Q C C' Q'`` with the factors Q of its
    space and the root C of the weights there.

    Parameters
    ----------
    bank : FactorBank
    weights : (m,) array
    """

    def __init__(self, bank: Any, weights: np.ndarray) -> None:
        self.bank, self.points, self.root = bank, bank.points, here(bank.root(weights))

    def dot(self, w: np.ndarray) -> np.ndarray:
        """``A w``, (n,)."""
        return self.points.dot(self._left(w)[None])[0]

    def correlate(self, beta: np.ndarray) -> np.ndarray:
        """``A' beta``, (q,)."""
        return self._right(self.points.correlate(beta[None])[0])

    def gram(self, scale: np.ndarray) -> np.ndarray:
        """``[A 1]' diag(scale) [A 1]``, (q + 1, q + 1)."""
        q = self.points.width
        out = np.empty((q + 1, q + 1))
        out[:q, :q] = self._right(self._right(self.points.gram(scale)).T)
        out[q, :q] = out[:q, q] = self.correlate(scale)
        out[q, q] = scale.sum()
        return out

    def _left(self, x: np.ndarray) -> np.ndarray:
        return self.root * x if self.root.ndim == 1 else self.root @ x

    def _right(self, x: np.ndarray) -> np.ndarray:
        if self.root.ndim == 1:
            return (self.root * x.T).T
        return self.root.T @ x


class Place(NamedTuple):
    """A point of the primal: w (q,), the intercept, and the decision values (n,)."""

    w: np.ndarray
    b: float
    f: np.ndarray

    def moved(self, step: Place, length: float) -> Place:
        """The place after a part of a step."""
        return Place(self.w + length * step.w, self.b + length * step.b, self.f + length * step.f)


class FactoredMachine(Machine):
    """Newton's method in the space of the factors; the kernel is a `FactoredKernel`."""

    def multiply(self, kernel: FactoredKernel, beta: np.ndarray) -> np.ndarray:
        return kernel.dot(kernel.correlate(beta))

    def ascend(
        self,
        kernel: FactoredKernel,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        tol: float,
        max_steps: int,
    ) -> tuple[int, float]:
        if box.curve is not None:
            return self._bent(kernel, box, beta, F, tol, max_steps)
        violation, done, waited = _violation(box, beta, F), 0, 0
        width = TOLERANCES.first_width * violation
        place = Place(kernel.correlate(beta), 0.0, F - box.ridge * beta + box.linear)
        while violation >= tol and done < max_steps and waited < TOLERANCES.patience:
            pulse()
            rounded = _Rounded(box, beta, max(width, tol))
            most = min(TOLERANCES.steps_per_center, max_steps - done)
            place, steps = self._centered(kernel, rounded, place, most)
            beta[:] = box.feasible(rounded.coefficients(place.f))
            F[:] = self.multiply(kernel, beta) + box.ridge * beta - box.linear
            before, violation = violation, _violation(box, beta, F)
            done += max(steps, 1)
            width = TOLERANCES.next_width * min(width, violation)
            waited = 0 if violation < 0.9 * before else waited + 1
        return done, violation

    def _bent(
        self,
        kernel: FactoredKernel,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        tol: float,
        max_steps: int,
    ) -> tuple[int, float]:
        """`ascend` for a loss with a curve, which Newton's method takes as it is."""
        curve = cast(Curve, box.curve)
        used, place = box.upper > box.lower, _better_start(kernel, box, curve, beta, F)
        best, waited, done = np.inf, 0, 0
        while True:
            pulse()
            place = _leveled(box, curve, place)
            response, bends = curve.response(place.f)
            found = box.feasible(response)
            scores = self.multiply(kernel, found)
            violation = float(np.ptp((scores - place.f)[used])) if used.any() else 0.0
            waited = 0 if violation < best else waited + 1
            if violation < best:
                best, beta[:], F[:] = violation, found, scores
            if violation < tol or done >= max_steps or waited >= TOLERANCES.patience:
                return done, best
            step = _newton(kernel, place.w - kernel.correlate(response), bends)
            norms = float(place.w @ step.w), float(step.w @ step.w)
            place = place.moved(step, best_length(curve, place.f, step.f, *norms))
            done += 1 + round(TOLERANCES.gram_price)

    @staticmethod
    def _centered(
        kernel: FactoredKernel, rounded: _Rounded, at: Place, most: int
    ) -> tuple[Place, int]:
        """The minimum of the loss with rounded corners, and the steps that led there; a step whose
        Gram matrix has all points counts as several.
        """
        at, done = rounded.leveled(at), 0
        value = rounded.value(at)
        while done < most:
            pulse()
            beta, bends = rounded.response(at.f)
            slope = at.w - kernel.correlate(beta)
            step = _newton(kernel, slope, bends)
            decrease = -float(slope @ step.w)
            rounding = TOLERANCES.rounding * abs(value)
            if decrease <= max(rounded.enough, rounding):
                return at, done
            length, after = 1.0, rounded.value(at.moved(step, 1.0))
            for _ in range(TOLERANCES.max_halvings):
                # a decrease that rounding hides is believed
                if after <= value - TOLERANCES.sufficient_decrease * length * decrease + rounding:
                    break
                length *= 0.5
                after = rounded.value(at.moved(step, length))
            at = rounded.leveled(at.moved(step, length))
            value = rounded.value(at)
            done += 1 + round(TOLERANCES.gram_price * np.count_nonzero(bends) / bends.size)
        return at, done


def _better_start(
    kernel: FactoredKernel, box: Box, curve: Curve, beta: np.ndarray, F: np.ndarray
) -> Place:
    """The place of coefficients, or that of none if it is better, for a loss with a curve."""
    given = _leveled(box, curve, Place(kernel.correlate(beta), 0.0, F))
    none = _leveled(box, curve, Place(np.zeros_like(given.w), 0.0, np.zeros_like(F)))
    value = 0.5 * float(given.w @ given.w) + curve.loss(given.f)
    return given if value <= curve.loss(none.f) else none


def _leveled(box: Box, curve: Curve, at: Place) -> Place:
    """This place with the best intercept, for a loss with a curve."""
    change = curve.level(at.f, box.total)
    return Place(at.w, at.b + change, at.f + change)


def _newton(kernel: FactoredKernel, slope: np.ndarray, bends: np.ndarray) -> Place:
    """The step to the minimum of the quadratic model, whose slope along the intercept is zero."""
    with kernel.bank.threads.algebra():
        H = kernel.gram(bends)
        diagonal = np.einsum("ii->i", H)
        diagonal[:-1] += 1.0
        diagonal[-1] += TOLERANCES.intercept_ridge * max(diagonal[-1], 1.0)
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
        x = -cho_solve(factor, np.append(slope, 0.0), check_finite=False)
    return Place(x[:-1], x[-1], kernel.dot(x[:-1]) + x[-1])


class _Rounded:
    """A loss through its box, with its corners rounded off around some coefficients."""

    def __init__(self, box: Box, center: np.ndarray, width: float) -> None:
        room = box.upper - box.lower
        # a loss that bends by itself needs nothing
        extra = np.where((box.ridge > 0.0) | (room <= 0.0), 0.0, width / np.maximum(room, 1e-300))
        self.box, self.total = box, box.total
        self.ridge = np.where(room > 0.0, box.ridge + extra, 1.0)
        self.linear = box.linear + extra * center
        # what is left of the slope changes the decision values by a part of the width
        slope = TOLERANCES.center_slope * width
        self.enough = slope**2 / max(float(np.sum(1.0 / self.ridge)), 1e-300)

    def response(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients at decision values, and the curvature of the loss there."""
        box, pull = self.box, self.linear - f
        free = np.sign(pull) * np.maximum(np.abs(pull) - box.kink, 0.0) / self.ridge
        beta = np.clip(free, box.lower, box.upper)
        bends = (beta == free) & ((box.kink == 0.0) | (beta != 0.0)) & (box.upper > box.lower)
        return beta, np.where(bends, 1.0 / self.ridge, 0.0)

    def coefficients(self, f: np.ndarray) -> np.ndarray:
        """Coefficients with the right sum: what rounding has left of it goes where it costs least,
        so that those at a bound stay there.
        """
        beta, bends = self.response(f)
        bending = bends.sum()
        return beta + (self.total - beta.sum()) / bending * bends if bending > 0.0 else beta

    def leveled(self, at: Place) -> Place:
        """This place with the best intercept, where the coefficients have the sum that they
        must have: it falls as the intercept grows.
        """

        def excess(b: float) -> float:
            return self.response(at.f + b)[0].sum() - self.total

        reach = 1.0 + float(np.abs(self.linear - at.f).max(initial=0.0) + self.box.kink.max())
        while excess(-reach) < 0.0 or excess(reach) > 0.0:
            reach *= 4.0
            if (
                reach > TOLERANCES.largest_intercept
            ):  # all costs on one side: every coefficient is zero
                return at
        change = brentq(excess, -reach, reach, xtol=1e-15 * reach)
        return Place(at.w, at.b + change, at.f + change)

    def value(self, at: Place) -> float:
        """The primal with this loss."""
        beta = self.response(at.f)[0]
        losses = beta * (self.linear - at.f) - self.box.kink * np.abs(beta)
        losses -= 0.5 * self.ridge * beta**2
        return 0.5 * float(at.w @ at.w) + float(losses.sum()) + self.total * at.b


def _violation(box: Box, beta: np.ndarray, F: np.ndarray) -> float:
    up, down = box.sides(beta, F)
    return max(0.0, float(up.max() - down.min()))
