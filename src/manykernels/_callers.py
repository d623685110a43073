"""Whose line a warning is about."""

import sys


def user_stacklevel():
    """The `stacklevel` with which a warning of the caller points to the first line that is not of
    this library or what it is built on.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        ("manykernels.", "sklearn.", "numba.")
    ):
        level, frame = level + 1, frame.f_back
    return level
