"""The one file format of models and checkpoints: arrays, JSON and a checksum over everything.

A file is laid out as the safetensors format says, so other tools can read its arrays: the length of
the header (8 bytes), the header (JSON: name, type, shape and place of every array, and texts), the
arrays. Nothing in it is ever executed. The texts hold what the file is, the content as JSON, and
the SHA-256 of the whole file with zeros in the place of the checksum itself.

Reading believes nothing: sizes are checked against the size of the file before anything is
allocated, and the checksum before anything is returned. Writing makes a new file beside the old one
and then takes its place, so that a crash, a full disk or a signal leaves either the old file or the
new one.
"""

import errno
import hashlib
import json
import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from .. import __version__

FORMAT, SCHEMA = "manykernels", 1
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
NAMES = {np.dtype(code): name for name, code in TYPES.items()}
LONGEST_HEADER = 100_000_000  # the limit of safetensors itself
DIMENSIONS = 8
ZEROS = "0" * 64  # stands in the place of the checksum while it is computed
STALE = 3600.0  # seconds after which a temporary file belongs to a process that was killed


class CorruptFile(ValueError):
    """A file that is not what it should be: damaged, cut short, foreign, or of another kind."""


class CannotWrite(OSError):
    """A file that could not be written; the file that was there before still is."""


def write(path, arrays, content, kind, previous=None):
    """Write a file in one step: other processes see the old file or the whole new one.

    Parameters
    ----------
    path : path
    arrays : mapping from name to array of real numbers or booleans
    content : JSON-able object
    kind : str
        What the file is, such as ``"model"``.
    previous : path, optional
        Where the file that is replaced is kept.
    """
    target = Path(os.path.realpath(path))
    arrays = {name: _plain(name, array) for name, array in arrays.items()}
    header = _header(arrays, content, kind)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        _sweep(target)
        _write_through(temporary, header, arrays)
        if previous is not None and target.exists():
            _keep_old(target, previous, temporary.with_suffix(".old.tmp"))
        os.replace(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise CannotWrite(error.errno, _advice(error, target)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def read(path, kind):
    """Arrays and content of a file, if it is whole and of this kind.

    Returns
    -------
    dict of arrays, and what was given as content
    """
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait forever
        raise CorruptFile(f"{path} is not an ordinary file.")
    with open(path, "rb") as file:
        start, header = _read_header(file, status.st_size, path)
        texts = _texts(header, path)
        _check_kind(texts, kind, path)
        places = _places(header, status.st_size - 8 - len(start), path)
        content = _json(texts["content"], path)
        zeroed = start.replace(texts["sha256"].encode(), ZEROS.encode())
        checksum = hashlib.sha256(len(start).to_bytes(8, "little") + zeroed)
        arrays = {name: _read_array(file, place, checksum, path) for name, place in places}
    if checksum.hexdigest() != texts["sha256"]:
        raise CorruptFile(
            f"{path} is damaged: its checksum does not match its content. Get the file again."
        )
    return {name: arrays[name] for name in sorted(arrays)}, content


def _plain(name, array):
    """An array in one of the types that a file can hold."""
    array = np.asarray(array)
    if array.dtype.kind == "i" and array.dtype.newbyteorder("<") not in NAMES:
        array = array.astype(np.int64)
    if array.dtype.newbyteorder("<") not in NAMES:
        raise TypeError(
            f"Array {name!r} has type {array.dtype}; a file holds "
            f"{', '.join(str(dtype) for dtype in NAMES)}."
        )
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def _in_order(arrays):
    """Arrays by falling width of their entries, so that each begins at a multiple of it."""
    return sorted(arrays.items(), key=lambda pair: (-pair[1].itemsize, pair[0]))


def _header(arrays, content, kind):
    """The header with its checksum, padded with spaces to whole words."""
    texts = {
        "format": FORMAT,
        "schema": str(SCHEMA),
        "version": __version__,
        "kind": kind,
        "sha256": ZEROS,
    }
    entries = {
        "__metadata__": texts
        | {"content": json.dumps(content, allow_nan=False, separators=(",", ":"))}
    }
    end = 0
    for name, array in _in_order(arrays):
        begin, end = end, end + array.nbytes
        entries[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > LONGEST_HEADER:
        raise ValueError(
            f"The description of this file takes {len(header)} bytes, over the limit of "
            f"{LONGEST_HEADER}."
        )
    checksum = hashlib.sha256(len(header).to_bytes(8, "little") + header)
    for _, array in _in_order(arrays):
        checksum.update(_bytes(array))
    return header.replace(ZEROS.encode(), checksum.hexdigest().encode(), 1)


def _bytes(array):
    return memoryview(array.reshape(-1)).cast("B") if array.size else b""


def _write_through(temporary, header, arrays):
    """A new file, on the disk when this returns."""
    with open(temporary, "xb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for _, array in _in_order(arrays):
            file.write(_bytes(array))
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


def _advice(error, target):
    what = {
        errno.ENOSPC: "the disk is full; free some space or choose another folder",
        errno.EDQUOT: "your quota is used up; free some space or choose another folder",
        errno.EFBIG: "the file would be larger than the limit of this process; choose another folder or raise the limit",
        errno.EROFS: "the folder is read-only; choose another",
        errno.EACCES: "the folder may not be written to; choose another",
        errno.EPERM: "the folder may not be written to; choose another",
        errno.ENOENT: "the folder does not exist; make it first",
        errno.ENOTDIR: "its folder is a file; choose another",
        errno.EISDIR: "it is a folder; give the name of a file",
    }.get(error.errno, error.strerror or str(error))
    return f"Could not write {target}: {what}. What was there before is unchanged."


def _read_header(file, size, path):
    """The bytes of the header and what they say."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= length <= min(size - 8, LONGEST_HEADER):
        raise CorruptFile(f"{path} is not a file of manykernels, or it was cut short.")
    start = file.read(length)
    header = _json(start, path)
    if len(start) != length or not isinstance(header, dict):
        raise CorruptFile(f"{path} is not a file of manykernels.")
    return start, header


def _json(text, path):
    """Parsed JSON; names that come twice, numbers that are none and endless nesting are refused."""
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptFile(
            f"{path} is not a file of manykernels, or it is damaged ({error})."
        ) from None


def _unique(pairs):
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a name comes twice")
    return mapping


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def _texts(header, path):
    """The texts of the header, all there and all of them texts."""
    texts = header.get("__metadata__")
    known = {"format", "schema", "version", "kind", "sha256", "content"}
    if not isinstance(texts, dict) or texts.get("format") != FORMAT:
        raise CorruptFile(f"{path} is not a file of manykernels.")
    if (
        set(texts) != known
        or not all(isinstance(text, str) for text in texts.values())
        or len(texts["sha256"]) != 64
    ):
        raise CorruptFile(f"{path} is damaged: its header is not complete.")
    return texts


def _check_kind(texts, kind, path):
    if texts["schema"] != str(SCHEMA):
        raise CorruptFile(
            f"{path} was written in version {texts['schema'][:20]} of the format by manykernels "
            f"{texts['version'][:20]}; "
            f"this is {__version__}, which reads version {SCHEMA}: install a release that reads it."
        )
    if texts["kind"] != kind:
        raise CorruptFile(f"{path} holds a {texts['kind'][:20]}, but a {kind} was expected.")


def _places(header, size, path):
    """Name, and type and shape, of every array, in the order of the file; together they fill it."""
    places, end = [], 0
    entries = [(name, entry) for name, entry in header.items() if name != "__metadata__"]
    if not all(isinstance(entry, dict) and _sound(entry) for _, entry in entries):
        raise CorruptFile(
            f"{path} is damaged: an array in it has an unknown type or no sound shape."
        )
    for name, entry in sorted(entries, key=lambda pair: pair[1]["data_offsets"]):
        dtype, shape, (begin, stop) = (
            np.dtype(TYPES[entry["dtype"]]),
            tuple(entry["shape"]),
            entry["data_offsets"],
        )
        count = 1
        for length in shape:  # Python's integers do not overflow
            count *= length
        if begin != end or stop - begin != count * dtype.itemsize:
            raise CorruptFile(
                f"{path} is damaged: array {name[:40]!r} is not where its shape says."
            )
        places.append((name, (dtype, shape)))
        end = stop
    if end != size:
        raise CorruptFile(
            f"{path} is damaged: it should have {end} bytes of arrays, but has {size}."
        )
    return places


def _sound(entry):
    """Whether the description of an array has the right form."""
    if set(entry) != {"dtype", "shape", "data_offsets"} or entry["dtype"] not in list(TYPES):
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (
        isinstance(shape, list)
        and isinstance(offsets, list)
        and len(shape) <= DIMENSIONS
        and len(offsets) == 2
    ):
        return False
    return all(type(number) is int and 0 <= number < 2**62 for number in [*shape, *offsets])


def _read_array(file, place, checksum, path):
    array = np.empty(place[1], dtype=place[0])
    if array.size:
        view = _bytes(array)
        if file.readinto(view) != len(view):
            raise CorruptFile(f"{path} was cut short while it was read.")
        checksum.update(view)
    return array
