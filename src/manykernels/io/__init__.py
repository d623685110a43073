"""Files: data to read, and what the library writes. Names load on first use."""

from importlib import import_module

_WHERE = {
    "read_libsvm": ".libsvm",
    "write_libsvm": ".libsvm",
    "read_table": ".tables",
}

__all__ = ["read_libsvm", "read_table", "write_libsvm"]


def __getattr__(name):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
