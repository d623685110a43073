"""The report."""


def write():
    """Not yet."""
