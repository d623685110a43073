"""Weights near a prior."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve, eigh, solve_triangular
from scipy.special import wrightomega

from .._arrays import here
from .._loops.conjugates import DIVERGENCE, LARGEST_EXPONENT, Law
from .._pulse import pulse
from .._threads import cholesky_factor
from .._words import megabytes
from .base import Curvature, Regularizer, check_strength


class GeneralizedKL(Regularizer):
    """``r(d) = strength sum_k d_k log(d_k / prior_k) - d_k + prior_k``: weights near a prior, none
    of them zero.

    Parameters
    ----------
    prior : float or (m,) array
        Weights above zero to stay close to.
    strength : float
    """

    def __init__(self, prior: ArrayLike = 1.0, strength: float = 1.0) -> None:
        check_strength("GeneralizedKL", strength)
        prior = np.asarray(prior, dtype=float)
        if prior.ndim > 1 or not (np.isfinite(prior).all() and (prior > 0.0).all()):
            raise ValueError(
                "GeneralizedKL needs a prior of finite weights above 0, one or one per kernel, "
                f"got {prior!r}."
            )
        self.prior, self.strength = prior, float(strength)

    def value(self, d: np.ndarray) -> float:
        if d.min() < 0.0:
            return np.inf
        logs = np.log(d / self.prior, out=np.zeros_like(d), where=d > 0.0)
        return self.strength * float(np.sum(d * logs - d + self.prior))

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return self.strength * np.log(np.maximum(d, np.finfo(float).tiny) / self.prior)

    def prox(self, d: np.ndarray, step: float) -> np.ndarray:
        # x + a log(x / prior) = d has the solution x = a omega(d / a + log(prior / a)), omega +
        # log(omega) = argument
        a = step * self.strength
        return a * wrightomega(d / a + np.log(self.prior / a))

    def start(self, m: int) -> np.ndarray:
        if self.prior.ndim and self.prior.size != m:
            raise ValueError(
                f"GeneralizedKL has a prior of {self.prior.size} weights, but there are {m} "
                "kernels."
            )
        return np.full(m, self.prior)

    def conjugate(self, s: np.ndarray) -> float:
        if s.max(initial=0.0) > 2.0 * self.strength * LARGEST_EXPONENT:
            return np.inf
        return self.strength * float(np.sum(self.prior * np.expm1(self._exponents(s))))

    def weights(self, s: np.ndarray) -> np.ndarray:
        return self.prior * np.exp(self._exponents(s))

    def curvature(self, s: np.ndarray) -> Curvature:
        return Curvature(0.5 / self.strength * self.weights(s), 0.0, np.zeros_like(s))

    def reweight(self, squared_norms: np.ndarray) -> np.ndarray:
        # with d = prior e^v: 2v e^2v = squared_norms / (strength prior^2), which Lambert's function
        # solves
        logs = np.log(
            np.maximum(squared_norms, np.finfo(float).tiny)
            / (self.strength * np.square(self.prior))
        )
        return self.prior * np.exp(0.5 * wrightomega(logs))

    @property
    def compiled_conjugate(self) -> Law:
        return Law(DIVERGENCE, 0.0, self.strength, np.atleast_1d(self.prior))

    def _exponents(self, s: np.ndarray) -> np.ndarray:
        """Beyond the largest exponent weights are as good as infinite; they stay finite for the
        sake of line searches.
        """
        return np.minimum(s / (2.0 * self.strength), LARGEST_EXPONENT)

    def __repr__(self) -> str:
        prior = f"{self.prior:g}" if self.prior.ndim == 0 else f"{self.prior.size} weights"
        return f"GeneralizedKL(prior={prior}, strength={self.strength:g})"


# --- a penalty on the volume of the learned kernel ------------------------------------------------


# Entries of rows of all kernels that are in memory at a time: more take fewer passes.
ENTRIES_AT_ONCE = 2**24


class LogDet(Regularizer):
    """``r(d) = strength / 2 log det(I + K_d)``: a penalty on the volume of the learned kernel.

    It is concave in d, so the problem is not convex: what a solver finds is a stationary point that
    depends on where it starts, and there is no conjugate to certify it. It has to know the kernels:
    see `bound`. A value costs a combined kernel and its Cholesky factorization, a gradient the
    inverse and a pass over the kernels; of factors with few columns, matrices of so many rows
    instead.
    """

    needs_bank = True

    def __init__(self, strength: float = 1.0) -> None:
        check_strength("LogDet", strength)
        self.strength = float(strength)
        self.bank: Any = None
        self._latest: tuple[np.ndarray, np.ndarray] | None = None

    def bound(self, bank: Any) -> "LogDet":
        """A copy that knows the kernels of this bank."""
        copy = LogDet(self.strength)
        copy.bank = bank
        return copy

    def check_memory(self, memory_budget: int) -> None:
        n = self._known.n
        if self._narrow is None and 8 * n**2 > memory_budget:
            raise ValueError(
                f"LogDet factorizes the kernel of all {n:,} points in float64 "
                f"({megabytes(8 * n**2)}), which is over the memory budget of "
                f"{megabytes(memory_budget)}: raise cache_size, or use an approximation of sums of "
                "kernels whose columns are fewer than half of the points, such as "
                "approximation=Nystroem(100)."
            )

    def value(self, d: np.ndarray) -> float:
        if d.min() < 0.0:
            return np.inf
        try:
            return self.strength * float(np.log(np.diagonal(self._factor(d))).sum())
        # weights so large that rounding has made I + K_d indefinite: no step may go there
        except np.linalg.LinAlgError:
            return np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        factor, bank = self._factor(d), self._narrow
        if bank is not None:  # tr((I + K_d)^-1 V_k V_k'), where (I + R S R')^-1 R is in the middle
            half = solve_triangular(factor, self._spread, lower=True, check_finite=False)
            every = np.ones(self.bank.m)
            return (
                0.5 * self.strength * bank.squared_norms(bank.coefficients_of_moments(every, half))
            )
        return 0.5 * self.strength * self._traces(d, factor)

    def _traces(self, d: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """``tr((I + K_d)^-1 dK_d / dd_k)`` for every weight, by rows of both."""
        (n, m), traces = (self.bank.n, self.bank.m), np.zeros(self.bank.m)
        width = m if self.bank.is_sum else 1
        for rows in np.array_split(np.arange(n), -(-n * n * width // ENTRIES_AT_ONCE)):
            unit = np.zeros((n, rows.size))
            unit[rows, np.arange(rows.size)] = 1.0
            pulse()
            if not self.bank.is_sum:
                # tr(L L' dK_d / dd_k), with rows of L', the inverse of the factor
                inverse = solve_triangular(factor, unit, lower=True, trans="T", check_finite=False)
                traces[:] += self.bank.weight_gradient(d, inverse.T)
                continue
            # tr((I + K_d)^-1 K_k), some rows of both
            inverse = cho_solve((factor, True), unit, overwrite_b=True, check_finite=False).T

            def add(
                kernels: slice, values: np.ndarray, first: int, inverse: np.ndarray = inverse
            ) -> None:
                for place, k in enumerate(range(kernels.start, kernels.stop), first):
                    traces[k] += np.vdot(values[:, place], inverse)

            self.bank.visit_kernel_rows(rows, add)
        return traces

    @property
    def _known(self) -> Any:
        """The bank."""
        if self.bank is None:
            raise ValueError(
                "LogDet needs the kernels: call bound(bank) and use the regularizer that it "
                "returns."
            )
        return self.bank

    @cached_property
    def _narrow(self) -> Any:
        """The kernels as factors V of few columns, ``K_d = V S V'``; None if they are not."""
        bank = self._known
        if bank.is_sum and not bank.prefers_factor_space:
            bank = bank.exact_factors()
        return bank if bank is not None and bank.is_sum and bank.prefers_factor_space else None

    @cached_property
    def _spread(self) -> np.ndarray:
        """A root R of the Gram matrix ``V'V = R'R`` of the narrow factors."""
        points = self._narrow.points
        gram = points.gram(points.to_device(np.ones(points.n)), exact=True)
        values, vectors = eigh(gram, check_finite=False)
        return np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T

    def _factor(self, d: np.ndarray) -> np.ndarray:
        """Lower Cholesky factor of ``I + K_d``, or by Sylvester's identity that of ``I + R S R'``,
        which has the same determinant; that of the last d is kept, since the gradient follows the
        value.
        """
        if self._latest is None or not np.array_equal(self._latest[0], d):
            if self._narrow is None:
                K = np.array(self.bank.combine(d), dtype=float)
            else:
                root = here(self._narrow.root(d))
                rooted = self._spread * root if root.ndim == 1 else self._spread @ root
                K = rooted @ rooted.T
            K[np.diag_indices_from(K)] += 1.0
            self._latest = d.copy(), cholesky_factor(K)[0]
        return self._latest[1]

    def __repr__(self) -> str:
        return f"LogDet(strength={self.strength:g})"
