"""The release, where files and the package alike find it."""

__version__ = "0.1.0"
