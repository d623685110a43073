"""Data of any kind of file, by the ending of its name."""

import csv
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib import format as npy

from .._callers import user_stacklevel
from .compressed import OPENERS, opened

SEPARATORS = {".csv": ",", ".tsv": "\t"}
OTHERS = (";", "\t", ",")  # separators that files may have in the place of the ending's
HEADER = 2**24  # bytes of the first line that are looked at
# a number with a comma in the place of the point, and points between thousands if there are some
COMMA = re.compile(r"\s*[+-]?(\d+,\d*|,\d+|\d{1,3}(\.\d{3})+,\d*)([eE][+-]?\d+)?\s*")
MARKS = ("?", "-", "--", ".", "n.a.", "unknown", "missing")  # what stands for missing numbers
WIDE = (b"\xff\xfe", b"\xfe\xff")  # how text in UTF-16 begins
LIBSVM = (".libsvm", ".svm", ".svmlight", ".txt")
ENDINGS = (*SEPARATORS, ".parquet", ".npz", *LIBSVM)


class Data(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    X : DataFrame (CSV, Parquet), csr_array (LIBSVM, sparse NPZ) or array
    y : (n_samples,) array, or None where there is no target
    feature_names : list of str, or None
    target : str or None
        The name of the column that became y.
    zero_based : bool or None
        For LIBSVM text, whether its first feature has the index 0.
    dates : dict or None
        How dates are written, by column.
    """

    X: Any
    y: np.ndarray | None
    feature_names: list | None = None
    target: str | None = None
    zero_based: bool | None = None
    dates: dict | None = None


def read_table(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    has_target: bool = True,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    dates: Mapping[str, str] | None = None,
) -> Data:
    """Rows and targets of a file.

    Parameters
    ----------
    path : path
        ``.csv`` and ``.tsv`` (with a header line; columns separated by what separates most names
        there, of comma, semicolon and tab), ``.parquet``, ``.npz`` (arrays X and y), or
        LIBSVM text (``.libsvm``, ``.svm``, ``.svmlight``, ``.txt``). Text is UTF-8, and may be
        compressed, with a further ``.gz`` or ``.bz2``.
    target : str, optional
        The column of CSV or Parquet that is y; the last one by default.
    has_target : bool
        If False, all columns of CSV or Parquet are features, but for the target if it is named and
        there; y is None if some of its entries are missing. Of other files, y is read where it is
        there.
    n_features, zero_based : for LIBSVM text, see `read_libsvm`
    columns, drop : sequences of str, optional
        The columns of CSV or Parquet that are features, and those that are not; what is in others
        does not matter.
    dates : mapping from column to str, optional
        How dates are written: the ``dates`` of an earlier table, for others like it. By default
        every column is looked at.

    Returns
    -------
    Data
        Columns of text or categories stay as they are, but for dates, which become days since
        1970-01-01. Where semicolons or tabs separate columns, one in which numbers are written
        with decimal commas (``1,5`` or ``1.234,5``), and none with a decimal point, is a column of
        numbers. Marks such as ``?`` in a column of numbers are missing ones. Warnings name such
        columns.

    Raises
    ------
    FileNotFoundError, ValueError
        With the file, and the line or column that is in trouble.
    ImportError
        Where pandas or pyarrow is needed and not there.
    """
    path = os.fspath(path)
    ending = _ending(path)
    _check_file(path, ending, target, [*(columns or ()), *drop])
    if ending in LIBSVM:
        from .libsvm import load_libsvm  # with compiled loops

        contents = load_libsvm(path, n_features=n_features, zero_based=zero_based)
        data = Data(contents.X, contents.y, zero_based=contents.zero_based)
    elif ending == ".npz":
        data = Data(*read_archive(path))
    else:
        is_text = ending in SEPARATORS
        frame, separator = _read_text(path, ending) if is_text else (_read_parquet(path), "")
        frame, target = _chosen(frame, target, has_target, columns, drop, path)
        frame = _with_numbers(frame, separator, path) if is_text else frame
        data = _split(frame, target, has_target, path)
        X, dates = _with_days(data.X, dates, path)
        data = data._replace(X=X, dates=dates)
    return _checked(data, has_target, path)


def _with_days(frame, dates, path):
    from .dates import with_days  # which needs pandas, as this frame did

    return with_days(frame, dates, path)


def _check_file(path, ending, target, columns):
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no file {path}.")
    if os.path.getsize(path) == 0:
        raise ValueError(f"{path} is empty.")
    if ending in (*SEPARATORS, ".parquet"):
        return
    if target is not None:
        raise ValueError(
            f"{path} has no named columns, so its target cannot be {target!r}; leave the target "
            "out."
        )
    if columns:
        raise ValueError(
            f"{path} has no named columns to choose from, such as {columns[0]!r}; leave these out."
        )


def _ending(path):
    stem, ending = os.path.splitext(path.lower())
    if ending in OPENERS:
        inner = os.path.splitext(stem)[1]
        ending = inner if inner in (*SEPARATORS, *LIBSVM) else ending
    if ending not in ENDINGS:
        raise ValueError(
            f"{path}: files that end in {ending or 'nothing'} are not known; use "
            f"{', '.join(ENDINGS)} "
            "(text also with a further .gz or .bz2)."
        )
    return ending


def _pandas(path):
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pandas: install pandas, or manykernels[frames]."
        ) from error
    return pd


def _separator(file, usual):
    """What separates the most names in the first line of a file, and as many entries in the second
    if something does; of equals that of the ending.
    """
    names, entries = (file.readline(HEADER).decode("utf-8-sig", "replace") for _ in range(2))
    file.seek(0)
    found = {separator: _count(names, separator) for separator in (usual, *OTHERS)}
    fits = {one: count for one, count in found.items() if count == _count(entries, one)}
    found = found if max(fits.values(), default=1) == 1 else fits
    return max(found, key=lambda separator: found[separator])


def _count(line, separator):
    """How many names a line has; one if they would be too long."""
    try:
        return len(next(csv.reader([line], delimiter=separator), []))
    except csv.Error:
        return 1


def _without_marks(frame, commas, path):
    """The frame with missing numbers in the place of marks such as ``?``, in columns that hold
    numbers otherwise; a warning says which columns these are.
    """
    changed = []
    for name in frame.columns:
        if frame[name].dtype.kind in "fiub":
            continue
        words = frame[name].dropna().astype(str)
        marks = words.str.strip().str.lower().isin(MARKS)
        rest = words[~marks]
        if not marks.any() or not len(rest):
            continue
        plain = all(map(_is_number, rest))
        if plain or (commas and all(_is_number(word) or _has_comma(word) for word in rest)):
            frame[name] = (rest.astype(float) if plain else rest).reindex(frame.index)
            changed.append(name)
    if changed:
        warnings.warn(
            f"{path}: marks such as '?' in the place of numbers are read as missing ones, in "
            f"{_some(changed)}.",
            stacklevel=user_stacklevel(),
        )
    return frame


def _with_points(frame, path):
    """The frame with numbers in the place of texts like ``1,5``, as they are written where
    semicolons or tabs separate columns; a warning says which columns these are.
    """
    changed = []
    for name in frame.columns:
        words = frame[name].dropna()
        if frame[name].dtype.kind in "fiub" or not len(words):
            continue
        commas = [_has_comma(word) for word in words]
        others = [str(word) for word, comma in zip(words, commas, strict=True) if not comma]
        if any(commas) and all(_is_number(word) and "." not in word for word in others):
            numbers = words.map(lambda word: float(str(word).replace(".", "").replace(",", ".")))
            frame[name] = numbers.reindex(frame.index)
            changed.append(name)
    if changed:
        warnings.warn(
            f"{path}: numbers are written with decimal commas, and read as such (1,5 is 1.5), in "
            f"{_some(changed)}.",
            stacklevel=user_stacklevel(),
        )
    return frame


def _has_comma(word):
    return COMMA.fullmatch(str(word)) is not None


def _read_text(path, ending):
    """The frame of a text, and what separates its columns."""
    pd = _pandas(path)
    try:
        with opened(path) as file, warnings.catch_warnings():
            separator = _separator(file, SEPARATORS[ending])
            # lines longer than the header would lose their last fields
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame = pd.read_csv(
                file, sep=separator, index_col=False, low_memory=False, **_exactly(pd)
            )
    except UnicodeDecodeError as error:
        raise ValueError(_encoding_trouble(path)) from error
    except (pd.errors.ParserWarning, ValueError) as error:  # pandas' own errors are ValueErrors
        raise ValueError(
            f"{path} is not a table with one name in its header for every column: "
            f"{str(error).strip()}"
        ) from error
    _refuse_numbers_as_header(frame, path)
    return frame, separator


def _with_numbers(frame, separator, path):
    """The frame with decimal points where numbers had commas, and nothing where a mark says that
    they are missing; raise for numbers among words.
    """
    frame = _without_marks(frame, separator != ",", path)
    frame = frame if separator == "," else _with_points(frame, path)
    for name in frame.columns:
        _refuse_mixed(frame[name], path, commas=separator != ",")
    return frame


def _encoding_trouble(path):
    """What to say of text that is not UTF-8: the first line with such bytes, and what to do."""
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                wide = number == 1 and line.startswith(WIDE)
                name = "UTF-16" if wide else "ISO-8859-1"
                known = "it begins as UTF-16 does" if wide else "it may be Latin-1 (ISO-8859-1)"
                return (
                    f"{path} is not UTF-8 text: line {number} holds the byte "
                    f"0x{line[error.start]:02x}; {known}. Save it as UTF-8, such as with  "
                    f"iconv -f {name} -t UTF-8"
                )
    return f"{path} is not UTF-8 text; save it as such."


def _exactly(pd):
    """What makes pandas read the nearest number: its default from version 3.1 on."""
    version = tuple(int(part) for part in pd.__version__.split(".")[:2])
    return {} if version >= (3, 1) else {"float_precision": "round_trip"}


def _refuse_numbers_as_header(frame, path):
    if frame.shape[1] and all(_is_number(name) or _has_comma(name) for name in frame.columns):
        raise ValueError(
            f"{path} must begin with a line of column names, but that line holds numbers: "
            f"{_some(frame.columns)}."
        )


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _refuse_mixed(column, path, commas):
    """Raise for a column of numbers with a few words in it, which would silently become a column of
    categories. Numbers may have decimal commas where columns are not separated by these.
    """
    if column.dtype.kind in "fiub":
        return
    words = column.dropna()
    numeric = np.array([_is_number(word) for word in words], dtype=bool)
    if commas:
        with_comma = np.array([_has_comma(word) for word in words], dtype=bool)
        _refuse_both_marks(column.name, words, with_comma, numeric, path)
        numeric |= with_comma
    if 0 < numeric.size < 2 * np.count_nonzero(numeric) and not numeric.all():
        row, word = words.index[~numeric][0], words[~numeric].iloc[0]
        raise ValueError(
            f"{path}: column {column.name!r} mixes numbers with text, such as {word!r} in row "
            f"{row + 1}; leave missing numbers "
            "empty, or write all entries as text."
        )


def _refuse_both_marks(name, words, with_comma, plain, path):
    """Raise for a column of numbers of which some have a decimal comma and some a point."""
    if not with_comma.any() or not (with_comma | plain).all():
        return
    points = words[~with_comma & ["." in str(word) for word in words]]
    if len(points):
        raise ValueError(
            f"{path}: column {name!r} has numbers with a decimal comma and with a decimal point, "
            f"such as {words[with_comma].iloc[0]!r} and {points.iloc[0]!r} in row "
            f"{points.index[0] + 1}; write all of them in one way."
        )


def _read_parquet(path):
    pd = _pandas(path)
    try:
        return pd.read_parquet(path)
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs pyarrow: install pyarrow, or manykernels[all]."
        ) from error
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error


def _chosen(frame, target, has_target, columns, drop, path):
    """The features of a frame that are wanted, with the target if it is there, and its name."""
    names = [str(name) for name in frame.columns]
    frame.columns = names
    if target is None and has_target:
        target = names[-1] if names else None
    if has_target and target not in names:
        raise ValueError(f"{path} has no column {target!r} for the target; it has {_some(names)}.")
    absent = [name for name in (*(columns or ()), *drop) if name not in names]
    if absent:
        raise ValueError(f"{path} lacks the columns {_some(absent)}; it has {_some(names)}.")
    if target in drop or target in (columns or ()):
        raise ValueError(f"{path}: {target!r} is the target; name another with target.")
    wanted = set(names if columns is None else columns) - set(drop) | {target}
    return frame[[name for name in names if name in wanted]], target


def _split(frame, target, has_target, path):
    """The frame without its target column, and that column."""
    if target not in frame.columns:
        return Data(frame, None, list(frame.columns))
    X, missing = frame.drop(columns=target), frame[target].isna().to_numpy()
    if has_target and missing.any():
        raise ValueError(
            f"{path}: the target {target!r} is missing in row {int(missing.argmax()) + 1}, and in "
            f"{np.count_nonzero(missing)} rows in all; remove these rows."
        )
    y = None if missing.any() else frame[target].to_numpy()
    return Data(X, y, list(X.columns), target)


def _checked(data, has_target, path):
    if data.X.shape[0] == 0:
        raise ValueError(f"{path} has no rows.")
    if data.X.shape[1] == 0:
        raise ValueError(
            f"{path} has no features: one column alone was found, the target. Columns are "
            "separated by commas, semicolons or tabs."
        )
    if has_target and data.y is None:
        raise ValueError(f"{path} has no target y.")
    return data


def _some(names, most=10):
    names = list(map(repr, names))
    return ", ".join(names[:most]) + (f" … ({len(names)} in all)" if len(names) > most else "")


# --- arrays in NumPy's ``.npz`` archives ----------------------------------------------------------


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
        from scipy import sparse

        X = sparse.csr_array((data, indices, indptr), shape=tuple(int(size) for size in shape))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no valid CSR matrix: {error}") from error
    return X
