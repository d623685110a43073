"""Tables of any kind, and columns of strings and categories as codes: learned in training, the same
in prediction whatever a new frame looks like.

Data frames of pandas and polars are read through narwhals: nothing here asks whose they are.
"""

from functools import cached_property

import narwhals as nw
import numpy as np

from ...kernels.base import NumberedColumns
from ...kernels.points import is_sparse

PLAIN = (str, int, float, bool)
CATEGORIES = (nw.Categorical, nw.Enum)
DATES = (nw.Date, nw.Datetime)
MILLISECONDS = 86_400_000  # of a day
WORDS = (nw.String, nw.Object, nw.Unknown)  # types of columns that may hold strings


def as_table(X):
    """X with two dimensions and with entries as they are, where NumPy would make strings of numbers
    beside strings.

    A list, array or series of strings becomes one column, tensors of PyTorch and arrays of CuPy
    come to the host, an AnnData becomes `Annotated`; everything else stays what it is.
    """
    X = on_host(X)
    if isinstance(X, Annotated):
        return X
    seen = through_narwhals(X)
    if is_sparse(X) or isinstance(seen, nw.DataFrame):
        return X
    if is_annotated(X):
        return as_annotated(X)
    if isinstance(seen, nw.Series):
        return seen.to_frame().to_native() if _holds_strings(seen.to_list()) else X
    if isinstance(X, (list, tuple)):
        X = _list_as_table(X)
    if isinstance(X, np.ndarray) and X.ndim == 1 and _array_of_strings(X):
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


def through_narwhals(X):
    """A frame or series of any library as narwhals shows it; anything else as it is."""
    return nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)


def column_types(X):
    """The narwhals types of the columns of a frame, or of a series; None for anything else."""
    seen = through_narwhals(X)
    if isinstance(seen, nw.DataFrame):
        return seen.schema.dtypes()
    return [seen.dtype] if isinstance(seen, nw.Series) else None


def column_names(X):
    """Names of the columns, ``x0``, ``x1`` … where X is no data frame of named columns."""
    seen = through_narwhals(X)
    if isinstance(seen, nw.DataFrame) and all(isinstance(name, str) for name in seen.columns):
        return list(seen.columns)
    return NumberedColumns(X.shape[1])


def dates_as_days(X):
    """X with days since 1970-01-01 in the place of dates and times of a day, and the names of their
    columns; only data frames have some.
    """
    frame = through_narwhals(X)
    if not isinstance(frame, nw.DataFrame):
        return X, []
    dates = [name for name, type_ in frame.schema.items() if type_ in DATES]
    if not dates:
        return X, []
    days = [
        nw.col(name).cast(nw.Datetime("us")) if frame.schema[name] == nw.Date else nw.col(name)
        for name in dates
    ]
    days = [day.dt.timestamp("ms").cast(nw.Float64) / MILLISECONDS for day in days]
    return frame.with_columns(*days).to_native(), dates


def learned_categories(X, types=None, missing="error"):
    """The distinct entries, in order, of every column that holds strings or categories.

    Parameters
    ----------
    X : array, sparse matrix or data frame
    types : list, optional
        Its `column_types`, where they are known already.
    missing : {"error", "impute", "mean", "scaled"}
        What becomes of missing entries; "impute" makes them a category, the empty string.

    Returns
    -------
    dict from name to list of str, int, float or bool
        Other entries, such as intervals, by their names.
    """
    if (
        is_sparse(X)
        or isinstance(X, Annotated)
        or len(getattr(X, "shape", ())) != 2
        or _plain_numbers(X)
    ):
        return {}
    names, seen = column_names(X), through_narwhals(X)
    chosen = _categorical(seen, column_types(X) if types is None else types)
    entries = {names[f]: set(_entries(seen, f, names[f], missing)) - {None} for f in chosen}
    return {name: sorted(some, key=_order) for name, some in entries.items()}


def _order(entry):
    """Numbers before strings."""
    return isinstance(entry, str), entry


def _plain_numbers(X):
    """Whether X is an array of numbers."""
    return isinstance(X, np.ndarray) and X.dtype.kind not in "OUT"


def _categorical(X, types):
    """The columns that hold strings or categories; columns of numbers are not looked at."""
    if types is None:
        return [f for f in range(X.shape[1]) if _array_of_strings(np.asarray(X[:, f]))]
    return [
        f
        for f, type_ in enumerate(types)
        if type_ in CATEGORIES or (type_ in WORDS and _holds_strings(X[:, f].to_list()))
    ]


def _array_of_strings(values):
    return values.dtype.kind in "UT" or (values.dtype.kind == "O" and _holds_strings(values.flat))


def _holds_strings(values):
    return any(isinstance(value, str) for value in values)


def encoded(X, categories, names, missing="error"):
    """X as numbers, with codes in the columns that hold categories.

    Parameters
    ----------
    X : array or data frame
    categories : dict from name to list
    names : sequence of str
        What the columns were called in training.
    missing : str
        As for `learned_categories`.

    Returns
    -------
    codes : (n, n_features) array
        Entries that are not among the categories have codes beyond them, missing ones are NaN.
    known : dict from name to list
        The categories, followed by those entries.
    """
    X = through_narwhals(X)
    codes, known = np.empty((X.shape[0], len(names))), {}
    numeric = [f for f, name in enumerate(names) if name not in categories]
    for f, name in enumerate(names):
        if name in categories:
            entries = _entries(X, f, name, missing)
            there = [entry for entry in entries if entry is not None]
            known[name] = list(dict.fromkeys([*categories[name], *there]))
            place = {entry: code for code, entry in enumerate(known[name])} | {None: np.nan}
            codes[:, f] = [place[entry] for entry in entries]
    if numeric:
        codes[:, numeric] = _numbers(X, numeric, names)
    return codes, known


def _entries(X, f, name, missing):
    """Entries of a column as plain values, None where they are missing, or an empty string if
    that is a category; raise if none may be missing.
    """
    column = X[:, f]
    holes = missing_in(column)
    if holes.any() and missing == "error":
        raise ValueError(
            f"Column {name!r} has missing values in {np.count_nonzero(holes)} of {len(column)} "
            "rows; drop these rows, or make 'missing' a category of its own (missing='impute')."
        )
    absent = "" if missing == "impute" else None
    values = column.to_list() if isinstance(column, nw.Series) else column.tolist()
    return [
        absent if hole else _plain(value)
        for value, hole in zip(values, holes.tolist(), strict=True)
    ]


def _plain(value):
    """A value that JSON can store and that is equal to itself when it is read again."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, PLAIN) else str(value)


def missing_in(column):
    """Whether each entry of a column, a narwhals series or an array, is missing: (n,) of bool."""
    if isinstance(column, nw.Series):
        missing = column.is_null().to_numpy()
        return missing | np.isnan(column.to_numpy()) if column.dtype.is_float() else missing
    if column.dtype.kind == "f":
        return np.isnan(column)
    if column.dtype.kind != "O":
        return np.zeros(column.shape, dtype=bool)
    return np.frompyfunc(_is_missing, 1, 1)(column).astype(bool)


def _is_missing(value):
    """Whether an entry is None, NaN, or one of pandas' ways to say so."""
    return (
        value is None
        or (isinstance(value, float) and value != value)
        or type(value).__name__ in ("NAType", "NaTType")
    )


def _numbers(X, chosen, names):
    """Some columns as numbers; raise and name the column if one holds something else."""
    try:
        part = X[:, chosen]
        return np.asarray(part.to_numpy() if isinstance(part, nw.DataFrame) else part, dtype=float)
    except (TypeError, ValueError) as error:
        if len(chosen) > 1:
            return np.column_stack([_numbers(X, [f], names) for f in chosen])
        holes = missing_in(X[:, chosen[0]])
        if holes.any():  # pandas' NA is no number
            values = np.full((len(holes), 1), np.nan)
            values[~holes] = _numbers(X[np.flatnonzero(~holes).tolist()], chosen, names)
            return values
        raise ValueError(f"Column {names[chosen[0]]!r} must hold numbers: {error}") from None


def data_frame(columns, backend):
    """A mapping of columns as a DataFrame of pandas or polars."""
    if backend not in ("pandas", "polars"):
        raise ValueError(f"backend={backend!r} is not known; use 'pandas' or 'polars'.")
    try:
        frame = nw.from_dict(
            {name: list(values) for name, values in columns.items()}, backend=backend
        )
    except ImportError as error:
        raise ImportError(
            f"A frame of {backend} needs {backend}: install it (pandas comes with "
            "manykernels[frames]), or name the other backend."
        ) from error
    return frame.to_native()


def rows_of(X, chosen):
    """Some rows; a data frame stays one, since kernels may name its columns."""
    if hasattr(X, "iloc"):
        return X.iloc[chosen]
    return X[chosen] if hasattr(X, "shape") else np.asarray(X)[chosen]


# --- tables that carry the names of rows and columns, such as AnnData -----------------------------


class Annotated:
    """Numbers with named columns: a data frame that may be sparse.

    Parameters
    ----------
    matrix : (n, n_features) array or sparse matrix
    names : (n_features,) array of str
    """

    def __init__(self, matrix, names):
        self.matrix, self.names = matrix, names

    @property
    def shape(self):
        return self.matrix.shape

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return Annotated(self.matrix[rows], self.names)

    @cached_property
    def header(self):
        """A data frame of these columns without rows, of which scikit-learn learns their names."""
        import pandas as pd  # which whoever made the names has

        return pd.DataFrame(np.empty((0, len(self.names))), columns=pd.Index(self.names))


def is_annotated(X):
    """Whether X is an AnnData or looks like one; raise for a MuData, which is several."""
    if not (hasattr(X, "obs_names") and hasattr(X, "var_names")):
        return False
    if hasattr(X, "mod"):
        raise TypeError(
            "A MuData is several tables: make one of them with manykernels.omics.views(mdata), and "
            "give that."
        )
    return True


def as_annotated(X):
    """The matrix ``X`` of an AnnData, in memory, with its ``var_names``."""
    if X.X is None:
        raise ValueError(
            "This AnnData has no X; put the numbers there, or choose layers or obsm with "
            "manykernels.omics.views."
        )
    return Annotated(in_memory(X.X), unique_names(X.var_names, "var_names"))


def in_memory(matrix):
    """A matrix that may lie in a file as an array or a CSR array."""
    if hasattr(matrix, "to_memory"):  # anndata's sparse matrices in files
        matrix = matrix.to_memory()
    elif type(matrix).__module__.split(".")[0] in ("h5py", "zarr"):
        matrix = matrix[...]
    if not is_sparse(matrix):
        return np.asarray(matrix)
    from scipy import sparse

    return sparse.csr_array(matrix)


def unique_names(names, what):
    """Names as an array of str; raise if one comes twice, which would make it ambiguous."""
    names = np.array([str(name) for name in names], dtype=object)
    distinct, counts = np.unique(names.astype(str), return_counts=True)
    twice = distinct[counts > 1].tolist()
    if twice:
        listed = ", ".join(map(repr, twice[:5])) + (" …" if len(twice) > 5 else "")
        raise ValueError(
            f"{what} must be unique, but {len(twice)} come more than once: {listed}; rename them, "
            f"with {what}_make_unique() for one."
        )
    return names
