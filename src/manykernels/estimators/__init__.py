"""Estimators with scikit-learn's interface."""

from .checkpoints import Checkpoint, OtherProblem
from .classifier import MKLClassifier
from .cross_validated import MKLClassifierCV, MKLRegressorCV
from .importance import Importance, group_importance
from .one_class import MKLOneClass
from .paths import Path, path
from .regressor import MKLRegressor
from .selector import MKLFeatureSelector
from .stability import Stability, stability

__all__ = [
    "Checkpoint",
    "Importance",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLFeatureSelector",
    "MKLOneClass",
    "MKLRegressor",
    "MKLRegressorCV",
    "OtherProblem",
    "Path",
    "Stability",
    "group_importance",
    "path",
    "stability",
]
