"""The only writer of files: a new one is made beside the old one and then takes its place.

A crash, a full disk or a signal leaves either the old file or the whole new one, and other
processes and threads never see half of one. Only ordinary files are replaced: a pipe, a socket, a
device, a folder or a loop of links is refused. Links are followed, and a new file has no more
permissions than the one whose place it takes.
"""

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

STALE = 3600.0  # seconds after which a temporary file belongs to a process that was killed
LONGEST_STEM = 200  # bytes: names of files may have 255
STREAMS = (1, 2)  # standard output and standard error


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
    with replacing(path, previous) as file:
        for part in parts:
            file.write(part)


@contextlib.contextmanager
def replacing(path, previous=None):
    """A binary file to write to; when the context is left without an exception, it takes the place
    of the one at the path. See `replace_file`.

    An OSError of the context itself, such as that of another file that is read there, stays as it
    is.
    """
    target, temporary, of_content = None, None, None
    try:
        target, before = _target(path)
        _sweep(target)
        temporary = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}.tmp")
        with _opened_new(temporary, before) as file:
            try:
                yield file
            except OSError as error:
                of_content = None if file.raw.failed else error
                raise
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and before is not None:
            _keep_old(target, _target(previous)[0], temporary.with_suffix(".old.tmp"))
        os.replace(temporary, target)
    except OSError as error:
        if error is of_content:
            raise
        raise CannotWrite(error.errno, _advice(error, target or path)) from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
    _sync_folder(target.parent)


def write_output(path, parts):
    """Write what others may wait for: pipes, terminals and other devices without blocks are written
    straight into, as are the standard output and the standard error under any name; whatever else
    is at the path is dealt with by `replace_file`.
    """
    try:
        status = os.stat(path)
    except OSError:  # nothing there, or nothing that can be written
        return replace_file(path, parts)
    stream = next((one for one in STREAMS if _is_stream(one, status)), None)
    if stream is None and not (stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)):
        return replace_file(path, parts)
    file = None
    try:
        sys.stdout.flush()  # what was printed comes first
        file = _Written(path if stream is None else stream, "wb", closefd=stream is None)
        with io.BufferedWriter(file) as buffer:
            for part in parts:
                buffer.write(part)
    except BrokenPipeError:  # nobody reads any more
        raise
    except OSError as error:
        if file is not None and not file.failed:  # of the content
            raise
        raise CannotWrite(error.errno, f"Could not write {path}: {_reason(error)}.") from error
    return None


def check_replaceable(path):
    """Raise CannotWrite unless a file could be written there, before work is spent on it."""
    try:
        target, _ = _target(path)
        if not target.parent.is_dir():
            code = errno.ENOTDIR if target.parent.exists() else errno.ENOENT
            raise OSError(code, os.strerror(code))
        if not os.access(target.parent, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise CannotWrite(error.errno, _advice(error, path)) from error


class _Written(io.FileIO):
    """A file that knows whether writing to it has failed.

    Attributes
    ----------
    failed : bool
    """

    failed = False

    def write(self, data):
        try:
            return super().write(data)
        except OSError:
            self.failed = True
            raise


class _NotOrdinary(OSError):
    """Something at the path that is no ordinary file; its text says what."""


KINDS = {
    stat.S_IFDIR: (errno.EISDIR, "it is a folder"),
    stat.S_IFIFO: (errno.EINVAL, "it is a pipe (FIFO)"),
    stat.S_IFSOCK: (errno.EINVAL, "it is a socket"),
    stat.S_IFCHR: (errno.EINVAL, "it is a device"),
    stat.S_IFBLK: (errno.EINVAL, "it is a device"),
}


def _target(path):
    """The file that a path leads to, and its status; None for a new one."""
    target = Path(os.path.realpath(path))
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return target, None
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        code, what = KINDS.get(kind, (errno.EINVAL, "it is no ordinary file"))
        raise _NotOrdinary(code, f"{what}; give the name of a file")
    return target, status


def _opened_new(path, before):
    """A new file, of the owner, the group and the permissions of the one before as far as that is
    possible, and never of more.
    """
    mode = 0o666 if before is None else stat.S_IMODE(before.st_mode) & 0o777
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags, mode)  # less what the umask takes away
    try:
        if before is not None and hasattr(os, "fchown"):
            try:
                os.fchown(handle, before.st_uid, before.st_gid)
            except OSError:
                if os.fstat(handle).st_gid != before.st_gid:
                    mode &= ~0o070  # they were another group's
            os.fchmod(handle, mode)
        return io.BufferedWriter(_Written(handle, "wb"))
    except BaseException:
        os.close(handle)
        raise


def _is_stream(handle, status):
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), status)
    return False


def _keep_old(target, previous, link):
    """Give the old file its second name without taking away the first, where the file system has
    links.
    """
    try:
        os.link(target, link)
    except OSError:
        os.replace(target, previous)
        return
    try:
        os.replace(link, previous)
    finally:  # which is still there if both were names of one file already
        with suppress(OSError):
            os.unlink(link)


def _sync_folder(folder):
    """Make the new name last, too; folders cannot be opened on Windows, and some file systems
    refuse.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _stem(target):
    """How the names of temporary files of a target begin: with its own name, or as much of it as
    leaves room for the rest.
    """
    return f".{os.fsencode(target.name)[:LONGEST_STEM].decode(errors='ignore')}."


def _sweep(target):
    """Remove what processes that were killed while writing this file have left."""
    ours = re.compile(rf"{re.escape(_stem(target))}[0-9a-f]{{16}}(\.old)?\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name):
                with suppress(OSError):
                    if time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE:
                        os.unlink(entry.path)


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
    "ELOOP": "it is a link that leads back to itself; give the name of a file",
}


def _advice(error, target):
    return f"Could not write {target}: {_reason(error)}. What was there before is unchanged."


def _reason(error):
    what = error.strerror or str(error)
    name = errno.errorcode.get(error.errno)  # by name: Windows does not have all of them
    return what if isinstance(error, _NotOrdinary) else ADVICE.get(name, what)
