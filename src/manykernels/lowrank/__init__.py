"""Low-rank approximations of kernels: ``K_k ~ V_k V_k'`` with a few hundred columns each.

An approximation is given to an estimator (``approximation=Nystroem(rank=200)``). On the training
data it becomes a `FeatureMap`, which computes the factors of any points from landmarks (or
frequencies) alone: after training, the data are not needed.
"""

from .approximations import IncompleteCholesky, Nystroem, RandomFourier, coefficient_bound, quality
from .base import Approximation
from .maps import FeatureMap, FourierMap, LandmarkMap

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
