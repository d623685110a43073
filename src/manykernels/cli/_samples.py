"""Data sets by their name: read, described and written."""

import numpy as np
import sklearn.datasets
from scipy import sparse

from .. import datasets
from .._files import replacing
from ..readers import read_table, write_libsvm
from ..readers.tables import ENDINGS, LIBSVM, SEPARATORS, Data
from ._catalog import BUNDLED, OURS, own_files
from ._input import as_targets, choose_task


def load_sample(name):
    """A data set by its name, with the names of its classes as targets."""
    if name in BUNDLED or name in OURS:
        return _bundled(name)
    files = own_files()
    if name not in files:
        raise ValueError(
            f"There is no data set {name!r}; there are {', '.join([*BUNDLED, *OURS, *files])}."
        )
    return read_table(files[name])


def _bundled(name):
    bunch = getattr(datasets if name in OURS else sklearn.datasets, f"load_{name}")()
    classes = getattr(bunch, "target_names", None)
    words = classes is not None and name not in ("digits", "multiple_features")
    y = classes[bunch.target].astype(str) if words else bunch.target
    return Data(bunch.data, y, [str(feature) for feature in bunch.feature_names], "target")


def facts_of(name):
    """Rows, features and targets of a data set, as a mapping."""
    data = load_sample(name)
    task = choose_task(data.y)
    y = as_targets(data.y, task)
    facts = {"name": name, "rows": data.X.shape[0], "features": data.X.shape[1], "task": task}
    if task == "classification":
        labels, counts = np.unique(y, return_counts=True)
        facts["classes"] = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    else:
        facts["targets"] = [float(y.min()), float(y.max())]
    return facts


def write(path, data):
    """Write a data set in the format of the ending of a path."""
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
