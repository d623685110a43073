"""Low-rank approximations of kernels: ``K_k ~ V_k V_k'`` with a few hundred columns each.

An approximation is given to an estimator (``approximation=Nystroem(rank=200)``). On the training
data it becomes a `FeatureMap`, which computes the factors of any points from landmarks (or
frequencies) alone: after training, the data are not needed.
"""

from .base import Approximation
from .cholesky import IncompleteCholesky
from .diagnostics import coefficient_bound, quality
from .fourier import RandomFourier
from .maps import FeatureMap, FourierMap, LandmarkMap
from .nystroem import Nystroem

__all__ = [
    "Approximation",
    "FeatureMap",
    "FourierMap",
    "IncompleteCholesky",
    "LandmarkMap",
    "Nystroem",
    "RandomFourier",
    "coefficient_bound",
    "quality",
]
