"""From what users call X to arrays of numbers, and advice where a group of columns is missing or
has missing values.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from ..._callers import user_stacklevel
from ...banks import MissingBank
from ...banks.views import listed_rows
from ...kernels import KernelCollection
from ...kernels.base import NumberedColumns, resolve_features
from ...kernels.points import check_width
from ..checks import refuse_odd_arrays
from . import units
from .frames import (
    CATEGORIES,
    WORDS,
    Annotated,
    as_table,
    column_types,
    dates_as_days,
    encoded,
    learned_categories,
    missing_in,
    on_host,
    rows_of,
    through_narwhals,
)
from .plain import plain_rows


@dataclass(frozen=True)
class ReadTable:
    """A table that an estimator has read, for others like it.

    Attributes
    ----------
    given : table as it was given
    X : checked points
    y : checked targets
    learned : dict
        What the estimator knows of the columns.
    """

    given: Any
    X: Any
    y: np.ndarray
    learned: dict[str, Any]

    @classmethod
    def read(cls, estimator: Any, X: Any, y: Any) -> "ReadTable":
        """Have an estimator read a table; one that was read stays as it is."""
        if isinstance(X, cls):
            return X
        points, targets = estimator._check_data(X, y)
        names = ("n_features_in_", "feature_names_in_", "categories_", "date_columns_")
        learned = {name: vars(estimator)[name] for name in names if name in vars(estimator)}
        return cls(X, points, targets, learned)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.X.shape

    def __len__(self) -> int:
        return self.X.shape[0]

    def rows(self, chosen: np.ndarray) -> "ReadTable":
        """Some of the rows."""
        given = as_table(self.given)
        given = rows_of(given.tocsr() if sparse.issparse(given) else given, chosen)
        return replace(self, given=given, X=self.X[chosen], y=self.y[chosen])


class ReadsTables:
    """Checks X and y, and turns strings and categories into codes that are the same in training and
    prediction.
    """

    def _read(self, X, y="no_validation", **options):
        """X, and y if there is one, as checked arrays; strings and categories in X become codes."""
        if isinstance(X, ReadTable):
            vars(self).pop("feature_names_in_", None)
            vars(self).update(X.learned)
            return X.X, X.y
        X, y = as_table(X), on_host(y)
        X, dates = dates_as_days(X)
        _tell_dates(dates)
        types = column_types(X)
        refuse_odd_arrays("X", X, types)
        refuse_odd_arrays("y", y)
        categories = learned_categories(X, types, self.missing)
        out = self._validated(X, y, categories, self.missing, **options)[0]
        self.categories_, self.date_columns_ = categories, dates
        return out

    def _read_new(self, X, in_units=True):
        """New points as the kernels see them, or before that in their own units, and the entries
        that codes in them stand for, by column.
        """
        plain = None if isinstance(self.bank_, MissingBank) else plain_rows(self, X)
        if plain is not None:
            X, known = plain
            return (units.in_units(self, X) if in_units else X), known
        X, dates = dates_as_days(as_table(X))
        _check_dates(X, dates, getattr(self, "date_columns_", []))
        refuse_odd_arrays("X", X)
        categories, lacking = getattr(self, "categories_", {}), isinstance(self.bank_, MissingBank)
        rule = self.bank_.views.rule if lacking else "error"
        rule = "impute" if hasattr(self, "feature_medians_") else rule
        X, known = self._validated(X, "no_validation", categories, rule, reset=False)
        if lacking:
            _warn_of_empty(self.bank_.views.presence(X))
        return (units.in_units(self, X) if in_units else X), known

    def _validated(self, X, y, categories, missing, reset=True, **options):
        """What scikit-learn makes of X and y, and the entries that codes stand for; errors say
        which group is in trouble. Where rows may be lacking something, that is NaN.
        """
        lacking = missing != "error"
        options |= {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        annotated = isinstance(X, Annotated)
        table = X.matrix if annotated else X
        if sparse.issparse(table):
            check_width(table)
        if lacking and not sparse.issparse(table):
            options["ensure_all_finite"] = "allow-nan"
        elif lacking and np.isnan(sparse.csr_array(table).data).any():
            raise ValueError(
                f"Rows of a sparse table lack values: rules such as missing={missing!r} need a "
                "dense one (X.toarray())."
            )
        try:
            if not (categories or annotated):
                return validate_data(self, X, y, reset=reset, **options), {}
            named, numbers, known = (X.header, X.matrix, {}) if annotated else (X, X, {})
            validate_data(self, named, y, reset=reset, skip_check_array=True)
            if categories:
                numbers, known = encoded(numbers, categories, self._column_names(), missing)
                known = self._by_column(known)
            if isinstance(y, str) and y == "no_validation":
                return check_array(numbers, estimator=self, input_name="X", **options), known
            return check_X_y(numbers, y, estimator=self, **options), known
        except ValueError as error:
            names = getattr(self, "feature_names_in_", None)
            text, advice = str(error), _advice(self.kernels, X, names, lacking)
            if "X contains NaN" in text:  # scikit-learn's next lines name other estimators
                text = text.splitlines()[0]
                advice = advice or _advice_without_groups(X, names)
            raise ValueError(f"{text}{advice}") from error

    def _by_column(self, categories):
        """Categories by the number of their column in place of its name."""
        if not categories:
            return {}
        return {
            f: categories[name] for f, name in enumerate(self._column_names()) if name in categories
        }

    def _column_names(self):
        names = getattr(self, "feature_names_in_", None)
        return NumberedColumns(self.n_features_in_) if names is None else list(names)


def _tell_dates(dates):
    """Warn that columns of dates become numbers."""
    if dates:
        warnings.warn(
            f"Dates are read as days since 1970-01-01, in {_listed(dates)}.",
            stacklevel=user_stacklevel(),
        )


def _check_dates(X, found, learned):
    """Raise if a column holds dates that were none in training, or words where dates were; days
    will do for dates.
    """
    frame = through_narwhals(X)
    for name, type_ in frame.schema.items() if isinstance(frame, nw.DataFrame) else ():
        if name in found and name not in learned:
            raise ValueError(f"Column {name!r} held no dates in training, and holds dates now.")
        if name in learned and type_ in (*WORDS, *CATEGORIES):
            raise ValueError(
                f"Column {name!r} held dates in training, and holds words now: give dates, such as "
                "pandas.to_datetime makes, or days since 1970-01-01."
            )


def _warn_of_empty(presence):
    """Warn of rows of which nothing is known."""
    empty = np.flatnonzero(~presence.any(axis=1))
    if empty.size:
        warnings.warn(
            f"Nothing is known of {listed_rows(empty, len(presence))}, which lack every view: "
            "they are predicted as the mean of all views is.",
            stacklevel=user_stacklevel(),
        )


def _advice(kernels, X, names, lacking):
    """Words for an error about X: what is missing of which group of columns; nothing if that is not
    the trouble.

    Parameters
    ----------
    kernels : as estimators take them
    X : array, sparse matrix, data frame or Annotated
    names : sequence of str, optional
        Of the columns that there should be.
    lacking : bool
        Whether rows may lack whole groups.
    """
    frame = X.header if isinstance(X, Annotated) else X
    X = X.matrix if isinstance(X, Annotated) else X
    grouped = isinstance(kernels, Mapping) or (
        isinstance(kernels, KernelCollection) and any(kernels.groups)
    )
    if not grouped or len(getattr(X, "shape", ())) != 2:
        return ""
    names = None if names is None else list(map(str, names))
    groups = _group_columns(kernels, X.shape[1] if names is None else len(names), names)
    absent = _absent(groups, frame, names)
    lines = absent or ([] if lacking else _incomplete(groups, X, names))
    if not lines:
        return ""
    what = "impute the values (missing='impute'), drop these rows"
    if absent:
        what = "give these columns" + (", NaN where they are missing" if lacking else "")
    elif any("of them all" in line for line in lines):
        what += ", allow whole groups to be missing (missing='mean')"
    return (
        f"\n{' '.join(lines)}\nEvery kernel needs its columns: {what}, or train without the group."
    )


def _advice_without_groups(X, names):
    """Words for missing values where no groups of columns are named: where they are, what to do."""
    missing = _missing(X.matrix if isinstance(X, Annotated) else X)
    rows = np.count_nonzero(np.asarray(missing.sum(axis=1)))
    columns = np.count_nonzero(np.asarray(missing.sum(axis=0)))
    places = _places(missing, range(missing.shape[1]), names)
    return (
        f"\n{rows} of {missing.shape[0]} rows and {columns} of {missing.shape[1]} columns have "
        f"missing values ({places}): impute them (missing='impute', or scikit-learn's "
        "SimpleImputer in a pipeline) or drop these rows. If rows lack whole groups of columns, "
        "name the groups (kernels=on_groups({...})) and allow that (missing='mean')."
    )


def _group_columns(kernels, n_features, names):
    """The columns that the kernels of each named group see, as dict from group to ascending
    indices.
    """
    bank, groups = KernelCollection(kernels), {}
    for kernel, group in zip(bank.kernels, bank.groups, strict=True):
        try:
            columns = resolve_features(kernel.features, n_features, names)
        except ValueError:
            continue  # the bank says so
        if group:
            groups.setdefault(group, set()).update(
                range(n_features) if columns is None else columns.tolist()
            )
    return {group: sorted(columns) for group, columns in groups.items()}


def _absent(groups, X, names):
    """A line for each group of which X, a data frame, lacks columns."""
    frame = through_narwhals(X)
    if names is None or not isinstance(frame, nw.DataFrame):
        return []
    here, lines = set(map(str, frame.columns)), []
    for group, columns in groups.items():
        absent = [names[f] for f in columns if names[f] not in here]
        if absent:
            lines.append(
                f"Group {group!r} lacks {len(absent)} of its {len(columns)} columns: "
                f"{_listed(absent)}."
            )
    return lines


def _listed(names):
    return ", ".join(map(repr, names[:5])) + (" …" if len(names) > 5 else "")


def _places(missing, columns, names):
    """The first of some columns with missing values, and the first row."""
    part = missing[:, list(columns)]
    holes = np.flatnonzero(np.asarray(part.sum(axis=0)).ravel())
    row = np.flatnonzero(np.asarray(part.sum(axis=1)).ravel())[0]
    of = [int(columns[hole]) if names is None else str(names[columns[hole]]) for hole in holes]
    return f"column{'s' * (len(of) > 1)} {_listed(of)}, first in row {row}"


def _incomplete(groups, X, names):
    """A line for each group with missing values."""
    missing, lines = _missing(X), []
    for group, columns in groups.items():
        columns = [f for f in columns if f < missing.shape[1]]
        counts = np.asarray(missing[:, columns].sum(axis=1)).ravel()
        some, every = np.count_nonzero(counts), np.count_nonzero(counts == len(columns))
        if some:
            whole = f", in {every} of them all" if every else ""
            lines.append(
                f"Group {group!r} has missing values in {some} of {len(counts)} rows{whole}: "
                f"{_places(missing, columns, names)}."
            )
    return lines


def _missing(X):
    """Where values are missing, of the shape of X; sparse where X is."""
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        return sparse.csr_array((np.isnan(X.data), X.indices, X.indptr), shape=X.shape)
    X = through_narwhals(X)
    return np.column_stack([missing_in(X[:, f]) for f in range(X.shape[1])])
