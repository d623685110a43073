"""Files: models, checkpoints and data."""

from importlib import import_module

_WHERE = {
    "CannotSave": ".values",
    "CannotWrite": ".container",
    "Checkpoint": ".checkpoints",
    "CorruptFile": ".container",
    "OtherProblem": ".checkpoints",
    "load": ".models",
}


def __getattr__(name):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
