"""Files: the one way to write them, and the layout of those that hold arrays."""

from .atomic import CannotWrite, check_replaceable, replace_file, replacing, write_output
from .container import CorruptFile, read, write

__all__ = [
    "CannotWrite",
    "CorruptFile",
    "check_replaceable",
    "read",
    "replace_file",
    "replacing",
    "write",
    "write_output",
]
