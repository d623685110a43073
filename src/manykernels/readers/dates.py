"""Columns of dates in tables: days since 1970-01-01 in their place."""

import re
import warnings

import pandas as pd

from .._callers import user_stacklevel

ISO = "ISO8601"  # 2026-04-30, 2026-04, 2026-04-30 12:00:00, as pandas calls it
FORMATS = (
    ISO, "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y",
    "%d-%b-%Y",
)  # fmt: skip
# how an entry begins if it may be written in one of these
LIKELY = re.compile(r"\s*(\d{4}[-/]\d|\d{1,2}([-/.]\d{1,2}[-/.]|[- ][A-Za-z]{3}[- ])\d{4})")


def with_days(frame, formats, path):
    """A pandas frame with days in its columns of dates, and how dates are written, by column; a
    warning names these columns.

    Parameters
    ----------
    frame : DataFrame
    formats : mapping from column to str, optional
        How dates are written in an earlier table; by default every column of words is looked at.
    path : str
        For messages.
    """
    if formats is None:
        found = {name: _format_of(frame[name], path) for name in frame.columns}
        formats = {name: written for name, written in found.items() if written}
    formats = {name: written for name, written in formats.items() if name in frame.columns}
    if not formats:
        return frame, {}
    days = {name: _days(frame[name], written, path) for name, written in formats.items()}
    warnings.warn(
        f"{path}: dates are read as days since 1970-01-01, in {', '.join(map(repr, days))}.",
        stacklevel=user_stacklevel(),
    )
    return frame.assign(**days), formats


def _format_of(column, path):
    """How the dates of a column are written; None if it holds something else, or days cannot be
    told from months.
    """
    if column.dtype.kind == "M":
        return ISO
    words = column.dropna()
    if column.dtype.kind != "O" or not len(words) or not LIKELY.match(str(words.iloc[0])):
        return None
    written = words.astype(str)
    dates = {one: _parsed(written, one) for one in FORMATS}
    dates = {one: parsed for one, parsed in dates.items() if parsed.notna().all()}
    if len({tuple(parsed) for parsed in dates.values()}) > 1:
        warnings.warn(
            f"{path}: the dates of column {column.name!r} are taken for words, since either the "
            f"day or the month may come first (such as {written.iloc[0]!r}); write them as "
            "2026-04-30.",
            stacklevel=user_stacklevel(),
        )
        return None
    return next(iter(dates), None)


def _days(column, written, path):
    """A column of dates as days, NaN where they are missing; raise for an entry that is no date."""
    dates = column if column.dtype.kind == "M" else _parsed(column.astype("string"), written)
    wrong = (dates.isna() & column.notna()).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{path}: column {column.name!r} holds {column.iloc[row]!r} in row {row + 1}, which is "
            f"not a date written as {_example(written)}, as in training."
        )
    return (pd.to_datetime(dates, utc=True) - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1)


def _parsed(words, written):
    return pd.to_datetime(words, format=written, errors="coerce", utc=True)


def _example(written):
    return "2026-04-30" if written == ISO else pd.Timestamp(2026, 4, 30).strftime(written)
