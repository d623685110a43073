"""``manykernels datasets``: the small sets that come with scikit-learn and with this package, and
files in the folder MANYKERNELS_DATA.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from ._output import Json, ends_well, note, print_json, print_table

BUNDLED = {
    "breast_cancer": "tumours, malignant or benign",
    "diabetes": "progress of the disease after a year, a number",
    "digits": "handwritten digits, 8×8 pixels",
    "iris": "three species of iris",
    "wine": "three cultivars of wine",
}
OURS = {
    "heart": "patients with four kinds of examinations, heart disease or not",
    "house_votes": "votes on 16 questions, democrat or republican",
    "multiple_features": "handwritten digits, described in six ways",
    "sonar": "echoes of mines and of rocks",
}
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
    import numpy as np

    from ._input import as_targets, choose_task

    data = load_sample(name)
    task = choose_task(data.y)
    y = as_targets(data.y, task)
    facts = {"name": name, "rows": data.X.shape[0], "features": data.X.shape[1], "task": task}
    if task == "classification":
        labels, counts = np.unique(y, return_counts=True)
        facts["classes"] = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    else:
        facts["targets"] = [float(y.min()), float(y.max())]
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
    data = load_sample(name)
    _write(file, data)
    note(f"wrote {data.X.shape[0]} rows of {data.X.shape[1]} features to {file}")


def _write(path, data):
    from scipy import sparse

    from .._files import replacing
    from ..readers.libsvm import write_libsvm
    from ..readers.tables import ENDINGS, LIBSVM, SEPARATORS

    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"{path}: files that end in {ending or 'nothing'} are not known; use "
            f"{', '.join(ENDINGS)}."
        )
    if ending in LIBSVM:
        write_libsvm(path, _numbers(data.X), _codes(data.y))
        return
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    if ending == ".npz":
        import numpy as np

        arrays = {"X": _numbers(X), "y": _codes(data.y)}
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)
        return
    frame = _frame(X, data)
    with replacing(path) as file:
        if ending == ".parquet":
            frame.to_parquet(file)
        else:
            frame.to_csv(file, sep=SEPARATORS[ending], index=False)


def _numbers(X):
    if hasattr(X, "columns") and any(X[name].dtype.kind not in "fiub" for name in X.columns):
        raise ValueError("Columns of words can be written to .csv, .tsv and .parquet only.")
    return X.to_numpy(dtype=float) if hasattr(X, "columns") else X


def _codes(y):
    """Numbers in place of words, in the order of the alphabet."""
    import numpy as np

    return y if y.dtype.kind in "fiub" else np.unique(y, return_inverse=True)[1]


def _frame(X, data):
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "Writing tables needs pandas: install pandas, or manykernels[frames]."
        ) from error
    names = data.feature_names or [f"x{place}" for place in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    frame[data.target or "target"] = data.y
    return frame


def own_files():
    """Path of each readable file in the folder MANYKERNELS_DATA, by its name without the ending."""
    from ..readers.tables import ENDINGS

    folder = os.environ.get("MANYKERNELS_DATA")
    if not folder:
        return {}
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"MANYKERNELS_DATA names the folder {folder}, which is not there.")
    paths = sorted(
        path for path in Path(folder).iterdir() if path.suffix.lower() in ENDINGS and path.is_file()
    )
    return {path.stem: path for path in paths if path.stem not in BUNDLED | OURS}


def load_sample(name):
    """A data set by its name, with the names of its classes as targets."""
    from ..readers.tables import read_table

    if name in BUNDLED or name in OURS:
        return _bundled(name)
    files = own_files()
    if name not in files:
        raise ValueError(
            f"There is no data set {name!r}; there are {', '.join([*BUNDLED, *OURS, *files])}."
        )
    return read_table(files[name])


def _bundled(name):
    import sklearn.datasets

    from .. import datasets
    from ..readers.tables import Data

    bunch = getattr(datasets if name in OURS else sklearn.datasets, f"load_{name}")()
    classes = getattr(bunch, "target_names", None)
    words = classes is not None and name not in ("digits", "multiple_features")
    y = classes[bunch.target].astype(str) if words else bunch.target
    return Data(bunch.data, y, [str(feature) for feature in bunch.feature_names], "target")
