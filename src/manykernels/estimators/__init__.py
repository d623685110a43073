"""Estimators with scikit-learn's interface."""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .answers.contributions import GroupShares
    from .answers.drift import KernelDrift, kernel_drift
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

_WHERE = {
    "Alike": ".answers.explanation",
    "Checkpoint": ".checkpoints",
    "Choice": ".search.path_models",
    "Explanation": ".answers.explanation",
    "GroupShares": ".answers.contributions",
    "HeldOutFold": ".coverage",
    "Importance": ".answers.importance",
    "KernelDrift": ".answers.drift",
    "MKLClassifier": ".classifier",
    "MKLClassifierCV": ".cross_validated",
    "MKLFeatureSelector": ".selector",
    "MKLOneClass": ".one_class",
    "MKLRegressor": ".regressor",
    "MKLRegressorCV": ".cross_validated",
    "OtherProblem": ".checkpoints",
    "Path": ".search.path_models",
    "ShapleyValues": ".answers.shapley",
    "SparsityPath": ".search.sparsity",
    "Stability": ".answers.stability",
    "explain": ".answers.explanation",
    "group_importance": ".answers.importance",
    "kernel_drift": ".answers.drift",
    "path": ".search.paths",
    "plan": ".planned",
    "shapley_values": ".answers.shapley",
    "sparsity_path": ".search.sparsity",
    "stability": ".answers.stability",
}

__all__ = [
    "Alike",
    "Checkpoint",
    "Choice",
    "Explanation",
    "GroupShares",
    "HeldOutFold",
    "Importance",
    "KernelDrift",
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
    "kernel_drift",
    "path",
    "plan",
    "shapley_values",
    "sparsity_path",
    "stability",
]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
