"""Model files: fitted estimators, alone or at the end of a pipeline."""

from .._files import CannotWrite, CorruptFile
from .files import load, save
from .values import CannotSave

__all__ = ["CannotSave", "CannotWrite", "CorruptFile", "load", "save"]
