"""Text files that may be compressed, by the ending of their name."""

import bz2
import contextlib
import gzip
import os
import zlib

from .._files import replacing

OPENERS = {".gz": gzip.open, ".bz2": bz2.open}


@contextlib.contextmanager
def opened(path):
    """The file in bytes; damage to its compression is a ValueError."""
    if hasattr(path, "read"):
        yield path
        return
    opener = OPENERS.get(os.path.splitext(path)[1].lower(), open)
    try:
        with opener(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{os.fspath(path)} is not a whole compressed file: {error}.") from error
    except OSError as error:
        # damage has no number, unlike a missing file
        if opener is bz2.open and error.errno is None:
            raise ValueError(
                f"{os.fspath(path)} is not a whole compressed file: {error}."
            ) from error
        raise


@contextlib.contextmanager
def created(path):
    """A new file to write bytes to, which takes the place of an old one when all is written."""
    opener = OPENERS.get(os.path.splitext(path)[1].lower())
    with replacing(path) as file:
        if opener is None:
            yield file
        else:
            with opener(file, "wb") as compressed:
                yield compressed
