"""The command ``manykernels``."""

import sys

from ._signals import BROKEN_PIPE, starting


def main():
    """Run the command; without its packages, say how to get them."""
    with starting():  # commands answer signals by themselves while they work
        try:
            import rich  # noqa: F401
            import typer  # noqa: F401
        except ImportError as error:
            sys.exit(
                f"error: the command line needs {error.name}: install it with  pip install "
                "'manykernels[cli]'"
            )
        from .app import app

        try:
            app(prog_name="manykernels")
        except SystemExit as ending:  # rich and typer make it 1
            if isinstance(ending.__context__, BrokenPipeError):
                ending.code = BROKEN_PIPE
            raise
