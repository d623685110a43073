"""Kernel logistic regression: the machine for losses whose dual is not quadratic.

The primal is smooth: with ``f = K beta + b`` and the response ``beta(f)`` of the loss to decision
values,

    min_{beta, b}  beta' K beta / 2 + loss(f).

Newton's method on it needs few steps from anywhere, each a system of equations with the matrix ``I
+ W^1/2 K W^1/2`` and the curvatures W of the loss (iteratively reweighted least squares). The
response to its decision values, whose sum the intercept makes right, is the dual solution: always
in the box, so that no step has to look at bounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve
from scipy.optimize import brentq

from .._pulse import pulse
from .._threads import cholesky_factor
from ..losses import Box, Curve


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this machine.

    Attributes
    ----------
    rows_per_product : int
        Rows of a kernel that are turned into float64 at a time: more take more memory.
    max_steps : int
        Steps of Newton's method. Larger lets hopeless problems take longer.
    patience : int
        Steps without a smaller violation. Larger waits longer where rounding has won.
    length_error : float
        Error of the length of a step, as a part of it. Larger makes a search along a line cheaper
        and the step worse.
    rounding : float
        Violation that is rounding, relative to what decision values are sums of. Larger ends the
        search earlier.
    """

    rows_per_product: int = 256
    max_steps: int = 100
    patience: int = 25
    length_error: float = 1e-2
    rounding: float = 1e-16


TOLERANCES = Tolerances()


class Place(NamedTuple):
    """A point of the primal: beta (n,), which need not be in its box, and the decision values."""

    beta: np.ndarray
    f: np.ndarray


class Answer(NamedTuple):
    """The coefficients that respond to a place, (n,), minus the gradient of the quadratic part of
    the dual there, and the violation of the optimality conditions.
    """

    beta: np.ndarray
    F: np.ndarray
    violation: float


def ascend(
    kernel: np.ndarray,
    box: Box,
    beta: np.ndarray,
    F: np.ndarray,
    tol: float,
    max_steps: int,
) -> tuple[int, float]:
    """As `Machine.ascend`, for a box with a curve and a kernel in memory; a step counts as a visit
    to all rows.
    """
    used = np.flatnonzero(box.upper > box.lower)
    if used.size == 0:
        return 0, 0.0
    solver, before = _Newton(kernel, box, used), beta[used]
    most, steps = min(TOLERANCES.max_steps, 1 + max_steps // beta.size), -1
    for found in solver.answers(before, F[used], tol, most):
        beta[used] = found.beta  # so that the best is there after an interrupt
        steps += 1
    if not solver.whole:
        F += kernel[:, used] @ (found.beta - before)
    F[used] = found.F
    return steps * beta.size, found.violation


class _Newton:
    """Newton's method for the points that have a cost."""

    def __init__(self, kernel: np.ndarray, box: Box, used: np.ndarray) -> None:
        self.whole = used.size == len(kernel)
        self.K = kernel if self.whole else kernel[np.ix_(used, used)]
        self.box = box if self.whole else box.take_points(used)
        assert self.box.curve is not None
        self.curve: Curve = self.box.curve
        self.largest = float(np.diagonal(self.K).max())

    def answers(self, beta: np.ndarray, F: np.ndarray, tol: float, most: int) -> Iterator[Answer]:
        """The best answer so far, at the start and after every step."""
        at, F = self._start(beta, F)
        best, waited, steps = self._answer(at, F), 0, 0
        yield best
        while best.violation >= max(tol, self._rounding(best)):
            if steps >= most or waited >= TOLERANCES.patience:
                return
            pulse()
            at, F = self._step(at, F)
            found, steps = self._answer(at, F), steps + 1
            waited = 0 if found.violation < best.violation else waited + 1
            best = found if waited == 0 else best
            yield best

    def _start(self, beta: np.ndarray, F: np.ndarray) -> tuple[Place, np.ndarray]:
        """The place to begin, and F there: that of the given coefficients, or of none if that is
        better.
        """
        product, curve = self._times(beta), self.curve
        places = [
            (Place(beta, self._leveled(F)), F),
            (Place(np.zeros_like(beta), self._leveled(F - product)), F - product),
        ]
        half = 0.5 * float(beta @ product)
        return places[int(half + curve.loss(places[0][0].f) > curve.loss(places[1][0].f))]

    def _rounding(self, answer: Answer) -> float:
        """The violation that rounding leaves."""
        return TOLERANCES.rounding * self.largest * float(np.abs(answer.beta).sum())

    def _leveled(self, f: np.ndarray) -> np.ndarray:
        return f + self.curve.level(f, self.box.total)

    def _answer(self, at: Place, F: np.ndarray) -> Answer:
        f = self._leveled(at.f)
        beta = self.box.feasible(self.curve.response(f)[0])
        F = F + self._times(beta - at.beta)
        return Answer(beta, F, float(np.ptp(F - f)))

    def _step(self, at: Place, F: np.ndarray) -> tuple[Place, np.ndarray]:
        """The place after a step of the best length, and F there."""
        response, bends = self.curve.response(at.f)
        roots = np.sqrt(self.curve.positive(bends))
        H = roots[:, None] * self.K
        H *= roots
        H[np.diag_indices_from(H)] += 1.0
        # transposed, the same matrix lies as LAPACK wants it
        factor = cholesky_factor(H.T)
        right = np.stack([(response - at.beta) / roots, roots], axis=1)
        x, ones = roots * cho_solve(factor, right, check_finite=False).T
        rise = (x.sum() + at.beta.sum() - self.box.total) / ones.sum()  # of the intercept
        change = x - rise * ones
        moved = self._times(change)
        norms = float(at.beta @ moved) + self.box.total * rise, float(change @ moved)
        length = best_length(self.curve, at.f, moved + rise, *norms)
        f = at.f + length * (moved + rise)
        return Place(at.beta + length * change, f), F + length * moved

    def _times(self, x: np.ndarray) -> np.ndarray:
        out, step = np.empty(x.size), TOLERANCES.rows_per_product
        for start in range(0, x.size, step):
            out[start : start + step] = self.K[start : start + step] @ x
        return out


def best_length(
    curve: Curve, f: np.ndarray, change: np.ndarray, start: float, bend: float
) -> float:
    """The step in (0, 1] along a change of the decision values f that makes the primal smallest:
    where its slope, which grows, is zero.

    The rest of the primal, the norm and a sum of coefficients times the intercept, has the slope
    ``start + length bend``.
    """

    def slope(length: float) -> float:
        return start + length * bend - float(curve.response(f + length * change)[0] @ change)

    if slope(1.0) <= 0.0 or slope(0.0) >= 0.0:
        return 1.0
    return brentq(slope, 0.0, 1.0, xtol=1e-9, rtol=TOLERANCES.length_error, maxiter=50)
