"""A smooth stand-in for the simplex."""

import numpy as np

from .base import Curvature

FLOOR = 1e-14  # smallest weight of a proximal center, so that a kernel can come back


class SmoothedSimplex:
    """The simplex with a proximal term ``temperature KL(d | center)``, which removes the kink of
    ``max(s)``.

    ``phi(s) = temperature log sum_k center_k exp(s_k / 2 temperature)``; its weights lie on the
    simplex.
    """

    def __init__(self, center, temperature):
        center = np.maximum(center, FLOOR)
        self.center, self.temperature = center / center.sum(), temperature

    def _scaled(self, s):
        exponents = np.log(self.center) + s / (2.0 * self.temperature)
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
        return float(self.temperature * np.sum(d[used] * np.log(d[used] / self.center[used])))

    def recentered(self, d):
        """Around d, and half as warm."""
        return SmoothedSimplex(d, 0.5 * self.temperature)
