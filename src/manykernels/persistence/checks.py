"""Whether values of a file are what they should be, before anything is made of them."""

import numpy as np

from .._files import CorruptFile


def require(condition, message):
    """Raise CorruptFile unless a condition holds."""
    if not condition:
        raise CorruptFile(message)


def check_array(value, what, shape, kinds="f", finite=True):
    """The value, if it is an array of these kinds of numbers and of this shape.

    Parameters
    ----------
    value : object
    what : str
        For the message.
    shape : tuple of int or None
        None for any length.
    kinds : str
        Codes of NumPy's kinds of types.
    finite : bool
        Whether NaN and infinity are refused.
    """
    good = isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == len(shape)
    good = good and all(
        length is None or length == given for length, given in zip(shape, value.shape, strict=True)
    )
    wanted = " by ".join("any" if length is None else str(length) for length in shape)
    require(good, f"{what} should be an array of numbers, {wanted}.")
    if finite and value.dtype.kind == "f":
        require(np.isfinite(value).all(), f"{what} should be finite.")
    return value


def check_indices(value, what, below, size=None):
    """The value, if it is an array of indices below a number."""
    check_array(value, what, (size,), "iu")
    within = value.size == 0 or (value.min() >= 0 and value.max() < below)
    require(within, f"{what} should be indices below {below}.")
    return value


def check_whole(value, what, least=0):
    """The value, if it is a whole number of at least so much."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    require(good, f"{what} should be a whole number of at least {least}.")
    return value


def check_number(value, what):
    """The value, if it is a number, which may be infinite or missing."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(good, f"{what} should be a number.")
    return value


def check_list(value, what, size=None):
    """The value, if it is a list, of this size if one is given."""
    good = isinstance(value, list) and (size is None or len(value) == size)
    require(good, f"{what} should be a list{'' if size is None else f' of {size}'}.")
    return value


def check_mapping(value, what, kind=object):
    """The value, if it is a mapping from values of a kind."""
    good = isinstance(value, dict) and all(isinstance(key, kind) for key in value)
    require(good, f"{what} should be a mapping.")
    return value


def check_categories(value, what, kind):
    """The value, if it is a mapping from columns to lists of categories."""
    for entries in check_mapping(value, what, kind).values():
        check_list(entries, what)
        plain = all(isinstance(entry, (str, int, float, np.generic)) for entry in entries)
        require(plain, f"{what} should be texts and numbers.")
    return value
