"""Smooth losses on kernels of many points: Newton's method by conjugate gradients.

With the curvatures ``W = R^2`` of the loss, a step of Newton's method (`curved`), and the whole
problem of a squared loss, is the system

    (I + R K R) v + rise R 1 = right,    sum(R v) = missing,

whose solution is the change ``R v`` of the coefficients and the rise of the intercept. A Cholesky
factorization takes ``n^3 / 3`` multiplications and a copy of the kernel in float64. Conjugate
gradients take the kernel as it is, and a product with it for every round. The part of the kernel
that makes for many rounds has a small rank, and the columns of some points tell it (Nystroem's
approximation ``L L'``): ``I + R L L' R``, whose inverse takes a system of as many equations as
there are columns, is the preconditioner. The constraint on the sum is kept in every round, by a
projection in the metric of the preconditioner.

How precisely a system is solved decides everything again. A point of the primal, coefficients beta
with their decision values f, is also one of the dual, once it is moved into its box, and the gap
between the two values is about half the squared length of ``right``: so the residual is the gap
that the step would leave if the loss were quadratic. Far from the solution that says little, since
points without curvature make up most of it; there a part of the residual in the units of
coefficients is good enough. (The response of the loss to f, which `curved` takes for a dual point,
is one for exact steps only: the kernel amplifies its errors.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular

from .._pulse import pulse
from ..losses import Box, Curve
from .curved import best_length
from .matrices import multiply, rough_product, rows_of, submatrix

ROUNDING = 1e-12  # part of the coefficients that their sum may be wrong by


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this machine.

    Attributes
    ----------
    columns : int
        Columns of the kernel that the preconditioner is made of. More need fewer products, and make
        every system dearer.
    rows_per_step : int
        Rows that a product visits in the time of a step of SMO. If it were larger, products would
        count for less.
    products_per_point, least_products : float, int
        Products at most, as a part of the number of points, and in any case. With more,
        factorizations take the place of hopeless systems later.
    most_factorized_points : int
        Points up to which they do: the kernel in float64 is a gigabyte. With more, plans may be
        wrong about memory.
    max_steps : int
        Steps of Newton's method. Larger lets hopeless problems take longer.
    patience : int
        Steps without progress. Larger waits longer where rounding has won.
    residual_left : float
        Part of the residual that a step of Newton's method may leave. Larger makes for more and
        cheaper steps.
    roughest_gap : float
        Gap, as a part of the loss without kernels, that is wanted in any case: a product costs less
        than a pass over the kernels. Larger makes for rougher solutions where rough ones will do.
    share_of_gap : float
        Part of the wanted gap that the residual may make up. Larger ends systems earlier, and more
        often too early.
    rounding : float
        Gap that is rounding, as a part of the values that it is the difference of.
    """

    columns: int = 400
    rows_per_step: int = 40
    products_per_point: float = 0.1
    least_products: int = 100
    most_factorized_points: int = 12_000
    max_steps: int = 100
    patience: int = 5
    residual_left: float = 0.1
    roughest_gap: float = 1e-4
    share_of_gap: float = 0.3
    rounding: float = 1e-14


TOLERANCES = Tolerances()


class Answer(NamedTuple):
    """Coefficients in the box, (n,), minus the gradient of the quadratic part of the dual there,
    and the gap between the values of primal and dual.
    """

    beta: np.ndarray
    F: np.ndarray
    gap: float


def ascend(
    kernel: Any, box: Box, beta: np.ndarray, F: np.ndarray, tol: float, max_steps: int
) -> tuple[int, float]:
    """As `Machine.ascend`, for a box with a curve or without bounds, and a kernel in memory: a
    matrix or a `CurvedKernel`.

    Ends at a gap that a violation of tol might cost, and returns the violation that might cost the
    gap that is left.
    """
    used = np.flatnonzero(box.upper > box.lower)
    if used.size == 0:
        return 0, 0.0
    before, whole = beta.copy(), used.size == beta.size
    products = max(TOLERANCES.least_products, int(TOLERANCES.products_per_point * beta.size))
    most_rows = min(TOLERANCES.rows_per_step * max_steps, products * beta.size)
    equations = Equations(kernel if whole else submatrix(kernel, used), most_rows)
    part = box if whole else box.take_points(used)
    wanted = min(part.price(tol, beta[used]), TOLERANCES.roughest_gap * _loss_alone(part))
    answers = _minimized if part.curve is not None else _solved
    for found in answers(equations, part, beta[used], F[used], wanted):
        beta[used] = found.beta  # so that the best is there after an interrupt
    change = beta - before
    F += multiply(kernel, change) + box.ridge * change
    steps = equations.rows // TOLERANCES.rows_per_step
    return steps, float(np.sqrt(max(found.gap, 0.0) / part.squares))


def gave_up(n: int, steps: int, max_steps: int) -> bool:
    """True if so many steps of `ascend` were the last products of a system that is better
    factorized.
    """
    products = max(TOLERANCES.least_products, int(TOLERANCES.products_per_point * n))
    worth = products * n // TOLERANCES.rows_per_step
    return worth <= steps < max_steps and n <= TOLERANCES.most_factorized_points


def _solved(
    equations: "Equations", box: Box, beta: np.ndarray, F: np.ndarray, wanted: float
) -> Iterator[Answer]:
    """Answers for a dual without bounds, each better than the last: of one system, and of more for
    the errors of those before.
    """
    roots, enough = 1.0 / np.sqrt(box.ridge), 2.0 * TOLERANCES.share_of_gap * wanted
    best = Answer(beta, F, _squared_loss(box, F))
    yield best
    while best.gap > wanted and not equations.exhausted:
        missing = box.total - float(best.beta.sum())
        x, Kx, _ = equations.solve(roots, -roots * best.F, missing, enough)
        F = best.F + Kx + box.ridge * x
        new = Answer(best.beta + x, F, _squared_loss(box, F))
        if new.gap > TOLERANCES.residual_left * best.gap:  # rounding has won
            return
        best = new
        yield best


def _squared_loss(box: Box, errors: np.ndarray) -> float:
    """The loss of errors with the best intercept, for a box without bounds."""
    weights = 1.0 / box.ridge
    errors = errors - float(weights @ errors) / float(weights.sum())
    return 0.5 * float(weights @ errors**2)


def _loss_alone(box: Box) -> float:
    """The loss of an intercept without kernels."""
    if box.curve is None:
        return _squared_loss(box, box.linear)
    nothing = np.zeros(box.lower.size)
    return box.curve.loss(nothing + box.curve.level(nothing, box.total))


class Place(NamedTuple):
    """A point of the primal: beta (n,), which need not be in its box, the decision values without
    and with the intercept, F and f (n,), half the squared norm and the value.
    """

    beta: np.ndarray
    F: np.ndarray
    f: np.ndarray
    norm: float
    value: float


def _minimized(
    equations: "Equations", box: Box, beta: np.ndarray, F: np.ndarray, wanted: float
) -> Iterator[Answer]:
    """Answers for a dual with a curve, each better than the last: Newton's method on the primal."""
    curve = box.curve
    assert curve is not None
    at = _start(equations, box, beta, F)
    best = found = _answer(equations, box, at)
    yield best
    lowest, waited = at.value, 0
    for _ in range(TOLERANCES.max_steps):
        rounding = TOLERANCES.rounding * abs(at.value)
        if best.gap <= max(wanted, rounding) or equations.exhausted:
            return
        at = _step(equations, box, at, wanted)
        found = _answer(equations, box, at)
        # far from the solution only the primal value tells of progress
        gained = found.gap < best.gap or at.value < lowest - max(0.1 * wanted, rounding)
        waited = 0 if gained else waited + 1
        if waited > TOLERANCES.patience:
            return
        lowest = min(lowest, at.value)
        if found.gap < best.gap:
            best = found
            yield best


def _place(box: Box, beta: np.ndarray, F: np.ndarray, norm: float) -> Place:
    """The place of coefficients whose norm is known, with the best intercept."""
    assert box.curve is not None
    b = box.curve.level(F, box.total)
    return Place(beta, F, F + b, norm, norm + box.curve.loss(F + b) + box.total * b)


def _start(equations: "Equations", box: Box, beta: np.ndarray, F: np.ndarray) -> Place:
    """The place to begin: that of the given coefficients, or of none if that is better."""
    product = equations.times(beta)
    given = _place(box, beta, F, 0.5 * float(beta @ product))
    none = _place(box, np.zeros_like(beta), F - product, 0.0)
    return given if given.value <= none.value else none


def _answer(equations: "Equations", box: Box, at: Place) -> Answer:
    """The point of the dual that belongs to a place."""
    curve: Any = box.curve
    beta = box.feasible(at.beta)
    F = at.F + equations.times(beta - at.beta)
    f = F + curve.level(F, box.total)
    return Answer(beta, F, curve.loss(f) - curve.value(beta) + float(beta @ f))


def _step(equations: "Equations", box: Box, at: Place, wanted: float) -> Place:
    """The place after a step of the best length."""
    curve: Curve | None = box.curve
    assert curve is not None
    response, bends = curve.response(at.f)
    roots = np.sqrt(curve.positive(bends))
    right, enough = (response - at.beta) / roots, 2.0 * TOLERANCES.share_of_gap * wanted
    # what moves coefficients into their box may cost more than the residual tells
    enough = 0.0 if float(right @ right) < 4.0 * enough else enough
    missing = box.total - float(at.beta.sum())
    x, Kx, rise = equations.solve(roots, right, missing, enough, TOLERANCES.residual_left)
    slope, bend = float(at.beta @ Kx), float(x @ Kx)
    length = best_length(curve, at.f, Kx + rise, slope + box.total * rise, bend)
    beta, F = at.beta + length * x, at.F + length * Kx
    return _place(box, beta, F, at.norm + length * slope + 0.5 * length**2 * bend)


def held_bytes(n: int, itemsize: int) -> int:
    """Bytes that a preconditioner takes: columns of a kernel, and those of two approximations."""
    return 3 * min(TOLERANCES.columns, n) * n * itemsize


class Solution(NamedTuple):
    """A change of the coefficients, (n,), K times it, and the rise of the intercept."""

    x: np.ndarray
    Kx: np.ndarray
    rise: float


class Equations:
    """Systems with one kernel.

    Parameters
    ----------
    kernel : (n, n) array or CurvedKernel
    most_rows : int
        Rows of the kernel that all products together may visit.

    Attributes
    ----------
    rows : int
        Those that they have visited.
    """

    def __init__(self, kernel: Any, most_rows: int) -> None:
        self.kernel, self.most_rows, self.rows = kernel, most_rows, 0
        self.L = _columns(kernel)

    @property
    def exhausted(self) -> bool:
        """True after the last product."""
        return self.rows >= self.most_rows

    def times(self, x: np.ndarray) -> np.ndarray:
        """The product with a vector, (n,)."""
        if not x.any():
            return np.zeros(x.size)
        self.rows += x.size
        pulse()
        return rough_product(self.kernel, x)

    def solve(
        self,
        roots: np.ndarray,
        right: np.ndarray,
        missing: float,
        enough: float,
        left: float = 0.0,
    ) -> Solution:
        """The solution of a system, up to a residual whose squared length is `enough`, or which is
        a part `left` of the first in the units of coefficients.
        """
        inverse = Preconditioner(self.L, roots)
        v, Kx, rise = np.zeros(roots.size), np.zeros(roots.size), 0.0
        if abs(missing) > ROUNDING * float(np.abs(roots * right).sum()):
            v = missing * inverse.level
            Kx = self.times(roots * v)
        residual = right - v - roots * Kx
        most = left**2 * _squares(roots * residual)
        p, before = np.zeros(v.size), 1.0
        while True:
            # the part of the residual that the intercept takes
            up = float(inverse.level @ residual)
            residual, rise = residual - up * roots, rise + up
            found = Solution(roots * v, Kx, rise)
            small = _squares(residual) <= enough or _squares(roots * residual) <= most
            if small or self.exhausted:
                return found
            # the next direction, conjugate to the last ones
            z = inverse.projected(residual)
            now = float(residual @ z)
            p = z + now / before * p
            Kp = self.times(roots * p)
            Hp = p + roots * Kp
            bend = float(p @ Hp)
            if not bend > 0.0:  # rounding has made the kernel indefinite
                return found
            length, before = now / bend, now
            v, Kx, residual = v + length * p, Kx + length * Kp, residual - length * Hp


class Preconditioner:
    """The inverse of ``I + R L L' R``, (n, n).

    Attributes
    ----------
    level : (n,)
        The inverse times R, over the sum of its part in R: what changes the sum of coefficients by
        one.
    """

    def __init__(self, L: np.ndarray, roots: np.ndarray) -> None:
        self.roots, self.scaled = roots, L * roots.astype(L.dtype)
        inner = (self.scaled @ self.scaled.T).astype(float)
        self.factor = _factor(inner, float(np.finfo(L.dtype).eps))
        level = self._times(roots)
        self.level = level / float(roots @ level)

    def _times(self, v: np.ndarray) -> np.ndarray:
        scaled = self.scaled
        inside = cho_solve(self.factor, scaled @ v.astype(scaled.dtype), check_finite=False)
        return v - inside.astype(scaled.dtype) @ scaled

    def projected(self, v: np.ndarray) -> np.ndarray:
        """The inverse times a vector, changed so that the sum of coefficients stays the same."""
        z = self._times(v)
        return z - float(self.roots @ z) * self.level


def _factor(inner: np.ndarray, eps: float) -> Any:
    """Cholesky's factor of the identity plus a matrix that rounding may have made indefinite."""
    diagonal = inner.diagonal().copy()
    shift = 1.0 + eps * float(diagonal.max(initial=0.0))
    while True:
        inner[np.diag_indices_from(inner)] = diagonal + shift
        try:
            return cho_factor(inner, lower=True, check_finite=False)
        except LinAlgError:
            if not np.isfinite(shift):
                raise
            shift *= 10.0


def _columns(kernel: Any) -> np.ndarray:
    """L' of Nystroem's approximation ``L L'`` of a kernel from the columns of random points,
    without those that add nothing.
    """
    n = len(kernel)
    count = min(TOLERANCES.columns, n)
    chosen = np.sort(np.random.default_rng(0).choice(n, count, replace=False))
    rows = rows_of(kernel, chosen)
    square = rows[:, chosen].astype(float)
    nothing = count * float(np.finfo(rows.dtype).eps) * float(square.diagonal().max())
    factor, order, rank, _ = lapack.dpstrf(square, tol=nothing, lower=1)
    factor = factor[:rank, :rank].astype(rows.dtype)
    return solve_triangular(factor, rows[order[:rank] - 1], lower=True, check_finite=False)


def _squares(x: np.ndarray) -> float:
    return float(x @ x)
