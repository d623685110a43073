"""Model files: fitted estimators, alone or at the end of a pipeline."""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .._files import CannotWrite, CorruptFile
    from .files import load, save
    from .predictor import Predictor
    from .values import CannotSave

_WHERE = {
    "CannotSave": ".values",
    "CannotWrite": ".._files",
    "CorruptFile": ".._files",
    "Predictor": ".predictor",
    "load": ".files",
    "save": ".files",
}

__all__ = ["CannotSave", "CannotWrite", "CorruptFile", "Predictor", "load", "save"]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
