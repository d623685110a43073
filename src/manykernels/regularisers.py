"""Regularisers of the kernel weights.

A regulariser r(d) offers `value`, `gradient` and `project` to gradient methods, and ``prox(d, step)``, the minimiser of
``|x - d|^2 / 2 + step r(x)``, where the gradient alone will not do because it changes without bound near zero. Where they
exist in closed form, it offers what the dual needs of ``phi(s) = max_{d >= 0} d's/2 - r(d)``: its value (`conjugate`), its
argmax (`weights`) and the derivative of that argmax (`curvature`); a `law` describes the same to compiled loops. What a
regulariser lacks it does not have: ask with `hasattr`.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import brentq
from scipy.special import wrightomega

from ._loops.conjugates import BALL, DIVERGENCE, LARGEST_EXPONENT, SQUARED, Law

FLOOR = 1e-14  # smallest weight of a proximal centre, so that a kernel can come back
TINY = 1e-12  # relative size below which a quadratic form counts as this much, where zero would mean infinite curvature


class Curvature(NamedTuple):
    """The matrix ``diag(diagonal) + factor * outer(vector, vector)``."""

    diagonal: np.ndarray
    factor: float
    vector: np.ndarray


class Regulariser(ABC):
    """Base of all regularisers; weights d and quadratic forms s have shape (m,)."""

    smooth = True  # whether the conjugate, if there is one, is differentiable

    @abstractmethod
    def value(self, d):
        """r(d)."""

    @abstractmethod
    def gradient(self, d):
        """Gradient of r at d, (m,)."""

    def project(self, d):
        """The nearest feasible weights."""
        return np.maximum(d, 0.0)

    def start(self, m):
        """Feasible weights to start from."""
        return np.full(m, 1.0 / m)

    def adopt(self, d):
        """Feasible weights to start from, made of those of another problem."""
        return self.project(d)

    def dual_scale(self, s):
        """A factor t <= 1 for which ``t beta`` has a finite conjugate; s are the quadratic forms of beta."""
        return 1.0


def _conjugate_exponent(p):
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


def _norm(x, p):
    """p-norm of a nonnegative vector, free of overflow."""
    largest = x.max(initial=0.0)
    if np.isinf(p) or largest == 0.0:
        return float(largest)
    return float(largest * np.sum((x / largest) ** p) ** (1.0 / p))


def _check_p(name, p):
    if isinstance(p, str) or not p >= 1.0:
        raise ValueError(f"{name} needs p >= 1 (below 1 the problem is not convex), got p={p!r}.")


def _check_strength(name, strength):
    if not (np.isfinite(strength) and strength > 0.0):
        raise ValueError(f"{name} needs strength > 0, got {strength!r}.")


class _PNorm(Regulariser):
    """What the ball and the squared norm share: a p-norm, its dual norm, and the shape of the weights."""

    @property
    def smooth(self):
        return self.p > 1.0

    def start(self, m):
        return np.full(m, m ** (-1.0 / self.p))

    def repeated(self, count):
        """The factor on a kernel by which it stands for so many equal ones: ``|(s, ..., s)|_q = count^(1/q) |s|_q``."""
        return count ** (1.0 / _conjugate_exponent(self.p))

    def _shape(self, s):
        """``(s_k / |s|_q)^(q-1)``: weights of p-norm one that belong to s; uniform when all forms are zero."""
        q = _conjugate_exponent(self.p)
        norm = _norm(s, q)
        if norm == 0.0 or q == 1.0:
            return self.start(s.size)
        if np.isinf(q):
            top = s >= norm * (1.0 - TINY)
            return top / top.sum()
        return (s / norm) ** (q - 1.0)

    def _lasso_shape(self, norms):
        """``norms^(1 / (1 + p))``, of largest entry one; uniform when all parts are zero."""
        largest = norms.max(initial=0.0)
        return (norms / largest) ** (1.0 / (1.0 + self.p)) if largest > 0.0 else np.ones_like(norms)

    def _relative(self, s, norm):
        return np.maximum(s / norm, TINY) if norm > 0 else np.full(s.size, TINY)


class SmoothedSimplex:
    """The simplex with a proximal term ``temperature KL(d | centre)``, which removes the kink of ``max(s)``.

    ``phi(s) = temperature log sum_k centre_k exp(s_k / 2 temperature)``; its weights lie on the simplex.
    """

    def __init__(self, centre, temperature):
        centre = np.maximum(centre, FLOOR)
        self.centre, self.temperature = centre / centre.sum(), temperature

    def _scaled(self, s):
        exponents = np.log(self.centre) + s / (2.0 * self.temperature)
        top = exponents.max()
        return top, np.exp(exponents - top)

    def conjugate(self, s):
        top, scaled = self._scaled(s)
        return float(self.temperature * (top + np.log(scaled.sum())))

    def weights(self, s):
        _, scaled = self._scaled(s)
        return scaled / scaled.sum()

    def curvature(self, s):
        d = self.weights(s)
        half = 0.5 / self.temperature
        return Curvature(half * d, -half, d)

    def divergence(self, d):
        """The proximal term at d."""
        used = d > 0
        return float(self.temperature * np.sum(d[used] * np.log(d[used] / self.centre[used])))

    def recentred(self, d):
        """Around d, and half as warm."""
        return SmoothedSimplex(d, 0.5 * self.temperature)


class PNormBall(_PNorm):
    """``r(d) = 0`` if ``|d|_p <= 1``, else infinite, for 1 <= p <= inf.

    p = 1 is classic sparse MKL, p = inf the plain sum of the kernels.
    """

    def __init__(self, p):
        _check_p("PNormBall", p)
        self.p = float(p)

    def value(self, d):
        return 0.0 if d.min() >= 0.0 and _norm(d, self.p) <= 1.0 + 1e-9 else np.inf

    def gradient(self, d):
        return np.zeros_like(d)

    def project(self, d):
        d = np.maximum(d, 0.0)
        if _norm(d, self.p) <= 1.0:
            return d
        if np.isinf(self.p):
            return np.minimum(d, 1.0)
        if self.p == 1.0:
            return _project_simplex(d)
        x = d / _norm(d, 2.0) if self.p == 2.0 else _project_ball(d, self.p)
        return x / max(1.0, _norm(x, self.p))

    def adopt(self, d):
        norm = _norm(d, self.p)  # scaled, not projected: a projection from a larger ball would drop the smaller weights
        return d / norm if norm > 0.0 else self.start(d.size)

    def conjugate(self, s):
        return 0.5 * _norm(s, _conjugate_exponent(self.p))

    def weights(self, s):
        return self._shape(s)

    def reweight(self, norms):
        """Minimiser of ``sum_k norms[k] / 2 d_k`` over the ball: the group-lasso update for squared norms of the parts."""
        x = self._lasso_shape(norms)
        return x / _norm(x, self.p)

    def curvature(self, s):
        q = _conjugate_exponent(self.p)
        if np.isinf(q):
            raise ValueError("The dual of PNormBall(1) has a kink: it has no curvature; use p > 1.")
        norm = _norm(s, q)
        u = self._relative(s, norm)
        factor = (q - 1.0) / norm if norm > 0.0 else 0.0  # infinite, but a direction in which nothing has moved yet
        return Curvature(factor * u ** (q - 2.0), -factor, u ** (q - 1.0))

    @property
    def law(self):
        """The conjugate as compiled loops know it."""
        return Law(BALL, _conjugate_exponent(self.p), 1.0, np.empty(0))

    def smoothed(self, centre, temperature):
        """A smooth stand-in near a centre for p = 1, whose conjugate has a kink."""
        return SmoothedSimplex(centre, temperature)

    def __repr__(self):
        return f"PNormBall(p={self.p:g})"


class SquaredPNorm(_PNorm):
    """``r(d) = strength / 2 |d|_p^2`` for 1 <= p <= inf.

    For p = inf the optimal weights are all equal (kernels are positive semidefinite, so more weight never hurts), and the
    feasible set is that ray.
    """

    def __init__(self, p, strength=1.0):
        _check_p("SquaredPNorm", p)
        _check_strength("SquaredPNorm", strength)
        self.p, self.strength = float(p), float(strength)

    def value(self, d):
        return 0.5 * self.strength * _norm(d, self.p) ** 2 if d.min() >= 0.0 else np.inf

    def gradient(self, d):
        if np.isinf(self.p):
            return np.full(d.size, self.strength * d.mean() / d.size)
        norm = _norm(d, self.p)
        if norm == 0.0:
            return np.zeros_like(d)
        return self.strength * norm * (d / norm) ** (self.p - 1.0)

    def project(self, d):
        if np.isinf(self.p):
            return np.full(d.size, max(d.mean(), 0.0))
        return np.maximum(d, 0.0)

    def prox(self, d, step):
        if np.isinf(self.p):
            return self.project(d) / (1.0 + step * self.strength / d.size)
        d = np.maximum(d, 0.0)
        if self.p == 1.0:
            return _threshold_by_sum(d, step * self.strength)
        top = _norm(d, self.p)
        if top == 0.0:
            return d

        def stationary(norm):
            return _stationary(d, self.p, step * self.strength * norm ** (2.0 - self.p))

        # with u = x / |x|_p, d = |x|_p (u + step strength u^(p-1)): the norm cannot be below this
        bottom = 0.5 * top / (1.0 + step * self.strength * d.size ** max(0.0, 2.0 / self.p - 1.0))
        norm = brentq(lambda norm: _norm(stationary(norm), self.p) - norm, bottom, top, xtol=1e-15 * top, rtol=1e-13)
        return stationary(norm)

    def conjugate(self, s):
        return _norm(s, _conjugate_exponent(self.p)) ** 2 / (8.0 * self.strength)

    def weights(self, s):
        shape = self._shape(s)
        return _norm(s, _conjugate_exponent(self.p)) / (2.0 * self.strength) * shape / _norm(shape, self.p)

    def reweight(self, norms):
        """Minimiser of ``sum_k norms[k] / 2 d_k + r(d)``: the group-lasso update for squared norms of the parts."""
        x = self._lasso_shape(norms)
        total = np.sum(np.divide(norms, x, out=np.zeros_like(norms), where=x > 0))
        return np.cbrt(total / (2.0 * self.strength * _norm(x, self.p) ** 2)) * x

    def curvature(self, s):
        q = _conjugate_exponent(self.p)
        if np.isinf(q):
            raise ValueError("The dual of SquaredPNorm(1) has a kink: it has no curvature; use p > 1.")
        u = self._relative(s, _norm(s, q))
        half = 0.5 / self.strength
        return Curvature(half * (q - 1.0) * u ** (q - 2.0), -half * (q - 2.0), u ** (q - 1.0))

    @property
    def law(self):
        """The conjugate as compiled loops know it."""
        return Law(SQUARED, _conjugate_exponent(self.p), self.strength, np.empty(0))

    def __repr__(self):
        return f"SquaredPNorm(p={self.p:g}, strength={self.strength:g})"


class L1(Regulariser):
    """``r(d) = strength * sum(d)``.

    Its conjugate is zero while every quadratic form is at most ``2 strength`` and infinite beyond, so a certificate scales
    the dual point into that set (`dual_scale`).
    """

    def __init__(self, strength=1.0):
        _check_strength("L1", strength)
        self.strength = float(strength)

    def value(self, d):
        return self.strength * float(d.sum()) if d.min() >= 0.0 else np.inf

    def gradient(self, d):
        return np.full(d.size, self.strength)

    smooth = False

    def conjugate(self, s):
        return 0.0 if s.max(initial=0.0) <= 2.0 * self.strength * (1.0 + 1e-9) else np.inf

    def dual_scale(self, s):
        largest = s.max(initial=0.0)
        return min(1.0, float(np.sqrt(2.0 * self.strength / largest))) if largest > 0.0 else 1.0

    def __repr__(self):
        return f"L1(strength={self.strength:g})"


class GeneralisedKL(Regulariser):
    """``r(d) = strength sum_k d_k log(d_k / prior_k) - d_k + prior_k``: weights near a prior, none of them zero.

    Parameters
    ----------
    prior : float or (m,) array
        Weights above zero to stay close to.
    strength : float
    """

    def __init__(self, prior=1.0, strength=1.0):
        _check_strength("GeneralisedKL", strength)
        prior = np.asarray(prior, dtype=float)
        if prior.ndim > 1 or not (np.isfinite(prior).all() and (prior > 0.0).all()):
            raise ValueError(f"GeneralisedKL needs a prior of finite weights above 0, one or one per kernel, got {prior!r}.")
        self.prior, self.strength = prior, float(strength)

    def value(self, d):
        if d.min() < 0.0:
            return np.inf
        logs = np.log(d / self.prior, out=np.zeros_like(d), where=d > 0.0)
        return self.strength * float(np.sum(d * logs - d + self.prior))

    def gradient(self, d):
        return self.strength * np.log(np.maximum(d, np.finfo(float).tiny) / self.prior)

    def prox(self, d, step):
        # x + a log(x / prior) = d has the solution x = a omega(d / a + log(prior / a)), omega + log(omega) = argument
        a = step * self.strength
        return a * wrightomega(d / a + np.log(self.prior / a))

    def start(self, m):
        if self.prior.ndim and self.prior.size != m:
            raise ValueError(f"GeneralisedKL has a prior of {self.prior.size} weights, but there are {m} kernels.")
        return np.full(m, self.prior)

    def conjugate(self, s):
        if s.max(initial=0.0) > 2.0 * self.strength * LARGEST_EXPONENT:
            return np.inf
        return self.strength * float(np.sum(self.prior * np.expm1(self._exponents(s))))

    def weights(self, s):
        return self.prior * np.exp(self._exponents(s))

    def curvature(self, s):
        return Curvature(0.5 / self.strength * self.weights(s), 0.0, np.zeros_like(s))

    def reweight(self, norms):
        """Minimiser of ``sum_k norms[k] / 2 d_k + r(d)``: the group-lasso update for squared norms of the parts."""
        # with d = prior e^v: 2v e^2v = norms / (strength prior^2), which Lambert's function solves
        logs = np.log(np.maximum(norms, np.finfo(float).tiny) / (self.strength * np.square(self.prior)))
        return self.prior * np.exp(0.5 * wrightomega(logs))

    @property
    def law(self):
        """The conjugate as compiled loops know it."""
        return Law(DIVERGENCE, 0.0, self.strength, np.atleast_1d(self.prior))

    def _exponents(self, s):
        """Beyond the largest exponent weights are as good as infinite; they stay finite for the sake of line searches."""
        return np.minimum(s / (2.0 * self.strength), LARGEST_EXPONENT)

    def __repr__(self):
        prior = f"{self.prior:g}" if self.prior.ndim == 0 else f"{self.prior.size} weights"
        return f"GeneralisedKL(prior={prior}, strength={self.strength:g})"


class ElasticNet(Regulariser):
    """``r(d) = l1 sum(d) + l2 / 2 |d|_2^2``: sparse like `L1`, but the dual is smooth and kernels that agree share the weight.

    Parameters
    ----------
    l1 : float
        At least 0; kernels whose quadratic form is at most ``2 l1`` have weight zero.
    l2 : float
        Above 0.
    """

    def __init__(self, l1=1.0, l2=1.0):
        if not (np.isfinite(l1) and l1 >= 0.0 and np.isfinite(l2) and l2 > 0.0):
            raise ValueError(f"ElasticNet needs l1 >= 0 and l2 > 0, got l1={l1!r} and l2={l2!r}; without l2 use L1.")
        self.l1, self.l2 = float(l1), float(l2)

    def value(self, d):
        return float(self.l1 * d.sum() + 0.5 * self.l2 * (d @ d)) if d.min() >= 0.0 else np.inf

    def gradient(self, d):
        return self.l1 + self.l2 * d

    def prox(self, d, step):
        return np.maximum((d - step * self.l1) / (1.0 + step * self.l2), 0.0)

    def start(self, m):
        """Equal weights of penalty one, which are neither large nor small whatever l1 and l2 are."""
        return np.full(m, 2.0 / (m * (self.l1 + np.sqrt(self.l1**2 + 2.0 * self.l2 / m))))

    def conjugate(self, s):
        return float(np.sum(np.square(self._excess(s)))) / (2.0 * self.l2)

    def weights(self, s):
        return self._excess(s) / self.l2

    def curvature(self, s):
        return Curvature(0.5 / self.l2 * (self._excess(s) > 0.0), 0.0, np.zeros_like(s))

    def _excess(self, s):
        return np.maximum(0.5 * s - self.l1, 0.0)

    def __repr__(self):
        return f"ElasticNet(l1={self.l1:g}, l2={self.l2:g})"


class BlockNorm(Regulariser):
    """``r(d) = strength / 2 |d|^2`` with the mixed norm ``|d| = (sum_g |d_g|_r^p)^(1/p)`` over groups g of kernels.

    It is the squared p-norm of the vector of group norms. With p = 1 and r = 2 few groups have any weight, and within these all
    kernels do; with p = 2 and r = 1 all groups do, and few kernels in each.

    Parameters
    ----------
    groups : (m,) sequence of labels
        The group of each kernel, as a number or a name.
    r, p : float
        Exponents within and across groups, at least 1 and finite.
    strength : float
    """

    def __init__(self, groups, r=2.0, p=1.0, strength=1.0):
        labels = np.asarray(groups)
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(f"BlockNorm needs groups, a sequence with the label of each kernel, got {groups!r}.")
        for name, exponent in (("r", r), ("p", p)):
            if isinstance(exponent, str) or not 1.0 <= exponent < np.inf:
                raise ValueError(f"BlockNorm needs 1 <= r < inf and 1 <= p < inf, got {name}={exponent!r}.")
        _check_strength("BlockNorm", strength)
        self.groups = np.unique(labels, return_inverse=True)[1]
        self.r, self.p, self.strength = float(r), float(p), float(strength)
        self._across = SquaredPNorm(p, strength)

    @property
    def smooth(self):
        return self.p > 1.0 and self.r > 1.0

    def value(self, d):
        return self._across.value(self._norms(d, self.r)) if d.min() >= 0.0 else np.inf

    def gradient(self, d):
        return self._across.gradient(self._norms(d, self.r))[self.groups] * self._aligned(d, self.r)

    @property
    def prox(self):
        """For r = 2, where it shrinks every group as a whole; the gradient alone would do badly where a group reaches zero."""
        if self.r != 2.0:
            raise AttributeError("BlockNorm has a proximal map for r = 2 only.")
        return self._shrink

    def _shrink(self, d, step):
        d = np.maximum(d, 0.0)
        norms = self._norms(d, 2.0)
        return d * (self._across.prox(norms, step) / np.where(norms > 0.0, norms, 1.0))[self.groups]

    def start(self, m):
        if self.groups.size != m:
            raise ValueError(f"BlockNorm was given the groups of {self.groups.size} kernels, but there are {m} kernels.")
        ones = np.ones(m)
        return ones / _norm(self._norms(ones, self.r), self.p)

    def conjugate(self, s):
        return self._across.conjugate(self._norms(s, _conjugate_exponent(self.r)))

    def weights(self, s):
        q = _conjugate_exponent(self.r)
        return self._across.weights(self._norms(s, q))[self.groups] * self._aligned(s, q)

    def reweight(self, norms):
        """Minimiser of ``sum_k norms[k] / 2 d_k + r(d)``: the group-lasso update for squared norms of the parts."""
        # within a group of norm one the minimiser is parallel to x, and the minimum is half a quasinorm of the parts
        x = self._shares(norms) ** (1.0 / (1.0 + self.r))
        sizes = self._norms(x, self.r)
        groups = self._across.reweight(self._norms(norms, self.r / (1.0 + self.r)))
        return (groups / np.maximum(sizes, 1.0))[self.groups] * x  # sizes are at least one, or zero like x

    def _norms(self, x, q):
        """q-norm of every group of a nonnegative vector, free of overflow."""
        largest = self._largest(x)
        return largest if np.isinf(q) else largest * np.bincount(self.groups, self._shares(x) ** q) ** (1.0 / q)

    def _largest(self, x):
        largest = np.zeros(self.groups.max() + 1)
        np.maximum.at(largest, self.groups, x)
        return largest

    def _shares(self, x):
        """Entries relative to the largest of their group; zero where that is zero."""
        largest = self._largest(x)
        return x / np.where(largest > 0.0, largest, 1.0)[self.groups]

    def _aligned(self, x, q):
        """``(x_k / |x_g|_q)^(q-1)``, of dual norm one in every group; equal entries where the group is zero.

        Equal entries are a subgradient of the norm at zero, the limit of its gradients along equal weights.
        """
        x = self._shares(np.where(self._largest(x)[self.groups] > 0.0, x, 1.0))
        if np.isinf(q):
            top = x >= 1.0 - TINY
            return top / np.bincount(self.groups, top)[self.groups]
        return (x / self._norms(x, q)[self.groups]) ** (q - 1.0)

    def __repr__(self):
        shape = f"{self.groups.size} kernels in {self.groups.max() + 1} groups"
        return f"BlockNorm({shape}, r={self.r:g}, p={self.p:g}, strength={self.strength:g})"


class LogDet(Regulariser):
    """``r(d) = strength / 2 log det(I + K_d)``: a penalty on the volume of the learned kernel.

    It is concave in d, so the problem is not convex: what a solver finds is a stationary point that depends on where it starts,
    and there is no conjugate to certify it. It has to know the kernels: see `bound`. A value costs a combined kernel and its
    Cholesky factorisation, a gradient as much as the quadratic forms of n outputs.
    """

    def __init__(self, strength=1.0):
        _check_strength("LogDet", strength)
        self.strength = float(strength)
        self.bank = self._latest = None

    def bound(self, bank):
        """A copy that knows the kernels of this bank."""
        copy = LogDet(self.strength)
        copy.bank = bank
        return copy

    def value(self, d):
        if d.min() < 0.0:
            return np.inf
        try:
            return self.strength * float(np.log(np.diagonal(self._factor(d))).sum())
        except np.linalg.LinAlgError:  # weights so large that rounding has made I + K_d indefinite: no step may go there
            return np.inf

    def gradient(self, d):
        # (I + K_d)^-1 = L L' with L' the inverse of the factor, and tr(L L' K_k) = sum_i l_i' K_k l_i over the rows l_i of L'
        inverse = solve_triangular(self._factor(d), np.eye(self.bank.n), lower=True)
        return 0.5 * self.strength * self.bank.quad(inverse)

    def _factor(self, d):
        """Lower Cholesky factor of ``I + K_d``; that of the last d is kept, for the gradient follows the value."""
        if self.bank is None:
            raise ValueError("LogDet needs the kernels: call bound(bank) and use the regulariser that it returns.")
        if self._latest is None or not np.array_equal(self._latest[0], d):
            K = np.array(self.bank.combine(d), dtype=float)
            K[np.diag_indices_from(K)] += 1.0
            self._latest = d.copy(), cholesky(K, lower=True)
        return self._latest[1]

    def __repr__(self):
        return f"LogDet(strength={self.strength:g})"


def _project_simplex(d):
    """Nearest point of ``{x >= 0, sum(x) = 1}`` (Held, Wolfe and Crowder 1974)."""
    ordered = np.sort(d)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, d.size + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    return np.maximum(d - threshold, 0.0)


def _threshold_by_sum(d, factor):
    """Solve ``x = max(d - factor sum(x), 0)`` for d >= 0."""
    ordered = np.sort(d)[::-1]
    sums = np.cumsum(ordered) / (1.0 + factor * np.arange(1, d.size + 1))
    kept = np.flatnonzero(ordered > factor * sums)
    return np.maximum(d - factor * sums[kept[-1]], 0.0) if kept.size else np.zeros_like(d)


def _project_ball(d, p):
    """Nearest point of ``{x >= 0, |x|_p = 1}`` to d outside it, 1 < p < inf.

    Stationarity says ``x + mu x^(p-1) = d``; mu is found by a root search in one dimension.
    """
    largest = d.max()
    mu_low, mu_high = 0.0, largest
    while _norm(_stationary(d, p, mu_high), p) > 1.0:
        mu_low, mu_high = mu_high, 10.0 * mu_high
    mu = brentq(lambda mu: _norm(_stationary(d, p, mu), p) - 1.0, mu_low, mu_high, xtol=1e-14 * mu_high, rtol=1e-13)
    return _stationary(d, p, mu)


def _stationary(d, p, mu):
    """Solve ``x + mu x^(p-1) = d`` for each entry by Newton's method on a convex function, from above.

    For p < 2 the unknown is ``v = x^(p-1)``, in which the equation ``v^(1/(p-1)) + mu v = d`` is convex.
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
