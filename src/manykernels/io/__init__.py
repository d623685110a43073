"""Files: data to read, and what the library writes. Names load on first use."""

from importlib import import_module

_WHERE = {
    "CannotSave": ".values",
    "CannotWrite": ".container",
    "Checkpoint": ".checkpoints",
    "CorruptFile": ".container",
    "OtherProblem": ".checkpoints",
    "load": ".models",
    "read_libsvm": ".libsvm",
    "read_table": ".tables",
    "write_libsvm": ".libsvm",
}

__all__ = [
    "CannotSave",
    "CannotWrite",
    "Checkpoint",
    "CorruptFile",
    "OtherProblem",
    "load",
    "read_libsvm",
    "read_table",
    "write_libsvm",
]


def __getattr__(name):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
