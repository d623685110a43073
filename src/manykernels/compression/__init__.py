"""Fitted models with fewer points, and what is known about how often they agree with the model
that they stand for.
"""

from .compressor import compress

__all__ = ["compress"]
