"""All commands in one application. Nothing that takes long to import is imported before a command
runs.
"""

from typing import Annotated

import typer

from .. import __version__
from . import bench, compress, datasets, predict, report, train

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Multiple kernel learning: which of many kernels matter, and a support vector machine on "
    "their weighted sum.",
    epilog="Exit codes: 0 fine, 1 wrong data or parameters, 2 wrong usage, 3 not converged (the "
    "model is written), 130 interrupted, 141 nobody reads the output any more, 143 terminated.",
)
app.command()(train.train)
app.command()(predict.predict)
app.command()(report.report)
app.command()(compress.compress)
app.command()(bench.bench)
app.add_typer(datasets.app, name="datasets")


def _print_version(wanted: bool):
    if wanted:
        typer.echo(f"manykernels {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
):
    pass
