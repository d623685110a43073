"""The only writer of files: a new one is made beside the old one and then takes its place.

A crash, a full disk or a signal leaves either the old file or the whole new one, and other
processes never see half of one.
"""

import errno
import os
import sys
import time
from contextlib import suppress
from pathlib import Path

STALE = 3600.0  # seconds after which a temporary file belongs to a process that was killed


class CannotWrite(OSError):
    """A file that could not be written; the file that was there before still is."""


def replace_file(path, parts, previous=None):
    """Write a file in one step.

    Parameters
    ----------
    path : path
        A link stays a link: the file that it points to is replaced.
    parts : iterable of bytes-like
        The content, one after the other.
    previous : path, optional
        Where the file that is replaced is kept.

    Raises
    ------
    CannotWrite
        With advice on what to do; nothing has changed.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _sweep(target)
        _write_through(temporary, parts)
        if previous is not None and target.exists():
            _keep_old(target, previous, temporary.with_suffix(".old.tmp"))
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise CannotWrite(error.errno, _advice(error, target)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _write_through(temporary, parts):
    """A new file, on the disk when this returns."""
    with open(temporary, "xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _keep_old(target, previous, link):
    """Give the old file its second name without taking away the first, where the file system has
    links.
    """
    try:
        os.link(target, link)
    except OSError:
        os.replace(target, previous)
    else:
        os.replace(link, previous)


def _sync_folder(folder):
    """Make the new name last, too; folders cannot be opened on Windows, and some file systems
    refuse.
    """
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(target):
    """Remove what processes that were killed while writing this file have left."""
    for left in target.parent.glob(f".{target.name}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > STALE:
                left.unlink()


ADVICE = {
    "ENOSPC": "the disk is full; free some space or choose another folder",
    "EDQUOT": "your quota is used up; free some space or choose another folder",
    "EFBIG": "the file would be larger than the limit of this process; choose another folder or "
    "raise the limit",
    "EROFS": "the folder is read-only; choose another",
    "EACCES": "the folder may not be written to; choose another",
    "EPERM": "the folder may not be written to; choose another",
    "ENOENT": "the folder does not exist; make it first",
    "ENOTDIR": "its folder is a file; choose another",
    "EISDIR": "it is a folder; give the name of a file",
}


def _advice(error, target):
    name = errno.errorcode.get(error.errno)  # by name: Windows does not have all of them
    what = ADVICE.get(name, error.strerror or str(error))
    return f"Could not write {target}: {what}. What was there before is unchanged."
