"""Penalties under which most weights are zero."""

import numpy as np

from .base import Curvature, Regularizer, check_strength


class L1(Regularizer):
    """``r(d) = strength * sum(d)``.

    Its conjugate is zero while every quadratic form is at most ``2 strength`` and infinite beyond,
    so a certificate scales the dual point into that set (`dual_scale`).
    """

    def __init__(self, strength: float = 1.0) -> None:
        check_strength("L1", strength)
        self.strength = float(strength)

    def value(self, d: np.ndarray) -> float:
        return self.strength * float(d.sum()) if d.min() >= 0.0 else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return np.full(d.size, self.strength)

    def hessian(self, d: np.ndarray) -> Curvature:
        return Curvature(np.zeros(d.size), 0.0, np.zeros(d.size))

    @property
    def smooth(self) -> bool:
        return False

    def conjugate(self, s: np.ndarray) -> float:
        return 0.0 if s.max(initial=0.0) <= 2.0 * self.strength * (1.0 + 1e-9) else np.inf

    def dual_scale(self, s: np.ndarray) -> float:
        largest = s.max(initial=0.0)
        return min(1.0, float(np.sqrt(2.0 * self.strength / largest))) if largest > 0.0 else 1.0

    def __repr__(self) -> str:
        return f"L1(strength={self.strength:g})"


class ElasticNet(Regularizer):
    """``r(d) = l1 sum(d) + l2 / 2 |d|_2^2``: sparse like `L1`, but the dual is smooth and kernels
    that agree share the weight.

    Parameters
    ----------
    l1 : float
        At least 0; kernels whose quadratic form is at most ``2 l1`` have weight zero.
    l2 : float
        Above 0.
    """

    def __init__(self, l1: float = 1.0, l2: float = 1.0) -> None:
        if not (np.isfinite(l1) and l1 >= 0.0 and np.isfinite(l2) and l2 > 0.0):
            raise ValueError(
                f"ElasticNet needs l1 >= 0 and l2 > 0, got l1={l1!r} and l2={l2!r}; without l2 use "
                "L1."
            )
        self.l1, self.l2 = float(l1), float(l2)

    @property
    def symmetric(self) -> bool:
        return True

    def value(self, d: np.ndarray) -> float:
        return float(self.l1 * d.sum() + 0.5 * self.l2 * (d @ d)) if d.min() >= 0.0 else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return self.l1 + self.l2 * d

    def hessian(self, d: np.ndarray) -> Curvature:
        return Curvature(np.full(d.size, self.l2), 0.0, np.zeros(d.size))

    def prox(self, d: np.ndarray, step: float) -> np.ndarray:
        return np.maximum((d - step * self.l1) / (1.0 + step * self.l2), 0.0)

    def start(self, m: int) -> np.ndarray:
        """Equal weights of penalty one: neither large nor small, whatever l1 and l2 are."""
        return np.full(m, 2.0 / (m * (self.l1 + np.sqrt(self.l1**2 + 2.0 * self.l2 / m))))

    def conjugate(self, s: np.ndarray) -> float:
        return float(np.sum(np.square(self._excess(s)))) / (2.0 * self.l2)

    def conjugates(self, table: np.ndarray) -> np.ndarray:
        return np.sum(np.square(self._excess(table)), axis=1) / (2.0 * self.l2)

    def weights(self, s: np.ndarray) -> np.ndarray:
        return self._excess(s) / self.l2

    def curvature(self, s: np.ndarray) -> Curvature:
        return Curvature(0.5 / self.l2 * (self._excess(s) > 0.0), 0.0, np.zeros_like(s))

    def _excess(self, s: np.ndarray) -> np.ndarray:
        return np.maximum(0.5 * s - self.l1, 0.0)

    def __repr__(self) -> str:
        return f"ElasticNet(l1={self.l1:g}, l2={self.l2:g})"


# --- a smooth stand-in for the simplex ------------------------------------------------------------


# Smallest weight of a proximal center, so that a kernel can come back: with a larger one, weights
# that should be zero are not.
SMALLEST_WEIGHT = 1e-14


class SmoothedSimplex:
    """The simplex with a proximal term ``temperature KL(d | center)``, which removes the kink of
    ``max(s)``.

    ``phi(s) = temperature log sum_k center_k exp(s_k / 2 temperature)``; its weights lie on the
    simplex.
    """

    def __init__(self, center: np.ndarray, temperature: float) -> None:
        center = np.maximum(center, SMALLEST_WEIGHT)
        self.center, self.temperature = center / center.sum(), temperature

    def _scaled(self, s: np.ndarray) -> tuple[float, np.ndarray]:
        exponents = np.log(self.center) + s / (2.0 * self.temperature)
        top = exponents.max()
        return top, np.exp(exponents - top)

    def conjugate(self, s: np.ndarray) -> float:
        top, scaled = self._scaled(s)
        return float(self.temperature * (top + np.log(scaled.sum())))

    def weights(self, s: np.ndarray) -> np.ndarray:
        _, scaled = self._scaled(s)
        return scaled / scaled.sum()

    def curvature(self, s: np.ndarray) -> Curvature:
        d = self.weights(s)
        half = 0.5 / self.temperature
        return Curvature(half * d, -half, d)

    def divergence(self, d: np.ndarray) -> float:
        """The proximal term at d."""
        used = d > 0
        return float(self.temperature * np.sum(d[used] * np.log(d[used] / self.center[used])))

    def recentered(self, d: np.ndarray) -> "SmoothedSimplex":
        """The term around d, at half the temperature."""
        return SmoothedSimplex(d, 0.5 * self.temperature)
