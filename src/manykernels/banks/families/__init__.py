"""Families: kernels that are functions of one pairwise number, computed together.

What costs time is visiting pairs of points, not kernels, so a family computes the squared distance
or dot product of a pair once and then all its members. A family sees a tile of pairs at a time,
given by the indices of its rows and columns; values are already normalized (`scales`).
"""

from .base import Family, OneKernel, Tile
from .gaussians import DistanceGaussians, DistanceLaplacians, FeatureGaussians
from .polynomials import DotPolynomials, FeaturePolynomials

__all__ = [
    "DistanceGaussians",
    "DistanceLaplacians",
    "DotPolynomials",
    "Family",
    "FeatureGaussians",
    "FeaturePolynomials",
    "OneKernel",
    "Tile",
]
