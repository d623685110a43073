"""Columns of strings and categories as codes: learned in training, the same in prediction whatever
a new frame looks like.
"""

import numpy as np
from scipy import sparse

PLAIN = (str, int, float, bool)
CATEGORICAL = ("category", "categorical", "enum")


def as_table(X):
    """X with two dimensions and with entries as they are, where NumPy would make strings of numbers
    beside strings.

    A list, array or series of strings becomes one column, tensors of PyTorch and arrays of CuPy
    come to the host; everything else stays what it is.
    """
    X = on_host(X)
    if sparse.issparse(X) or hasattr(X, "columns"):
        return X
    if hasattr(X, "to_frame"):
        return X.to_frame() if _holds_strings(np.asarray(X)) else X
    if isinstance(X, (list, tuple)):
        X = _list_as_table(X)
    if isinstance(X, np.ndarray) and X.ndim == 1 and _holds_strings(X):
        return X.astype(object)[:, None]
    return X


def _list_as_table(X):
    try:
        return np.asarray(X, dtype=object) if np.asarray(X).dtype.kind in "UT" else X
    except ValueError:  # rows of different lengths: whoever checks X says so
        return X


def on_host(array):
    """A tensor of PyTorch or an array of CuPy as a NumPy array; anything else as it is."""
    if type(array).__module__.split(".")[0] not in ("torch", "cupy"):
        return array
    return array.detach().cpu().numpy() if hasattr(array, "detach") else array.get()


def column_names(X):
    """Names of the columns, ``x0``, ``x1`` … where X is no data frame of named columns."""
    if hasattr(X, "columns") and all(isinstance(name, str) for name in X.columns):
        return list(X.columns)
    return [f"x{f}" for f in range(X.shape[1])]


def learned_categories(X):
    """The distinct entries, in order, of every column that holds strings or categories.

    Returns
    -------
    dict from name to list of str, int, float or bool
        Other entries, such as intervals, by their names.
    """
    if sparse.issparse(X) or len(getattr(X, "shape", ())) != 2 or _plain_numbers(X):
        return {}
    names = column_names(X)
    chosen = [f for f in _candidates(X) if _categorical(_columns(X, f))]
    return {names[f]: sorted(set(_entries(X, f, names[f])), key=_order) for f in chosen}


def _order(entry):
    """Numbers before strings."""
    return isinstance(entry, str), entry


def encoded(X, categories, names):
    """X as numbers, with codes in the columns that hold categories.

    Parameters
    ----------
    X : array or data frame
    categories : dict from name to list
    names : sequence of str
        What the columns were called in training.

    Returns
    -------
    codes : (n, n_features) array
        Entries that are not among the categories have codes beyond them.
    known : dict from name to list
        The categories, followed by those entries.
    """
    codes, known = np.empty((X.shape[0], len(names))), {}
    numeric = [f for f, name in enumerate(names) if name not in categories]
    for f, name in enumerate(names):
        if name in categories:
            entries = _entries(X, f, name)
            known[name] = list(dict.fromkeys([*categories[name], *entries]))
            place = {entry: code for code, entry in enumerate(known[name])}
            codes[:, f] = [place[entry] for entry in entries]
    if numeric:
        codes[:, numeric] = _numbers(X, numeric, names)
    return codes, known


def _plain_numbers(X):
    """Whether X is an array of numbers."""
    return isinstance(X, np.ndarray) and X.dtype.kind not in "OUT"


def _columns(X, chosen):
    """One column, or a table of several."""
    return X.iloc[:, chosen] if hasattr(X, "iloc") else X[:, chosen]


def _candidates(X):
    """Columns that may hold strings or categories: of a frame of many numbers, few need to be
    looked at.
    """
    if not hasattr(X, "dtypes"):
        return range(X.shape[1])
    return [f for f, dtype in enumerate(X.dtypes) if getattr(dtype, "kind", "O") == "O"]


def _categorical(column):
    return str(getattr(column, "dtype", "")).lower().startswith(CATEGORICAL) or _holds_strings(
        np.asarray(column)
    )


def _holds_strings(values):
    return values.dtype.kind in "UT" or (
        values.dtype.kind == "O" and any(isinstance(value, str) for value in values.flat)
    )


def _entries(X, f, name):
    """Entries of a column as plain values; raise if some are missing."""
    values = np.asarray(_columns(X, f)).tolist()
    missing = sum(map(is_missing, values))
    if missing:
        raise ValueError(
            f"Column {name!r} has missing values in {missing} of {len(values)} rows; drop these "
            "rows, or make 'missing' a "
            "category of its own."
        )
    return [_plain(value) for value in values]


def _plain(value):
    """A value that JSON can store and that is equal to itself when it is read again."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, PLAIN) else str(value)


def is_missing(value):
    """Whether an entry is None, NaN, or one of pandas' ways to say so."""
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _numbers(X, chosen, names):
    """Some columns as numbers; raise and name the column if one holds something else."""
    try:
        part = _columns(X, chosen)
        return (
            part.to_numpy(dtype=float, na_value=np.nan)
            if hasattr(X, "iloc")
            else np.asarray(part, dtype=float)
        )
    except ValueError as error:
        if len(chosen) == 1:
            raise ValueError(f"Column {names[chosen[0]]!r} must hold numbers: {error}") from None
        return np.column_stack([_numbers(X, [f], names) for f in chosen])
