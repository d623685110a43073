"""Weights near a prior."""

import numpy as np
from scipy.special import wrightomega

from .._loops.conjugates import DIVERGENCE, LARGEST_EXPONENT, Law
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

    def __init__(self, prior=1.0, strength=1.0):
        check_strength("GeneralizedKL", strength)
        prior = np.asarray(prior, dtype=float)
        if prior.ndim > 1 or not (np.isfinite(prior).all() and (prior > 0.0).all()):
            raise ValueError(
                "GeneralizedKL needs a prior of finite weights above 0, one or one per kernel, "
                f"got {prior!r}."
            )
        self.prior, self.strength = prior, float(strength)

    def value(self, d):
        if d.min() < 0.0:
            return np.inf
        logs = np.log(d / self.prior, out=np.zeros_like(d), where=d > 0.0)
        return self.strength * float(np.sum(d * logs - d + self.prior))

    def gradient(self, d):
        return self.strength * np.log(np.maximum(d, np.finfo(float).tiny) / self.prior)

    def prox(self, d, step):
        # x + a log(x / prior) = d has the solution x = a omega(d / a + log(prior / a)), omega +
        # log(omega) = argument
        a = step * self.strength
        return a * wrightomega(d / a + np.log(self.prior / a))

    def start(self, m):
        if self.prior.ndim and self.prior.size != m:
            raise ValueError(
                f"GeneralizedKL has a prior of {self.prior.size} weights, but there are {m} "
                "kernels."
            )
        return np.full(m, self.prior)

    def conjugate(self, s):
        if s.max(initial=0.0) > 2.0 * self.strength * LARGEST_EXPONENT:
            return np.inf
        return self.strength * float(np.sum(self.prior * np.expm1(self._exponents(s))))

    def weights(self, s):
        return self.prior * np.exp(self._exponents(s))

    def curvature(self, s):
        return Curvature(0.5 / self.strength * self.weights(s), 0.0, np.zeros_like(s))

    def reweight(self, squared_norms):
        # with d = prior e^v: 2v e^2v = squared_norms / (strength prior^2), which Lambert's function
        # solves
        logs = np.log(
            np.maximum(squared_norms, np.finfo(float).tiny)
            / (self.strength * np.square(self.prior))
        )
        return self.prior * np.exp(0.5 * wrightomega(logs))

    @property
    def law(self):
        return Law(DIVERGENCE, 0.0, self.strength, np.atleast_1d(self.prior))

    def _exponents(self, s):
        """Beyond the largest exponent weights are as good as infinite; they stay finite for the
        sake of line searches.
        """
        return np.minimum(s / (2.0 * self.strength), LARGEST_EXPONENT)

    def __repr__(self):
        prior = f"{self.prior:g}" if self.prior.ndim == 0 else f"{self.prior.size} weights"
        return f"GeneralizedKL(prior={prior}, strength={self.strength:g})"
