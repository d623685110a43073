"""The command ``manykernels``."""

import sys


def main():
    """Run the command; without its packages, say how to get them."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError as error:
        sys.exit(
            f"error: the command line needs {error.name}: install it with  pip install "
            "'manykernels[cli]'"
        )
    from .app import app

    app(prog_name="manykernels")
