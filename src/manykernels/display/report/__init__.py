"""The report in one HTML file.

A section is a function of a `Story` that returns a piece of the page.
"""

from .write import report

__all__ = ["report"]
