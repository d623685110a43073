"""LIBSVM text, byte by byte.

A line is a label and then ``index:value`` pairs, with blanks between them; ``#`` begins a comment.
The text must end in a line break: every scan stops there at the latest, so no place is checked
against the size of the text.

Decimal numbers are rounded as Python's ``float`` rounds them. With up to 2^53 for the digits and a
power of ten up to 22, both are exact in float64 and one operation rounds once. With up to 19
digits, the same is done in pairs of floats (Dekker 1971), and counts if the error of that
arithmetic cannot change the rounding. What is left is *hard* and is left to ``float``.
"""

from typing import NamedTuple

import numpy as np

from .jit import cached_njit

NEWLINE, RETURN, TAB, SPACE, COMMENT, COLON = 10, 13, 9, 32, 35, 58
PLUS, MINUS, POINT, ZERO, NINE = 43, 45, 46, 48, 57

FINE, BAD_LABEL, BAD_INDEX, BAD_VALUE, NO_COLON, RANKING, TOO_LARGE, NOT_INCREASING, TOO_LONG = (
    range(9)
)
BAD, EXACT, HARD = range(3)

LARGEST_INDEX = 2**31 - 1
MOST_DIGITS = 19  # that fit 64 bits
POWERS = 10.0 ** np.arange(23)  # exact
SPLITTER = 2.0**27 + 1.0
ROUNDING_MARGIN = 2.0**-98  # relative; the arithmetic in pairs is good to 2^-103

# no fastmath: pairs of floats live by their rounding
plain = cached_njit(error_model="numpy")


class Parsed(NamedTuple):
    """Rows and entries of a block of lines, with room for all of them."""

    labels: np.ndarray  # (rows,) float64
    lines: np.ndarray  # (rows,) int64, the number of each row's line in the file
    ends: np.ndarray  # (rows,) int64, entries up to the end of the row
    indices: np.ndarray  # (entries,) int32, as written
    values: np.ndarray  # (entries,) float64
    # (rows + entries, 3) int64: entry (or -1 - row for a label), first byte, byte after the last
    hard: np.ndarray


class Progress(NamedTuple):
    """The place that reading has come to: counts, the number of the last line, and what is wrong
    there and where.
    """

    rows: int
    entries: int
    hard: int
    line: int
    problem: int
    place: int


@plain
def _halves(a):
    high = SPLITTER * a
    high = high - (high - a)
    return high, a - high


@plain
def _product_error(a, b, product):
    """``a b - product`` exactly."""
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@plain
def _scaled(mantissa, exponent):
    """``mantissa * 10^exponent`` and whether it is rounded for certain; ``|exponent| <= 22``."""
    high = np.float64(np.int64(mantissa >> np.uint64(11))) * 2048.0
    low = np.float64(np.int64(mantissa & np.uint64(2047)))
    total = high + low
    rest = low - (total - high)
    power = POWERS[abs(exponent)]
    if exponent >= 0:
        value = total * power
        error = _product_error(total, power, value) + rest * power
    else:
        value = total / power
        back = value * power
        error = (((total - back) - _product_error(value, power, back)) + rest) / power
    margin = ROUNDING_MARGIN * value
    rounded = value + error
    return rounded, rounded == value + (error - margin) and rounded == value + (error + margin)


@plain
def _decimal(mantissa, digits, exponent):
    """The number nearest to ``mantissa * 10^exponent``, and EXACT or HARD."""
    if mantissa == 0 and digits <= MOST_DIGITS:
        return 0.0, EXACT
    if digits > MOST_DIGITS or abs(exponent) > 22:
        return 0.0, HARD
    if mantissa <= np.uint64(2**53):
        value = np.float64(np.int64(mantissa))
        return (value * POWERS[exponent] if exponent >= 0 else value / POWERS[-exponent]), EXACT
    value, certain = _scaled(mantissa, exponent)
    return value, EXACT if certain else HARD


@plain
def _digits(text, at, mantissa, digits):
    """Read on: digits from `at`, which follow those of the mantissa; leading zeros do not count as
    digits.
    """
    while ZERO <= text[at] <= NINE:
        mantissa = mantissa * np.uint64(10) + np.uint64(text[at] - ZERO)
        if digits > 0 or text[at] != ZERO:
            digits += 1
        at += 1
    return at, mantissa, digits


@plain
def _exponent(text, at):
    """The exponent after an ``e``, its end, and whether there is one; beyond a thousand million it
    is cut short.
    """
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    first, exponent = at, 0
    while ZERO <= text[at] <= NINE:
        exponent = min(10 * exponent + (np.int64(text[at]) - ZERO), 10**9)
        at += 1
    return at, -exponent if negative else exponent, at > first


@plain
def _ends_token(byte):
    return byte in (SPACE, NEWLINE, TAB, RETURN, COMMENT)


@plain
def read_number(text, at):
    """The decimal number at a place, the place after it, and whether it is BAD, EXACT or HARD."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    first = at
    at, mantissa, digits = _digits(text, at, np.uint64(0), 0)
    places, written = 0, at - first
    if text[at] == POINT:
        first = at + 1
        at, mantissa, digits = _digits(text, first, mantissa, digits)
        places = at - first
    exponent = 0
    if written + places == 0:
        return 0.0, at, BAD
    if text[at] | 32 == 101:  # e or E
        at, exponent, there = _exponent(text, at + 1)
        if not there:
            return 0.0, at, BAD
    if not _ends_token(text[at]):
        return 0.0, at, BAD
    value, kind = _decimal(mantissa, digits, exponent - places)
    return -value if negative else value, at, kind


@plain
def _read_index(text, at):
    """The index before a colon (LARGEST_INDEX + 1 for all that are larger), the place after it,
    and what is wrong.
    """
    first, index = at, 0
    while ZERO <= text[at] <= NINE:
        index = min(10 * index + (np.int64(text[at]) - ZERO), LARGEST_INDEX + 1)
        at += 1
    if text[at] == COLON and at > first:
        return index, at + 1, TOO_LARGE if index > LARGEST_INDEX else FINE
    # qid:
    if text[at] == 113 and text[at + 1] == 105 and text[at + 2] == 100 and text[at + 3] == COLON:
        return index, at, RANKING
    return index, at, NO_COLON if at > first and _ends_token(text[at]) else BAD_INDEX


@plain
def _skip_blanks(text, at):
    while text[at] == SPACE or text[at] == TAB or text[at] == RETURN:
        at += 1
    return at


@plain
def _note_hard(out, count, which, first, end):
    out.hard[count, 0], out.hard[count, 1], out.hard[count, 2] = which, first, end
    return count + 1


@plain
def _read_entries(text, at, entries, hard, out):
    """The pairs from here to the end of the line or its comment: entries, hard numbers, place,
    problem.
    """
    before = -1
    at = _skip_blanks(text, at)
    while text[at] != NEWLINE and text[at] != COMMENT:
        first = at
        index, at, problem = _read_index(text, at)
        if problem == FINE and index <= before:
            problem = NOT_INCREASING
        if problem != FINE:
            return entries, hard, first, problem
        value, end, kind = read_number(text, at)
        if kind == BAD:
            return entries, hard, at, BAD_VALUE
        if kind == HARD:
            hard = _note_hard(out, hard, entries, at, end)
        out.indices[entries], out.values[entries], before = index, value, index
        entries, at = entries + 1, _skip_blanks(text, end)
    return entries, hard, at, FINE


@plain
def read_lines(text, line, max_line, out):
    """Read lines, the first of which has the number ``line + 1``, into `out`; stops at the first
    that is wrong.
    """
    rows, entries, hard, at = 0, 0, 0, 0
    while at < text.size:
        line, begin = line + 1, at
        at = _skip_blanks(text, at)
        if text[at] != NEWLINE and text[at] != COMMENT:
            out.lines[rows] = line
            label, end, kind = read_number(text, at)
            if kind == BAD:
                return Progress(rows, entries, hard, line, BAD_LABEL, at)
            if kind == HARD:
                hard = _note_hard(out, hard, -1 - rows, at, end)
            entries, hard, at, problem = _read_entries(text, end, entries, hard, out)
            if problem != FINE:
                return Progress(rows, entries, hard, line, problem, at)
            out.labels[rows], out.ends[rows] = label, entries
            rows += 1
        while text[at] != NEWLINE:
            at += 1
        if at - begin > max_line:
            return Progress(rows, entries, hard, line, TOO_LONG, begin)
        at += 1
    return Progress(rows, entries, hard, line, FINE, at)
