"""Arrays in files that are gone with the process."""

import errno
import os
import tempfile
from os import PathLike

import numpy as np
from numpy.typing import DTypeLike

ZEROS = 2**20  # bytes that are written at a time


def mapped(folder: str | PathLike, shape: tuple[int, ...], dtype: DTypeLike) -> np.memmap:
    """An array in a file that nobody else sees and that is removed when the array goes.

    On Unix the file has no name from the start, on Windows the system removes it with its last
    handle: `tempfile` knows. The map has a handle of its own, so the file object may be closed.

    Parameters
    ----------
    folder : path
    shape : tuple of int
    dtype : dtype
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(dir=os.fspath(folder)) as file:
        allocate(file, size)
        return np.memmap(file, dtype=dtype, shape=shape, mode="r+")


def allocate(file, size: int) -> None:
    """Give a new file its size, and the room for it: a full disk fails here, before any work, and
    not in the middle of it.

    Parameters
    ----------
    file : open file
    size : int
        In bytes.
    """
    if hasattr(os, "posix_fallocate"):  # not on macOS and Windows
        try:
            return os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system without it
                raise
    # a file that was only made longer may have holes, for which there need not be room later
    zeros = bytes(min(ZEROS, size))
    for start in range(0, size, ZEROS):
        file.write(zeros[: size - start])
    file.flush()
    file.seek(0)
