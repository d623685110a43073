"""p-norms of the weights, as a constraint or squared as a penalty."""

import numpy as np
from scipy.optimize import brentq

from .._loops.conjugates import BALL, SQUARED, Law
from .base import (
    SMALLEST_FORM,
    Curvature,
    Regularizer,
    check_strength,
    checked_p,
    conjugate_exponent,
    p_norm,
)


class _PNorm(Regularizer):
    """A p-norm, its dual norm and the shape of the weights, for the ball and the squared norm."""

    p: float

    def _row_norms(self, table: np.ndarray) -> np.ndarray:
        """Dual norms of the rows of forms, (r,)."""
        table, q = np.maximum(table, 0.0), conjugate_exponent(self.p)
        largest = table.max(axis=1, initial=0.0)
        if np.isinf(q):
            return largest
        relative = table / np.where(largest > 0.0, largest, 1.0)[:, None]
        return largest * np.sum(relative**q, axis=1) ** (1.0 / q)

    @property
    def smooth(self) -> bool:
        return self.p > 1.0

    def start(self, m: int) -> np.ndarray:
        return np.full(m, m ** (-1.0 / self.p))

    def repeated(self, count: float) -> float:
        """The factor on a kernel by which it stands for so many equal ones: ``|(s, ..., s)|_q =
        count^(1/q) |s|_q``.
        """
        return count ** (1.0 / conjugate_exponent(self.p))

    def _shape(self, s: np.ndarray) -> np.ndarray:
        """``(s_k / |s|_q)^(q-1)``: weights of p-norm one that belong to s; uniform when all forms
        are zero.
        """
        q = conjugate_exponent(self.p)
        norm = p_norm(s, q)
        if norm == 0.0 or q == 1.0:
            return self.start(s.size)
        if np.isinf(q):
            top = s >= norm * (1.0 - SMALLEST_FORM)
            return top / top.sum()
        return (s / norm) ** (q - 1.0)

    def _lasso_shape(self, squared_norms: np.ndarray) -> np.ndarray:
        """``squared_norms^(1 / (1 + p))``, of largest entry one; uniform if all are zero."""
        largest = squared_norms.max(initial=0.0)
        return (
            (squared_norms / largest) ** (1.0 / (1.0 + self.p))
            if largest > 0.0
            else np.ones_like(squared_norms)
        )

    def _relative(self, s: np.ndarray, norm: float) -> np.ndarray:
        return np.maximum(s / norm, SMALLEST_FORM) if norm > 0 else np.full(s.size, SMALLEST_FORM)


class PNormBall(_PNorm):
    """``r(d) = 0`` if ``|d|_p <= 1``, else infinite, for 1 <= p <= inf.

    p = 1 is classic sparse MKL, p = inf the plain sum of the kernels. Below 1.00001 p counts as 1.
    """

    homogeneous = True

    def __init__(self, p: float) -> None:
        self.p = checked_p("PNormBall", p)

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def is_simplex(self) -> bool:
        return self.p == 1.0

    def only_weights(self, m: int) -> np.ndarray | None:
        return np.ones(m) if m == 1 or np.isinf(self.p) else None

    def value(self, d: np.ndarray) -> float:
        return 0.0 if d.min() >= 0.0 and p_norm(d, self.p) <= 1.0 + 1e-9 else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return np.zeros_like(d)

    def project(self, d: np.ndarray) -> np.ndarray:
        d = np.maximum(d, 0.0)
        if p_norm(d, self.p) <= 1.0:
            return d
        if np.isinf(self.p):
            return np.minimum(d, 1.0)
        if self.p == 1.0:
            return project_simplex(d)
        x = d / p_norm(d, 2.0) if self.p == 2.0 else project_ball(d, self.p)
        return x / max(1.0, p_norm(x, self.p))

    def adopt(self, d: np.ndarray) -> np.ndarray:
        # scaled, not projected: a projection from a larger ball would drop the smaller weights
        norm = p_norm(d, self.p)
        return d / norm if norm > 0.0 else self.start(d.size)

    def conjugate(self, s: np.ndarray) -> float:
        return 0.5 * p_norm(s, conjugate_exponent(self.p))

    def conjugates(self, table: np.ndarray) -> np.ndarray:
        return 0.5 * self._row_norms(table)

    def relaxed(self, k: int) -> tuple[Regularizer, float]:
        # |s|_q <= k^(1/q) max(s) for k forms, and equal where the forms are
        return PNormBall(1.0), self.repeated(k)

    def weights(self, s: np.ndarray) -> np.ndarray:
        return self._shape(s)

    def reweight(self, squared_norms: np.ndarray) -> np.ndarray:
        x = self._lasso_shape(squared_norms)
        return x / p_norm(x, self.p)

    def curvature(self, s: np.ndarray) -> Curvature:
        q = conjugate_exponent(self.p)
        if np.isinf(q):
            raise ValueError("The dual of PNormBall(1) has a kink: it has no curvature; use p > 1.")
        norm = p_norm(s, q)
        u = self._relative(s, norm)
        # infinite, but a direction in which nothing has moved yet
        factor = (q - 1.0) / norm if norm > 0.0 else 0.0
        return Curvature(factor * u ** (q - 2.0), -factor, u ** (q - 1.0))

    @property
    def compiled_conjugate(self) -> Law:
        return Law(BALL, conjugate_exponent(self.p), 1.0, np.empty(0))

    def __repr__(self) -> str:
        return f"PNormBall(p={self.p:g})"


class SquaredPNorm(_PNorm):
    """``r(d) = strength / 2 |d|_p^2`` for 1 <= p <= inf. Below 1.00001 p counts as 1.

    For p = inf the optimal weights are all equal (kernels are positive semidefinite, so more weight
    never hurts), and the feasible set is that ray.
    """

    def __init__(self, p: float, strength: float = 1.0) -> None:
        check_strength("SquaredPNorm", strength)
        self.p, self.strength = checked_p("SquaredPNorm", p), float(strength)

    @property
    def symmetric(self) -> bool:
        # for p = 1 no solver reaches small gaps quickly, and the ball gives the same subsets
        return self.p > 1.0

    @property
    def steep(self) -> bool:
        return self.p == 1.0

    def value(self, d: np.ndarray) -> float:
        return 0.5 * self.strength * p_norm(d, self.p) ** 2 if d.min() >= 0.0 else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        if np.isinf(self.p):
            return np.full(d.size, self.strength * d.mean() / d.size)
        norm = p_norm(d, self.p)
        if norm == 0.0:
            return np.zeros_like(d)
        return self.strength * norm * (d / norm) ** (self.p - 1.0)

    @property
    def has_hessian(self) -> bool:
        return bool(np.isfinite(self.p))  # the ray of equal weights has no interior

    def hessian(self, d: np.ndarray) -> Curvature:
        u = d / max(p_norm(d, self.p), np.finfo(float).tiny)
        with np.errstate(divide="ignore"):
            diagonal = (self.p - 1.0) * u ** (self.p - 2.0) if self.p > 1.0 else np.zeros(d.size)
        return Curvature(
            self.strength * diagonal, self.strength * (2.0 - self.p), u ** (self.p - 1.0)
        )

    def project(self, d: np.ndarray) -> np.ndarray:
        if np.isinf(self.p):
            return np.full(d.size, max(d.mean(), 0.0))
        return np.maximum(d, 0.0)

    def prox(self, d: np.ndarray, step: float) -> np.ndarray:
        if np.isinf(self.p):
            return self.project(d) / (1.0 + step * self.strength / d.size)
        d = np.maximum(d, 0.0)
        if self.p == 1.0:
            return threshold_by_sum(d, step * self.strength)
        top = p_norm(d, self.p)
        if top == 0.0:
            return d

        def stationary(norm: float) -> np.ndarray:
            return stationary_point(d, self.p, step * self.strength * norm ** (2.0 - self.p))

        # with u = x / |x|_p, d = |x|_p (u + step strength u^(p-1)): the norm cannot be below this
        bottom = 0.5 * top / (1.0 + step * self.strength * d.size ** max(0.0, 2.0 / self.p - 1.0))
        norm = brentq(
            lambda norm: p_norm(stationary(norm), self.p) - norm,
            bottom,
            top,
            xtol=1e-15 * top,
            rtol=1e-13,
        )
        return stationary(norm)

    def conjugate(self, s: np.ndarray) -> float:
        return p_norm(s, conjugate_exponent(self.p)) ** 2 / (8.0 * self.strength)

    def conjugates(self, table: np.ndarray) -> np.ndarray:
        return self._row_norms(table) ** 2 / (8.0 * self.strength)

    def weights(self, s: np.ndarray) -> np.ndarray:
        shape = self._shape(s)
        return (
            p_norm(s, conjugate_exponent(self.p))
            / (2.0 * self.strength)
            * shape
            / p_norm(shape, self.p)
        )

    def reweight(self, squared_norms: np.ndarray) -> np.ndarray:
        x = self._lasso_shape(squared_norms)
        total = np.sum(np.divide(squared_norms, x, out=np.zeros_like(squared_norms), where=x > 0))
        return np.cbrt(total / (2.0 * self.strength * p_norm(x, self.p) ** 2)) * x

    def curvature(self, s: np.ndarray) -> Curvature:
        q = conjugate_exponent(self.p)
        if np.isinf(q):
            raise ValueError(
                "The dual of SquaredPNorm(1) has a kink: it has no curvature; use p > 1."
            )
        u = self._relative(s, p_norm(s, q))
        half = 0.5 / self.strength
        return Curvature(half * (q - 1.0) * u ** (q - 2.0), -half * (q - 2.0), u ** (q - 1.0))

    @property
    def compiled_conjugate(self) -> Law:
        return Law(SQUARED, conjugate_exponent(self.p), self.strength, np.empty(0))

    def __repr__(self) -> str:
        return f"SquaredPNorm(p={self.p:g}, strength={self.strength:g})"


# --- nearest points and proximal maps of norms ----------------------------------------------------


def project_simplex(d: np.ndarray) -> np.ndarray:
    """Nearest point of ``{x >= 0, sum(x) = 1}`` (Held, Wolfe and Crowder 1974)."""
    d = d - d.max()  # changes nothing but rounding: of entries of 1e16 a one is not seen
    ordered = np.sort(d)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, d.size + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.maximum(d - threshold, 0.0)


def threshold_by_sum(d: np.ndarray, factor: float) -> np.ndarray:
    """Solve ``x = max(d - factor sum(x), 0)`` for d >= 0."""
    ordered = np.sort(d)[::-1]
    sums = np.cumsum(ordered) / (1.0 + factor * np.arange(1, d.size + 1))
    kept = np.flatnonzero(ordered > factor * sums)
    return np.maximum(d - factor * sums[kept[-1]], 0.0) if kept.size else np.zeros_like(d)


def project_ball(d: np.ndarray, p: float) -> np.ndarray:
    """Nearest point of ``{x >= 0, |x|_p = 1}`` to d outside it, 1 < p < inf.

    Stationarity says ``x + mu x^(p-1) = d``; mu is found by a root search in one dimension.
    """
    largest = d.max()
    mu_low, mu_high = 0.0, largest
    while p_norm(stationary_point(d, p, mu_high), p) > 1.0:
        mu_low, mu_high = mu_high, 10.0 * mu_high
    mu = brentq(
        lambda mu: p_norm(stationary_point(d, p, mu), p) - 1.0,
        mu_low,
        mu_high,
        xtol=1e-14 * mu_high,
        rtol=1e-13,
    )
    return stationary_point(d, p, mu)


def stationary_point(d: np.ndarray, p: float, mu: float) -> np.ndarray:
    """Solve ``x + mu x^(p-1) = d`` for each entry by Newton's method on a convex function, from
    above.

    For p < 2 the unknown is ``v = x^(p-1)``, in which the equation ``v^(1/(p-1)) + mu v = d`` is
    convex.
    """
    if mu == 0.0:
        return d
    power, linear, highest = (1.0 / (p - 1.0), mu, 1.0) if p < 2.0 else (p - 1.0, 1.0, mu)
    # highest v^power + linear v = d: both terms are at most d at the root
    v = np.minimum(d / linear, (d / highest) ** (1.0 / power))
    for _ in range(60):
        previous = v
        top = highest * v ** (power - 1.0)
        v = np.maximum(v - ((top + linear) * v - d) / (power * top + linear), 0.0)
        if np.abs(v - previous).max() <= 1e-15 * v.max():
            break
    return v**power if p < 2.0 else v
