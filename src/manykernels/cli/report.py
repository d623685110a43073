"""``manykernels report``."""

from pathlib import Path
from typing import Annotated

import typer

from ._output import ends_well, note
from ._signals import starting


@ends_well
def report(
    model: Annotated[Path, typer.Argument(help="A model that train wrote.")],
    data: Annotated[
        Path | None, typer.Argument(help="Rows to judge the model on, with targets.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the page.")] = Path(
        "report.html"
    ),
    target: Annotated[
        str | None,
        typer.Option(help="Column to compare with; that of the training data by default."),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page; the name of the model by default.")
    ] = None,
):
    """Write an HTML page that shows a model: its kernels, how it converged and, with data, how good
    it is.
    """
    if data is None and target is not None:
        raise typer.BadParameter("--target names a column of DATA; give the data too.")
    with starting():
        from ..display import report as write_report
        from ._doubts import tell, unseen_categories
        from ._input import Origin, last_step, load_model

    pipeline = load_model(model)
    X, y = (None, None) if data is None else Origin.of(pipeline).read(data, target)
    tell(unseen_categories(last_step(pipeline), X))
    write_report(pipeline, X, y, path=out, title=title or model.name)
    note(f"wrote {out}")
