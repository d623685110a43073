"""The one layout of model files and checkpoints: arrays, JSON and a checksum over everything.

A file is laid out as the safetensors format says, and the safetensors library writes and reads it:
the length of the header (8 bytes), the header (JSON: name, type, shape and place of every array,
and texts), the arrays. Nothing in it is ever executed. The texts hold what the file is, and the
SHA-256 of the whole file with zeros in the place of the checksum itself. The content is JSON,
deflated, in an array of bytes; in version 1 of the format it was one of the texts.

Reading believes nothing: what the header says is compared with the size of the file before memory
is taken, the checksum is compared before the library sees the bytes, and of the content no more is
inflated than `INFLATION` bytes for each byte that it takes. The header is read by hand
for that: the library gives no texts of a file that it holds in memory, lets a name come twice, and
opens pipes, which would wait forever. Places, types and shapes of the arrays are the library's to
check.
"""

import hashlib
import json
import os
import stat
import zlib

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as serialize

from .._version import __version__
from .atomic import replace_file

FORMAT, SCHEMA = "manykernels", 2
TYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
KNOWN = [np.dtype(code) for code in TYPES.values()]
LONGEST_HEADER = 100_000_000  # the limit of safetensors itself, and of the content as JSON
INFLATION = 16  # that of models is 2 to 8
DIMENSIONS = 8
ZEROS = "0" * 64  # stands in the place of the checksum while it is computed
TEXTS = {"format", "schema", "version", "kind", "sha256"}
CONTENT = "content"  # a text in version 1, an array since


class CorruptFile(ValueError):
    """A file that is not what it should be: damaged, cut short, foreign, or of another kind."""


def write(path, arrays, content, kind, previous=None):
    """Write a file in one step; see `replace_file`.

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
    texts = {
        "format": FORMAT,
        "schema": str(SCHEMA),
        "version": __version__,
        "kind": kind,
        "sha256": ZEROS,
    }
    arrays = {**arrays, CONTENT: np.frombuffer(_deflated(content), dtype=np.uint8)}
    data = serialize({name: _plain(name, array) for name, array in arrays.items()}, texts)
    replace_file(path, _with_checksum(data), previous)


def read(path, kind):
    """Arrays and content of a file, if it is whole and of this kind.

    Returns
    -------
    dict of arrays, and what was given as content
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait forever
        raise CorruptFile(f"{path} is not an ordinary file.")
    with open(path, "rb") as file:
        # of the file that is open: another one may have taken its place in the meantime
        size = os.fstat(file.fileno()).st_size
        start, header = _read_header(file, size, path)
        texts = _texts(header, path)
        if texts["kind"] != kind:
            raise CorruptFile(f"{path} holds a {texts['kind'][:20]}, but a {kind} was expected.")
        file.seek(0)
        data = file.read(size)
    end = 8 + len(start)
    if len(data) != size or data[8:end] != start:
        raise CorruptFile(f"{path} was changed or cut short while it was read.")
    zeroed = start.replace(texts["sha256"].encode(), ZEROS.encode())
    if _checksum(data[:8], zeroed, memoryview(data)[end:]) != texts["sha256"]:
        raise CorruptFile(
            f"{path} is damaged: its checksum does not match its content. Get the file again."
        )
    arrays = _arrays(data, path)
    text = texts[CONTENT] if texts["schema"] == "1" else _inflated(arrays.pop(CONTENT, None), path)
    return arrays, _json(text, path)


def _deflated(content):
    """The bytes of the content in a file."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    if len(text) > LONGEST_HEADER:
        raise ValueError(
            f"The description of this file takes {len(text)} bytes, over the limit of "
            f"{LONGEST_HEADER}."
        )
    deflated = zlib.compress(text, 9)
    # level 0 stores the bytes as they are
    return deflated if len(text) <= INFLATION * len(deflated) else zlib.compress(text, 0)


def _inflated(deflated, path):
    """The content as JSON, of the bytes in a file."""
    if deflated is not None and deflated.dtype == np.uint8 and deflated.ndim == 1:
        inflate = zlib.decompressobj()
        limit = min(INFLATION * deflated.size, LONGEST_HEADER)
        try:
            text = inflate.decompress(deflated, limit + 1)
        except zlib.error as error:
            raise CorruptFile(f"{path} is damaged: {error}.") from None
        if inflate.eof and not inflate.unused_data and len(text) <= limit:
            return text
    raise CorruptFile(f"{path} is damaged: its content is not complete, or is too long.")


def _plain(name, array):
    """An array in one of the types that a file can hold, in one piece."""
    array = np.asarray(array)
    if array.dtype.kind == "i" and array.dtype.newbyteorder("<") not in KNOWN:
        array = array.astype(np.int64)
    if array.dtype.newbyteorder("<") not in KNOWN:
        raise TypeError(
            f"Array {name!r} has type {array.dtype}; a file holds {', '.join(map(str, KNOWN))}."
        )
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def _with_checksum(data):
    """The parts of a file, with the checksum in the place of its zeros."""
    end = 8 + int.from_bytes(data[:8], "little")
    if end - 8 > LONGEST_HEADER:
        raise ValueError(
            f"The arrays of this file need a header of {end - 8} bytes, over the limit of "
            f"{LONGEST_HEADER}."
        )
    mark = f'"sha256":"{ZEROS}"'.encode()  # quotes within the other texts have a backslash before
    place = data.index(mark, 8, end) + len(b'"sha256":"')
    view = memoryview(data)
    return view[:place], _checksum(data).encode(), view[place + len(ZEROS) :]


def _checksum(*parts):
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    return checksum.hexdigest()


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
    if not isinstance(texts, dict) or texts.get("format") != FORMAT:
        raise CorruptFile(f"{path} is not a file of manykernels.")
    schema = texts.get("schema")
    if (
        not set(texts) >= TEXTS
        or not all(isinstance(text, str) for text in texts.values())
        or len(texts["sha256"]) != 64
        or (schema == "1" and CONTENT not in texts)
    ):
        raise CorruptFile(f"{path} is damaged: its header is not complete.")
    if schema not in {str(version) for version in range(1, SCHEMA + 1)}:
        raise CorruptFile(
            f"{path} was written in version {schema[:20]} of the format by manykernels "
            f"{texts['version'][:20]}; this is {__version__}, which reads versions up to {SCHEMA}: "
            "install a release that reads it."
        )
    return texts


def _arrays(data, path):
    """The arrays of the bytes of a whole file, by name; the library checks that they fill it."""
    try:
        found = deserialize(data)
    except SafetensorError as error:
        raise CorruptFile(f"{path} is damaged: {error}.") from None
    if not all(one["dtype"] in TYPES and len(one["shape"]) <= DIMENSIONS for _, one in found):
        raise CorruptFile(
            f"{path} is damaged: an array in it has an unknown type or no sound shape."
        )
    return {
        name: np.frombuffer(one["data"], dtype=TYPES[one["dtype"]]).reshape(one["shape"])
        for name, one in sorted(found, key=lambda pair: pair[0])
    }
