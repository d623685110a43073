"""What is doubtful in a table, in sentences that name columns and count rows."""

import re
import warnings

import numpy as np

from .._words import count
from ..kernels import KernelCollection

NEARLY_ALL = 0.95  # share of distinct entries from which on a column may be an identifier
FEW_ROWS = 20  # with fewer, all entries of any column may be distinct
MANY_COPIES = 0.01  # share of rows that are copies of others from which on scores may suffer
RARE_CATEGORY, RARE_CLASS = 5, 10  # rows with which a category or a class is no longer rare
IDENTIFIER = re.compile(r"(.*[\W_])?(id|uuid|guid|key|nr|no|number|index|row)([\W_]*\d*)?", re.I)
CAMEL = re.compile(r".*[a-z]I[dD]")
LISTED, LISTED_COLUMNS = 5, 20  # words and columns in a sentence, at most
IMPUTED = "missing numbers are imputed by the median of the training rows"


def tell(doubts):
    """Warn of each doubt."""
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)


def doubts_of(X, y, task, dates=()):
    """Sentences on rows to train on.

    Parameters
    ----------
    X : DataFrame, array or sparse matrix
    y : (n,) array
    task : {"classification", "regression"}
    dates : iterable of str
        Columns that were dates, which may well be one day after the other.
    """
    found = []
    if hasattr(X, "columns"):
        ids = [name for name in _whole(X) if name not in dates and _is_identifier(X[name])]
        words = [name for name in _not_numbers(X) if _holds_words(X[name]) and name not in ids]
        found += [*_missing(X), *_identifiers(X[ids]), *_rare_categories(X, words)]
        X = X.drop(columns=ids)
    elif X.dtype.kind == "f" and isinstance(X, np.ndarray):
        found += _missing_of_array(X)
    return found + _repeated(X, y) + (_rare_classes(y) if task == "classification" else [])


def unseen_categories(estimator, X):
    """Sentences on entries of new rows, a data frame, that no training row of an estimator had."""
    known = getattr(estimator, "categories_", {})
    if not hasattr(X, "columns") or _reads_strings(estimator):
        return []
    found = []
    for name in [name for name in X.columns if name in known]:
        entries = X[name].dropna()
        new = entries[~entries.isin(known[name])]
        if len(new):
            found.append(
                f"column {name!r}: training had no {_listed(map(repr, new.unique()))}, which "
                f"{len(new)} of {len(X)} rows hold; they are like no training row in this column"
            )
    return found


def _reads_strings(estimator):
    """Whether kernels compare words by their letters, so that new ones are no surprise."""
    kernels = getattr(estimator, "kernels", "auto")  # a `Predictor` has none that do
    if isinstance(kernels, str):
        return False
    return any(kernel.reads == "strings" for kernel in KernelCollection.of(kernels).kernels)


def _listed(words, most=LISTED):
    words = list(words)
    return ", ".join(words[:most]) + (f" … ({len(words)} in all)" if len(words) > most else "")


def _holds_words(column):
    """Whether a column is one of categories; truth values are numbers, also if some are missing."""
    return column.dtype.kind not in "fiub" and any(type(one) is not bool for one in column.dropna())


def _not_numbers(X):
    return [name for name, dtype in X.dtypes.items() if dtype.kind not in "fiub"]


def _missing(X):
    lacking = X.isna().sum()
    lacking = lacking[lacking > 0]
    by_kind = {False: [], True: []}
    for name, rows in lacking.items():
        by_kind[_holds_words(X[name])].append(f"{name!r} ({rows} of {len(X)} rows)")
    for words, what in (
        (False, f"{IMPUTED}, with an indicator where many rows lack them"),
        (True, "missing words are a category of their own"),
    ):
        if by_kind[words]:
            yield f"{what}: {_listed(by_kind[words], LISTED_COLUMNS)}"


def _missing_of_array(X):
    rows = np.count_nonzero(np.isnan(X), axis=0)
    columns = np.flatnonzero(rows)
    if not columns.size:
        return []
    return [f"{IMPUTED}: {rows.sum()} in {columns.size} of {X.shape[1]} columns"]


def _is_identifier(column):
    """Whether a column of whole numbers or words looks like numbers or names of rows, or of what
    they belong to: nearly all are distinct, or many of a column with such a name.
    """
    entries = column.dropna()
    if len(entries) < FEW_ROWS:
        return False
    distinct = entries.nunique()
    if _is_named_so(column.name) and distinct > FEW_ROWS:
        return True
    if distinct < NEARLY_ALL * len(entries):
        return False
    return _holds_words(column) or entries.max() - entries.min() < 1.5 * len(entries)


def _whole(X):
    """Names of the columns that hold whole numbers or words; there may be very many others."""
    real = X.select_dtypes("floating")
    values = real.to_numpy(dtype=float, na_value=np.nan)
    fractions = (values != np.rint(values)) & ~np.isnan(values)
    return X.columns.difference(real.columns[fractions.any(axis=0)], sort=False)


def _is_named_so(name):
    return IDENTIFIER.fullmatch(name) is not None or CAMEL.fullmatch(name) is not None


def _identifiers(X):
    for name in X.columns:
        together = f", or have folds keep rows of one together (--groups-column {name!r})"
        yield (
            f"column {name!r} looks like an identifier: leave it out (--drop {name!r})"
            f"{together if X[name].duplicated().any() else ''}"
        )


def _repeated(X, y):
    """On rows that are equal to others, identifiers aside."""
    if X.shape[1] == 0:
        return []
    if hasattr(X, "columns"):
        codes = {name: X[name].factorize()[0] for name in _not_numbers(X)}
        X = X.assign(**codes).to_numpy(dtype=float, na_value=np.nan)
    codes = np.unique(y, return_inverse=True)[1]
    from .._canonical import canonical_rows  # with compiled loops, which predicting does not need

    copies = len(y) - len(canonical_rows(X, codes, np.ones(len(y))).rows)
    if copies < MANY_COPIES * len(y):
        return []
    return [
        f"{copies} of {len(y)} rows are copies of others: rows that are held out score too well if "
        "copies of them are learned from; remove them unless they were measured so"
    ]


def _rare_categories(X, words):
    for name in words:
        rows = X[name].value_counts()
        rare = rows[rows < RARE_CATEGORY]
        rare = rare[rare > 0]  # categories of a type that no row has
        if len(rare):
            yield (
                f"column {name!r} has words of fewer than {RARE_CATEGORY} rows each: "
                f"{_listed(map(repr, rare.index))}, in {rare.sum()} of {len(X)} rows together"
            )


def _rare_classes(y):
    labels, rows = np.unique(y, return_counts=True)
    return [
        f"class {str(label)!r} has {count(int(number), 'row')} of {len(y)}, too few to learn from "
        "or to score on"
        for label, number in zip(labels, rows, strict=True)
        if number < RARE_CLASS
    ]
