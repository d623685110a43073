"""Packages whose public names are imported when they are first asked for."""

import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, where: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    where : mapping
        From names to the modules that have them, relative to the package.
    """
    # Threads that begin with different modules of a circle would wait for each other, of which
    # Python makes an error. No module asks for a name of the outermost package while it is
    # imported, so that this lock is taken before theirs.
    outermost = "." not in package
    alone: AbstractContextManager = threading.RLock() if outermost else nullcontext()

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with alone:
            found = getattr(import_module(where[name], package), name)
        setattr(import_module(package), name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(import_module(package)), *where})

    return get, names
