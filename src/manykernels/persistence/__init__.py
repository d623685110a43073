"""What the library writes: model files."""

from .._files import CannotWrite, CorruptFile
from .models import load
from .values import CannotSave

__all__ = ["CannotSave", "CannotWrite", "CorruptFile", "load"]
