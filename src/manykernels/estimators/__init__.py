"""Estimators with scikit-learn's interface."""

from .classifier import MKLClassifier
from .paths import Path, path

__all__ = ["MKLClassifier", "Path", "path"]
