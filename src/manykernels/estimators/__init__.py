"""Estimators with scikit-learn's interface."""

from .checkpoints import Checkpoint, OtherProblem
from .choice import Choice
from .classifier import MKLClassifier
from .cross_validated import MKLClassifierCV, MKLRegressorCV
from .importance import Importance, group_importance
from .one_class import MKLOneClass
from .path_models import Path
from .paths import path
from .regressor import MKLRegressor
from .selector import MKLFeatureSelector
from .stability import Stability, stability

__all__ = [
    "Checkpoint",
    "Choice",
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
