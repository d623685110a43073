"""Readers: data of the formats that people have."""

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .libsvm import read_libsvm, write_libsvm
    from .tables import read_table

_WHERE = {"read_libsvm": ".libsvm", "read_table": ".tables", "write_libsvm": ".libsvm"}

__all__ = ["read_libsvm", "read_table", "write_libsvm"]

__getattr__, __dir__ = lazy_names(__name__, _WHERE)
