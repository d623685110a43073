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

Vectors with an entry per point stay where the factors are, on the host or on a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from .._arrays import Array, here, namespace
from .._pulse import pulse
from ..losses import Box, Curve, Loss
from .base import Machine, MachineResult
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
    patience : int
        Centers without a smaller violation. Larger waits longer where rounding has won.
    gram_price : float
        Steps that the Gram matrix of all points is worth. Larger makes limits on steps count
        sooner.
    rounding : float
        Relative rounding error of the value: smaller decreases are believed.
    largest_intercept : float
        An intercept beyond which there is none.
    level_rounds : int
        Steps of the search for an intercept.
    sum_error : float
        Error of a sum of coefficients, relative to it. Larger ends that search earlier.
    """

    first_width: float = 0.3
    next_width: float = 0.3
    max_halvings: int = 40
    steps_per_center: int = 50
    sufficient_decrease: float = 1e-4
    center_slope: float = 0.05
    patience: int = 8
    gram_price: float = 3.0
    rounding: float = 1e-14
    largest_intercept: float = 1e100
    level_rounds: int = 200
    sum_error: float = 1e-14


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
        self._system: Any = None

    def dot(self, w: np.ndarray) -> Array:
        """``A w``, (n,), where the factors are."""
        return self.points.values(self._left(w)[None])[0]

    def correlate(self, beta: Array) -> np.ndarray:
        """``A' beta``, (q,), in the memory of the host."""
        return self._right(self.points.correlate(beta[None])[0])

    def newton_step(self, slope: np.ndarray, bends: Array) -> np.ndarray:
        """The step of w and the intercept to the minimum of ``z' H z / 2 + z' slope``, with
        ``H = [A 1]' diag(bends) [A 1]`` and the norm of w, (q + 1,).

        Where few bends have changed since the last step, so has the matrix.
        """
        self._system = self.points.system(bends, before=self._system)
        with self.bank.threads.algebra():
            return self._system.rooted(self.root).descent(slope)

    def _left(self, x: np.ndarray) -> np.ndarray:
        return self.root * x if self.root.ndim == 1 else self.root @ x

    def _right(self, x: np.ndarray) -> np.ndarray:
        return self.root * x if self.root.ndim == 1 else self.root.T @ x


class Place(NamedTuple):
    """A point of the primal: w (q,), the intercept, and the decision values (n,)."""

    w: np.ndarray
    b: float
    f: Array

    def moved(self, step: Place, length: float) -> Place:
        """The place after a part of a step."""
        return Place(self.w + length * step.w, self.b + length * step.b, self.f + length * step.f)


class FactoredMachine(Machine):
    """Newton's method in the space of the factors; the kernel is a `FactoredKernel`."""

    def solve(
        self,
        kernel: FactoredKernel,
        loss: Loss,
        y: np.ndarray,
        cost: np.ndarray,
        start: np.ndarray | None = None,
        tol: float = 1e-3,
        max_steps: int | None = None,
        gap: float = 0.0,
    ) -> MachineResult:
        beta, there = np.zeros(len(y)) if start is None else start, kernel.points.to_device
        of = there(y), there(cost), there(beta)
        found = super().solve(kernel, loss, *of, tol, max_steps, gap)
        beta[:] = here(found.beta)
        return found._replace(beta=beta, scores=here(found.scores))

    def multiply(self, kernel: FactoredKernel, beta: Array) -> Array:
        return kernel.dot(kernel.correlate(beta))

    def ascend(
        self,
        kernel: FactoredKernel,
        box: Box,
        beta: Array,
        F: Array,
        tol: float,
        max_steps: int,
    ) -> tuple[int, float]:
        if box.curve is not None:
            return self._bent(kernel, box, beta, F, tol, max_steps)
        violation, done, waited = _violation(box, beta, F), 0, 0
        best = violation
        width = TOLERANCES.first_width * violation
        place = Place(kernel.correlate(beta), 0.0, F - box.ridge * beta + box.linear)
        while violation >= tol and done < max_steps and waited < TOLERANCES.patience:
            pulse()
            rounded = _Rounded(box, beta, max(width, tol))
            most = min(TOLERANCES.steps_per_center, max_steps - done)
            place, steps = self._centered(kernel, rounded, place, most)
            beta[:] = box.feasible(rounded.coefficients(place.f))
            F[:] = self.multiply(kernel, beta) + box.ridge * beta - box.linear
            violation = _violation(box, beta, F)
            done += max(steps, 1)
            width = TOLERANCES.next_width * min(width, violation)
            waited = 0 if violation < 0.9 * best else waited + 1
            best = min(best, violation)
        return done, violation

    def _bent(
        self,
        kernel: FactoredKernel,
        box: Box,
        beta: Array,
        F: Array,
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
            rest = (scores - place.f)[used]
            violation = float(rest.max() - rest.min()) if len(rest) else 0.0
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
            done += 1 + round(TOLERANCES.gram_price * float((bends > 0.0).sum()) / len(bends))
        return at, done


def _better_start(kernel: FactoredKernel, box: Box, curve: Curve, beta: Array, F: Array) -> Place:
    """The place of coefficients, or that of none if it is better, for a loss with a curve."""
    given = _leveled(box, curve, Place(kernel.correlate(beta), 0.0, F))
    none = _leveled(box, curve, Place(np.zeros_like(given.w), 0.0, 0.0 * F))
    value = 0.5 * float(given.w @ given.w) + curve.loss(given.f)
    return given if value <= curve.loss(none.f) else none


def _leveled(box: Box, curve: Curve, at: Place) -> Place:
    """This place with the best intercept, for a loss with a curve."""
    change = curve.level(at.f, box.total)
    return Place(at.w, at.b + change, at.f + change)


def _newton(kernel: FactoredKernel, slope: np.ndarray, bends: Array) -> Place:
    """The step to the minimum of the quadratic model, whose slope along the intercept is zero."""
    step = kernel.newton_step(np.append(slope, 0.0), bends)
    w, b = step[:-1], float(step[-1])
    return Place(w, b, kernel.dot(w) + b)


class _Rounded:
    """A loss through its box, with its corners rounded off around some coefficients."""

    def __init__(self, box: Box, center: Array, width: float) -> None:
        room, xp = box.upper - box.lower, namespace(box.lower)
        # a loss that bends by itself needs nothing
        extra = width / xp.clip(room, 1e-300, None)
        extra = xp.where((box.ridge > 0.0) | (room <= 0.0), 0.0, extra)
        self.box, self.total = box, box.total
        self.ridge = xp.where(room > 0.0, box.ridge + extra, 1.0)
        self.linear = box.linear + extra * center
        # what is left of the slope changes the decision values by a part of the width
        slope = TOLERANCES.center_slope * width
        self.enough = slope**2 / max(float((1.0 / self.ridge).sum()), 1e-300)

    def response(self, f: Array) -> tuple[Array, Array]:
        """Coefficients at decision values, and the curvature of the loss there."""
        box, pull, xp = self.box, self.linear - f, namespace(f)
        free = xp.sign(pull) * xp.clip(abs(pull) - box.kink, 0.0, None) / self.ridge
        beta = xp.clip(free, box.lower, box.upper)
        bends = (beta == free) & ((box.kink == 0.0) | (beta != 0.0)) & (box.upper > box.lower)
        return beta, xp.where(bends, 1.0 / self.ridge, 0.0)

    def coefficients(self, f: Array) -> Array:
        """Coefficients with the right sum: what rounding has left of it goes where it costs least,
        so that those at a bound stay there.
        """
        beta, bends = self.response(f)
        bending = float(bends.sum())
        return beta + (self.total - beta.sum()) / bending * bends if bending > 0.0 else beta

    def leveled(self, at: Place) -> Place:
        """This place with the best intercept, where the coefficients have the sum that they must
        have: it falls as the intercept grows, and Newton's method inside of a bracket finds it.
        """
        shift, low, high, reach = 0.0, -np.inf, np.inf, 1.0
        for _ in range(TOLERANCES.level_rounds):
            beta, bends = self.response(at.f + shift)
            excess, bend = float(beta.sum()) - self.total, float(bends.sum())
            rounding = TOLERANCES.sum_error
            if abs(excess) <= rounding * (float(abs(beta).sum()) + abs(self.total)):
                break
            low, high = (shift, high) if excess > 0.0 else (low, shift)
            has_bracket = np.isfinite(high - low)
            if has_bracket and high - low <= rounding * (abs(low) + abs(high)):
                break
            newton = shift + excess / bend if bend > 0.0 else np.nan
            if low < newton < high:
                shift = newton
            elif has_bracket:
                shift = 0.5 * (low + high)
            else:
                shift, reach = shift + np.copysign(reach, excess), 4.0 * reach
            if reach > TOLERANCES.largest_intercept:  # all costs on one side: no sum is right
                return at
        return Place(at.w, at.b + shift, at.f + shift)

    def value(self, at: Place) -> float:
        """The primal with this loss."""
        beta = self.response(at.f)[0]
        losses = beta * (self.linear - at.f) - self.box.kink * abs(beta)
        losses -= 0.5 * self.ridge * beta**2
        return 0.5 * float(at.w @ at.w) + float(losses.sum()) + self.total * at.b


def _violation(box: Box, beta: Array, F: Array) -> float:
    up, down = box.sides(beta, F)
    return max(0.0, float(up.max() - down.min()))
