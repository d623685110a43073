"""Estimators with scikit-learn's interface."""

from .checkpoints import Checkpoint, OtherProblem
from .classifier import MKLClassifier
from .cross_validated import MKLClassifierCV, MKLRegressorCV
from .one_class import MKLOneClass
from .paths import Path, path
from .regressor import MKLRegressor
from .selector import MKLFeatureSelector

__all__ = [
    "Checkpoint",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLFeatureSelector",
    "MKLOneClass",
    "MKLRegressor",
    "MKLRegressorCV",
    "OtherProblem",
    "Path",
    "path",
]
