"""What the library writes: model files and checkpoints."""

from .checkpoints import Checkpoint, OtherProblem
from .container import CannotWrite, CorruptFile
from .models import load
from .values import CannotSave

__all__ = ["CannotSave", "CannotWrite", "Checkpoint", "CorruptFile", "OtherProblem", "load"]
