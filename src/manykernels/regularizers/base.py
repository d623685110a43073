"""What all regularizers share."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

# relative size below which a quadratic form counts as this much, where zero would mean infinite
# curvature
TINY = 1e-12


class Curvature(NamedTuple):
    """The matrix ``diag(diagonal) + factor * outer(vector, vector)``."""

    diagonal: np.ndarray
    factor: float
    vector: np.ndarray


class Regularizer(ABC):
    """Base of all regularizers; weights d and quadratic forms s have shape (m,)."""

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
        """A factor t <= 1 for which ``t beta`` has a finite conjugate; s are the quadratic forms of
        beta.
        """
        return 1.0


def conjugate_exponent(p):
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


def p_norm(x, p):
    """p-norm of a nonnegative vector, free of overflow."""
    largest = x.max(initial=0.0)
    if np.isinf(p) or largest == 0.0:
        return float(largest)
    return float(largest * np.sum((x / largest) ** p) ** (1.0 / p))


def check_p(name, p):
    if isinstance(p, str) or not p >= 1.0:
        raise ValueError(f"{name} needs p >= 1 (below 1 the problem is not convex), got p={p!r}.")


def check_strength(name, strength):
    if not (np.isfinite(strength) and strength > 0.0):
        raise ValueError(f"{name} needs strength > 0, got {strength!r}.")
