"""``manykernels compress``."""

from pathlib import Path
from typing import Annotated

import typer

from ._output import Json, ends_well, print_json, print_table
from ._signals import starting


@ends_well
def compress(
    model: Annotated[Path, typer.Argument(help="A model that train wrote.")],
    data: Annotated[
        Path,
        typer.Argument(
            help="Rows such as the model will see, best others than those of the training; a "
            "target is not needed."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the smaller model.")],
    agreement: Annotated[
        float | None,
        typer.Option(help="Share of rows with the same answer; 0.99 if no target is given."),
    ] = None,
    points: Annotated[int | None, typer.Option(help="Number of points.")] = None,
    size: Annotated[int | None, typer.Option("--bytes", help="Size of the file at most.")] = None,
    microseconds: Annotated[
        float | None, typer.Option(help="Time to predict a row, in batches, on this machine.")
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="Which points: free (moved to where they serve best), support (some of the "
            "model's, which are training rows), synthetic (no rows of anybody's) or auto."
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Of the parts that the rows are divided into.")] = 0,
    json: Json = False,
):
    """Write a model with fewer points that says nearly the same, and how often it does.

    Give one of --agreement, --points, --bytes and --microseconds.
    """
    with starting():
        from .. import compress as compressed
        from .. import save
        from ._doubts import tell, unseen_categories
        from ._input import Origin, last_step, load_model

    before = load_model(model)
    X, _ = Origin.of(before).read(data)
    tell(unseen_categories(last_step(before), X))
    small = compressed(
        before,
        X,
        agreement=agreement,
        n_points=points,
        n_bytes=size,
        microseconds=microseconds,
        points=kind,
        random_state=seed,
    )
    save(small, out, extra=before.extra_)
    found = last_step(small).compression_
    if json:
        judged = {"agreement": found.agreement, "bound": found.bound()}
        print_json({"model": str(model), "out": str(out)} | found._asdict() | judged)
        return
    print_table(None, [*_described(found), ("model", str(out))])


def _described(found):
    """Lines of the table."""
    yield "points", f"{found.points} of {found.points_before}, {found.kind}"
    yield "kernels", f"{found.kernels} of {found.kernels_before}"
    yield "bytes", f"{found.bytes:,} of {found.bytes_before:,}"
    yield (
        "same answer",
        f"{found.agreement:.2%} of {found.rows} rows that were not used; of all rows like these "
        f"at least {found.bound():.2%}, with 95 % confidence",
    )
    yield "scores differ by", f"{found.difference:.2g} of their spread (root mean square)"
