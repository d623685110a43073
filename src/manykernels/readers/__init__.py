"""Readers: data of the formats that people have."""

from .libsvm import read_libsvm, write_libsvm
from .tables import read_table

__all__ = ["read_libsvm", "read_table", "write_libsvm"]
