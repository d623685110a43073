"""Regularizers of the kernel weights.

A regularizer r(d) offers `value`, `gradient` and `project` to gradient methods. Where they exist in
closed form, it offers what the dual needs of ``phi(s) = max_{d >= 0} d's/2 - r(d)``: its value
(`conjugate`), its argmax (`weights`) and the derivative of that argmax (`curvature`), closed-form
weights (`reweight`), a proximal map. What it has it says itself (``has_conjugate`` and so on).
"""

from .base import Curvature, Regularizer
from .blocks import BlockNorm
from .divergence import GeneralizedKL, LogDet
from .limited import AtMost
from .norms import PNormBall, SquaredPNorm
from .ridge import SimplexRidge
from .sparse import L1, ElasticNet, SmoothedSimplex

__all__ = [
    "L1",
    "AtMost",
    "BlockNorm",
    "Curvature",
    "ElasticNet",
    "GeneralizedKL",
    "LogDet",
    "PNormBall",
    "Regularizer",
    "SimplexRidge",
    "SmoothedSimplex",
    "SquaredPNorm",
]
