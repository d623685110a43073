"""Regularizers of the kernel weights.

A regularizer r(d) offers `value`, `gradient` and `project` to gradient methods, and ``prox(d,
step)``, the minimizer of ``|x - d|^2 / 2 + step r(x)``, where the gradient alone will not do
because it changes without bound near zero. Where they exist in closed form, it offers what the dual
needs of ``phi(s) = max_{d >= 0} d's/2 - r(d)``: its value (`conjugate`), its argmax (`weights`) and
the derivative of that argmax (`curvature`); a `law` describes the same to compiled loops. What a
regularizer lacks it does not have: ask with `hasattr`.
"""

from .base import Curvature, Regularizer
from .blocks import BlockNorm
from .divergence import GeneralizedKL
from .logdet import LogDet
from .norms import PNormBall, SquaredPNorm
from .smoothed import SmoothedSimplex
from .sparse import L1, ElasticNet

__all__ = [
    "L1",
    "BlockNorm",
    "Curvature",
    "ElasticNet",
    "GeneralizedKL",
    "LogDet",
    "PNormBall",
    "Regularizer",
    "SmoothedSimplex",
    "SquaredPNorm",
]
