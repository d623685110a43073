"""Estimators with scikit-learn's interface."""

from .classifier import MKLClassifier

__all__ = ["MKLClassifier"]
