"""Estimators with scikit-learn's interface."""

from .answers.contributions import GroupShares
from .answers.explanation import Alike, Explanation, explain
from .answers.importance import Importance, group_importance
from .answers.shapley import ShapleyValues, shapley_values
from .answers.stability import Stability, stability
from .checkpoints import Checkpoint, OtherProblem
from .classifier import MKLClassifier
from .coverage import HeldOutFold
from .cross_validated import MKLClassifierCV, MKLRegressorCV
from .one_class import MKLOneClass
from .planned import plan
from .regressor import MKLRegressor
from .search.path_models import Choice, Path
from .search.paths import path
from .search.sparsity import SparsityPath, sparsity_path
from .selector import MKLFeatureSelector

__all__ = [
    "Alike",
    "Checkpoint",
    "Choice",
    "Explanation",
    "GroupShares",
    "HeldOutFold",
    "Importance",
    "MKLClassifier",
    "MKLClassifierCV",
    "MKLFeatureSelector",
    "MKLOneClass",
    "MKLRegressor",
    "MKLRegressorCV",
    "OtherProblem",
    "Path",
    "ShapleyValues",
    "SparsityPath",
    "Stability",
    "explain",
    "group_importance",
    "path",
    "plan",
    "shapley_values",
    "sparsity_path",
    "stability",
]
