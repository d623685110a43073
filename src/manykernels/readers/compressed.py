"""Text files that may be compressed, by the ending of their name."""

import bz2
import contextlib
import gzip
import os
import zlib

OPENERS = {".gz": gzip.open, ".bz2": bz2.open}


@contextlib.contextmanager
def opened(path, mode="rb"):
    """The file in bytes; damage to its compression is a ValueError."""
    if hasattr(path, "read"):
        yield path
        return
    opener = OPENERS.get(os.path.splitext(path)[1].lower(), open)
    try:
        with opener(path, mode) as file:
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
