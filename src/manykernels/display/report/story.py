"""What the sections of a report are about."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..facts import Shares, rows_of
from .page import Charts


@dataclass
class Story:
    """A model, what is known of its kernels, and data to judge it on.

    Attributes
    ----------
    given : the estimator as it was given, which may be a pipeline or a search
    model : fitted MKL estimator
    shares : Shares
    X, y : data, or None
    stability, importance : Stability and Importance, or None
    charts : Charts
        Those placed so far.
    """

    given: object
    model: object
    shares: Shares
    X: object = None
    y: object = None
    stability: object = None
    importance: object = None
    charts: Charts = field(default_factory=Charts)

    @cached_property
    def predicted(self):
        """Predictions for X, computed once."""
        return np.asarray(self.given.predict(self.X))

    @cached_property
    def rows(self):
        """X as the model gets it, after the other steps of a pipeline."""
        return rows_of(self.given, self.X)

    @property
    def is_sum(self):
        """Whether the kernel is a weighted sum, so that its weights belong to kernels."""
        return self.model.bank_.is_sum

    @property
    def result(self):
        """The outcome of the fit, or None if it was not kept."""
        return getattr(self.model, "result_", None)
