"""``manykernels datasets``: the small sets that come with scikit-learn and with this package, and
files in the folder MANYKERNELS_DATA.
"""

from pathlib import Path
from typing import Annotated

import typer

from ._catalog import BUNDLED, OURS, own_files
from ._output import Json, ends_well, note, print_json, print_table
from ._signals import starting

app = typer.Typer(
    help="Data sets to try things on: list them, describe one, or write one to a file.",
    invoke_without_command=True,
)
Name = Annotated[str, typer.Argument(help="Name of a data set, as listed.")]


@app.callback()
def _default(context: typer.Context):
    if context.invoked_subcommand is None:
        list_(json=False, debug=False)


@app.command("list")
@ends_well
def list_(json: Json = False):
    """List the data sets: those that come with scikit-learn and with this package, and the files in
    the folder MANYKERNELS_DATA.
    """
    rows = [*((name, "scikit-learn", what) for name, what in BUNDLED.items())]
    rows += [(name, "manykernels", what) for name, what in OURS.items()]
    rows += [
        (name, "MANYKERNELS_DATA", f"{path.name}, {path.stat().st_size / 2**20:.2f} MB")
        for name, path in own_files().items()
    ]
    if json:
        print_json(
            {
                "datasets": [
                    {"name": name, "source": source, "what": what} for name, source, what in rows
                ]
            }
        )
    else:
        print_table(None, rows, ("name", "from", "what"))


@app.command()
@ends_well
def info(name: Name, json: Json = False):
    """Rows, features and targets of a data set."""
    with starting():
        from ._samples import facts_of

    facts = facts_of(name)
    if json:
        print_json(facts)
    else:
        classes = ", ".join(
            f"{label} ({count})" for label, count in facts.pop("classes", {}).items()
        )
        print_table(None, [*facts.items(), *([("classes", classes)] if classes else [])])


@app.command()
@ends_well
def export(
    name: Name,
    file: Annotated[
        Path,
        typer.Argument(
            help="Where to write it: .csv, .tsv, .parquet, .npz, .libsvm, .svm, .svmlight or .txt."
        ),
    ],
):
    """Write a data set to a file, in the format of the file's ending."""
    with starting():
        from ._samples import load_sample, write

    data = load_sample(name)
    write(file, data)
    note(f"wrote {data.X.shape[0]} rows of {data.X.shape[1]} features to {file}")
