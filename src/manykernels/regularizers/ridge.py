"""Weights on the simplex with a ridge, as in Sparse MKL."""

import numpy as np

from .base import Curvature, Regularizer, check_strength
from .norms import PNormBall, project_simplex

# Distance of a sum of weights from one that is rounding.
SUM_ERROR = 1e-9


class SimplexRidge(Regularizer):
    """``r(d) = strength |d|_2^2`` if ``sum(d) = 1``, else infinite: kernels that agree share the
    weight, the more evenly the larger the strength (Bertsimas, Iglesias and Johnson, Sparse
    multiple kernel learning, TMLR 2025).

    The smaller the strength, the nearer to `PNormBall(1)`, whose dual has a kink.

    Parameters
    ----------
    strength : float
        Above zero.
    """

    near_simplex = True

    def __init__(self, strength: float = 1.0) -> None:
        check_strength("SimplexRidge", strength)
        self.strength = float(strength)

    @property
    def symmetric(self) -> bool:
        return True

    def only_weights(self, m: int) -> np.ndarray | None:
        return np.ones(1) if m == 1 else None

    def value(self, d: np.ndarray) -> float:
        feasible = d.min() >= 0.0 and abs(d.sum() - 1.0) <= SUM_ERROR
        return self.strength * float(d @ d) if feasible else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return 2.0 * self.strength * d

    def project(self, d: np.ndarray) -> np.ndarray:
        return project_simplex(d)

    def adopt(self, d: np.ndarray) -> np.ndarray:
        # scaled, not projected: a projection from a larger set would drop the smaller weights
        total = d.sum()
        return d / total if total > 0.0 else self.start(d.size)

    def prox(self, d: np.ndarray, step: float) -> np.ndarray:
        return project_simplex(d / (1.0 + 2.0 * step * self.strength))

    def conjugate(self, s: np.ndarray) -> float:
        d = self.weights(s)
        return float(0.5 * (d @ s) - self.strength * (d @ d))

    def conjugates(self, table: np.ndarray) -> np.ndarray:
        # with u = s / 2 in descending order, the r largest share it: u_i - t = 2 strength d_i
        u = -np.sort(-0.5 * table, axis=1)
        numbers = np.arange(1, u.shape[1] + 1)
        thresholds = (np.cumsum(u, axis=1) - 2.0 * self.strength) / numbers
        used = u > thresholds
        last = (used * numbers).max(axis=1) - 1
        t = np.take_along_axis(thresholds, last[:, None], axis=1)
        excess = np.where(used, u - t, 0.0)
        return t[:, 0] + np.sum(np.square(excess), axis=1) / (4.0 * self.strength)

    def relaxed(self, k: int) -> tuple[Regularizer, float]:
        # where k forms are equal, the ridge is a constant
        return PNormBall(1.0), 1.0

    def weights(self, s: np.ndarray) -> np.ndarray:
        return project_simplex(s / (4.0 * self.strength))

    def curvature(self, s: np.ndarray) -> Curvature:
        used = (self.weights(s) > 0.0).astype(float)
        quarter = 0.25 / self.strength
        return Curvature(quarter * used, -quarter / used.sum(), used)

    def __repr__(self) -> str:
        return f"SimplexRidge(strength={self.strength:g})"
