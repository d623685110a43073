"""Estimators with scikit-learn's interface."""

from .classifier import MKLClassifier
from .one_class import MKLOneClass
from .paths import Path, path
from .regressor import MKLRegressor
from .selector import MKLFeatureSelector

__all__ = ["MKLClassifier", "MKLFeatureSelector", "MKLOneClass", "MKLRegressor", "Path", "path"]
