"""LIBSVM (SVMlight) text: a label and ``index:value`` pairs on each line.

Written by hand, although scikit-learn has a reader: this one takes a quarter of its time, every
number is the one that Python's ``float`` makes of its text, and a damaged file is refused with the
line and the reason (an index out of order, a value that is not finite, a line without an end)
instead of being read as other numbers.

The file is read in blocks of whole lines, each parsed by a compiled loop, so that besides the
arrays that are returned no more than a block is in memory, or the longest line.
"""

import os
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from .._loops import libsvm as loops
from .compressed import created, opened

CHUNK = 2**22  # bytes read at a time
MAX_LINE = 2**26
EXCERPT = 40  # bytes of the offending text that an error shows
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

PROBLEMS = {
    loops.BAD_LABEL: "a line must begin with its label, a finite decimal number (several labels "
    "are not read)",
    loops.BAD_INDEX: "a feature must be written index:value, with a whole index of at least 0",
    loops.BAD_VALUE: "a value must be a finite decimal number right after the colon",
    loops.NO_COLON: "a feature must be written index:value, but there is no colon",
    loops.RANKING: "query numbers (qid:) belong to ranking, which is not offered; remove them",
    loops.TOO_LARGE: f"the largest index that is read is {loops.LARGEST_INDEX}",
    loops.NOT_INCREASING: "the indices of a line must increase; this one is repeated or out of "
    "order",
    loops.TOO_LONG: "the line is longer than max_line allows",
}


class LibsvmFile(NamedTuple):
    """The contents of a file: rows, labels, and whether its first feature has the index 0."""

    X: sparse.csr_array
    y: np.ndarray
    zero_based: bool


def read_libsvm(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    max_line: int = MAX_LINE,
    dtype: DTypeLike = np.float64,
) -> tuple[sparse.csr_array, np.ndarray]:
    """Rows and labels of a LIBSVM file.

    Parameters
    ----------
    path : path or binary file
        Names that end in ``.gz`` or ``.bz2`` are decompressed.
    n_features : int, optional
        Columns of X; as many as the largest index needs by default. Say it when several files
        belong together.
    zero_based : bool or "auto"
        Whether the first feature has the index 0. ``"auto"``: if that index is in the file.
    max_line : int
        Bytes of the longest line that is read; a longer one is an error, found without reading it
        whole.
    dtype : float64 or float32

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
    y : (n_samples,) array of float64

    Raises
    ------
    ValueError
        Naming the line, for anything but finite numbers in the order that the format demands.
    """
    contents = load_libsvm(
        path, n_features=n_features, zero_based=zero_based, max_line=max_line, dtype=dtype
    )
    return contents.X, contents.y


def load_libsvm(path, *, n_features=None, zero_based="auto", max_line=MAX_LINE, dtype=np.float64):
    """The same as a `LibsvmFile`, which also says where the indices began."""
    _check_options(n_features, zero_based, max_line, dtype)
    name = "the file" if hasattr(path, "read") else os.fspath(path)
    with opened(path) as file:
        parts = [
            _parse(block, line, max_line, name) for line, block in _blocks(file, max_line, name)
        ]
    labels, lines, counts, indices, values = (
        np.concatenate(arrays) for arrays in zip(_nothing(), *parts, strict=True)
    )
    where = _Where(name, lines, np.concatenate([[0], np.cumsum(counts)]))
    if zero_based == "auto":
        zero_based = bool(indices.min(initial=1) == 0)
    width = _width(indices, n_features, zero_based, where)
    if not zero_based:
        indices -= np.int32(1)
    X = sparse.csr_array(
        (_as_dtype(values, dtype, where), indices, where.starts), shape=(labels.size, width)
    )
    return LibsvmFile(X, labels, bool(zero_based))


def write_libsvm(
    path: str | os.PathLike[str],
    X: ArrayLike | sparse.sparray | sparse.spmatrix,
    y: ArrayLike,
    *,
    zero_based: bool = False,
) -> None:
    """Write rows and labels so that reading them gives the same numbers, bit by bit.

    Parameters
    ----------
    path : path
        Names that end in ``.gz`` or ``.bz2`` are compressed. A file that is there is replaced when
        everything is written.
    X : array or sparse matrix of shape (n_samples, n_features)
        Zeros are not written, apart from those that a sparse matrix stores.
    y : (n_samples,) array of numbers
    zero_based : bool
        Whether the first feature gets the index 0; the format says 1.

    Raises
    ------
    ValueError
        For anything but finite numbers, with one label for each row.
    """
    X = sparse.csr_array(X if sparse.issparse(X) else np.asarray(X))
    X.sum_duplicates()
    y = np.asarray(y)
    if y.shape != X.shape[:1] or y.dtype.kind not in "fiub" or X.dtype.kind not in "fiub":
        raise ValueError(
            f"LIBSVM text needs numbers and one label per row, got X {X.shape}, {X.dtype} and y "
            f"{y.shape}, {y.dtype}."
        )
    if not (np.isfinite(X.data).all() and np.isfinite(y).all()):
        raise ValueError(
            "LIBSVM text holds finite numbers only; X or y holds NaN or infinite values."
        )
    indices = (X.indices.astype(np.int64) + (0 if zero_based else 1)).tolist()
    pairs = [
        f" {index}:{_written(value)}"
        for index, value in zip(indices, X.data.astype(float).tolist(), strict=True)
    ]
    with created(path) as file:
        for label, start, end in zip(
            y.astype(float).tolist(), X.indptr[:-1], X.indptr[1:], strict=True
        ):
            file.write(f"{_written(label)}{''.join(pairs[start:end])}\n".encode())


def _written(value):
    return repr(value).removesuffix(".0")


def _check_options(n_features, zero_based, max_line, dtype):
    if n_features is not None and not 1 <= n_features <= loops.LARGEST_INDEX:
        raise ValueError(
            f"n_features must be None or from 1 to {loops.LARGEST_INDEX}, got {n_features!r}."
        )
    if zero_based not in (True, False, "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
    if not max_line >= 1:
        raise ValueError(f"max_line must be at least 1 byte, got {max_line!r}.")
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}.")


def _blocks(file, max_line, name):
    """The number of the line before, and whole lines, until the file ends."""
    line, pending = 0, []
    start = file.read(len(BYTE_ORDER_MARK)).removeprefix(BYTE_ORDER_MARK)
    while chunk := start + file.read(CHUNK):
        start = b""
        end = chunk.rfind(b"\n") + 1
        if end:
            block = b"".join([*pending, memoryview(chunk)[:end]])
            yield line, block
            line, pending = line + block.count(b"\n"), []
        pending.append(chunk[end:])
        if sum(map(len, pending)) > max_line:
            raise _error(name, line + 1, loops.TOO_LONG, b"".join(pending)[:EXCERPT])
    if last := b"".join(pending):
        yield line, last + b"\n"


def _parse(block, line, max_line, name):
    """Labels, their lines, entries of each row, indices and values of a block of lines."""
    rows, entries = block.count(b"\n"), block.count(b":")
    out = loops.Parsed(
        labels=np.empty(rows),
        lines=np.empty(rows, dtype=np.int64),
        ends=np.empty(rows, dtype=np.int64),
        indices=np.empty(entries, dtype=np.int32),
        values=np.empty(entries),
        hard=np.empty((rows + entries, 3), dtype=np.int64),
    )
    progress = loops.read_lines(np.frombuffer(block, dtype=np.uint8), line, max_line, out)
    # first, since these stand on earlier lines than what stopped the loop
    _settle_hard(block, out, progress, name)
    if progress.problem != loops.FINE:
        raise _error(
            name, progress.line, progress.problem, block[progress.place : progress.place + EXCERPT]
        )
    kept, counts = slice(progress.rows), np.diff(out.ends[: progress.rows], prepend=0)
    return (
        out.labels[kept],
        out.lines[kept],
        counts,
        out.indices[: progress.entries],
        out.values[: progress.entries],
    )


def _settle_hard(block, out, progress, name):
    """Numbers that the loop could not round for certain."""
    for which, start, end in out.hard[: progress.hard].tolist():
        array, place = (out.values, which) if which >= 0 else (out.labels, -1 - which)
        array[place] = float(block[start:end])
        if not np.isfinite(array[place]):
            row = (
                place
                if which < 0
                else np.searchsorted(out.ends[: progress.rows], place, side="right")
            )
            raise _error(
                name,
                out.lines[row],
                loops.BAD_LABEL if which < 0 else loops.BAD_VALUE,
                block[start:end],
            )


class _Where(NamedTuple):
    """Finds the line of an entry."""

    name: str
    lines: np.ndarray
    starts: np.ndarray

    def line(self, entry):
        return self.lines[np.searchsorted(self.starts, entry, side="right") - 1]


def _width(indices, n_features, zero_based, where):
    """The number of features; raises for an index outside."""
    needed = (
        int(indices.max(initial=0)) + 1
        if zero_based and indices.size
        else int(indices.max(initial=0))
    )
    allowed = loops.LARGEST_INDEX if n_features is None else n_features
    if needed > allowed:
        place = int(indices.argmax())
        raise ValueError(
            f"{where.name}, line {where.line(place)}: index {indices[place]} is beyond the "
            f"{allowed} features that X can have "
            f"(indices begin at {0 if zero_based else 1})."
        )
    if not zero_based and indices.min(initial=1) == 0:
        place = int(indices.argmin())
        raise ValueError(
            f"{where.name}, line {where.line(place)}: index 0, but zero_based=False says that "
            "indices begin at 1."
        )
    return needed if n_features is None else int(n_features)


def _as_dtype(values, dtype, where):
    with np.errstate(over="ignore"):
        converted = values.astype(dtype, copy=False)
    infinite = np.flatnonzero(~np.isfinite(converted))
    if infinite.size:
        line, value = where.line(infinite[0]), float(values[infinite[0]])
        raise ValueError(
            f"{where.name}, line {line}: {value!r} does not fit {np.dtype(dtype)}; use "
            "dtype=float64."
        )
    return converted


def _nothing():
    """Empty arrays of the right types: a file may have no rows."""
    return (
        np.empty(0),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        np.empty(0),
    )


def _error(name, line, problem, text):
    whole = text.split(b"\n")[0]
    # a number that is missing at the end of a line leaves no word to show
    words = text.split(maxsplit=1)
    text = whole if problem == loops.TOO_LONG or not words else words[0]
    shown = text[:EXCERPT].decode("utf-8", "backslashreplace")
    return ValueError(
        f"{name}, line {line}: {PROBLEMS[problem]}; got {shown!r}{' …' * (len(text) >= EXCERPT)}."
    )
