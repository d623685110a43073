"""Files: the one way to write them, and the layout of those that hold arrays."""

from .atomic import CannotWrite, replace_file
from .container import CorruptFile, read, write

__all__ = ["CannotWrite", "CorruptFile", "read", "replace_file", "write"]
