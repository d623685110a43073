"""Estimators with scikit-learn's interface."""

from .checkpoints import Checkpoint, OtherProblem
from .classifier import MKLClassifier
from .one_class import MKLOneClass
from .paths import Path, path
from .regressor import MKLRegressor
from .selector import MKLFeatureSelector

__all__ = [
    "Checkpoint",
    "MKLClassifier",
    "MKLFeatureSelector",
    "MKLOneClass",
    "MKLRegressor",
    "OtherProblem",
    "Path",
    "path",
]
