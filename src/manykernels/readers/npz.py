"""Arrays in NumPy's ``.npz`` archives, read without trusting what the archive says of itself.

A few bytes can claim an array of a terabyte. So the shape in an array's header is compared with the
size of its entry in the archive, and that with what the compressed bytes can hold at most, before
memory is asked for. Python objects are never loaded.
"""

import zipfile
import zlib
from math import prod

from numpy.lib import format as npy
from scipy import sparse

DEFLATE = 1032  # bytes that one compressed byte can stand for, at most


def read_archive(path):
    """X (array or csr_array) and y (None if it is not there) of an archive.

    X is an array of that name, or the three arrays ``data``, ``indices`` and ``indptr`` and the
    ``shape`` of a CSR matrix.
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _contents(archive, path)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, OSError) as error:
            raise ValueError(f"{path} is not a whole .npz archive: {error}.") from error


def _contents(archive, path):
    entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}

    def array(name):
        return _array(archive, entries[name], path)

    if "X" in entries:
        X = array("X")
    elif {"data", "indices", "indptr", "shape"} <= entries.keys():
        X = _csr([array(name) for name in ("data", "indices", "indptr", "shape")], path)
    else:
        raise ValueError(
            f"{path} needs an array X, or data, indices, indptr and shape of a CSR matrix; "
            f"it holds {', '.join(entries) or 'nothing'}."
        )
    y = array("y") if "y" in entries else None
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ValueError(f"{path}: X must be a table of numbers, got shape {X.shape} of {X.dtype}.")
    if y is not None and y.shape != X.shape[:1]:
        raise ValueError(
            f"{path}: y must have one entry for each of the {X.shape[0]} rows of X, got shape "
            f"{y.shape}."
        )
    return X, y


def _array(archive, entry, path):
    where = f"{path}, array {entry.filename.removesuffix('.npy')}"
    if entry.file_size > DEFLATE * entry.compress_size + DEFLATE:
        raise ValueError(
            f"{where}: {entry.compress_size} compressed bytes cannot hold the {entry.file_size} "
            "that are claimed."
        )
    with archive.open(entry) as file:
        try:
            shape, dtype = _header(file)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        if dtype.hasobject:
            raise ValueError(
                f"{where} holds Python objects, which are not loaded; save numbers or strings."
            )
        if file.tell() + prod(shape) * dtype.itemsize != entry.file_size:
            raise ValueError(
                f"{where}: shape {shape} of {dtype} does not match the {entry.file_size} bytes of "
                "its entry."
            )
    with archive.open(entry) as file:
        return npy.read_array(file, allow_pickle=False)


def _header(file):
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"arrays of format {version} are not read.")
    return shape, dtype


def _csr(parts, path):
    """A CSR matrix whose indices are where they may be: SciPy's own check leaves some out, and its
    loops trust them.
    """
    data, indices, indptr, shape = parts
    try:
        X = sparse.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no valid CSR matrix: {error}") from error
    return X
