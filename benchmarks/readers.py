"""Reading LIBSVM text: seconds beside scikit-learn's reader, on a9a and on numbers of seventeen
digits.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from manykernels.readers import read_libsvm, write_libsvm

from .common import in_turns, read, table

NUMBERS = 20_000  # rows of them


def files(folder):
    """Name and path of every file."""
    a9a = read("a9a")
    if a9a is not None:
        write_libsvm(folder / "a9a", *a9a[:2])
        yield "a9a", folder / "a9a"
    values = np.random.default_rng(0).standard_normal((NUMBERS, 40))
    write_libsvm(folder / "digits", values, values[:, 0] > 0)
    yield "17 digits", folder / "digits"
    write_libsvm(folder / "short", values.round(4), values[:, 0] > 0)
    yield "4 decimals", folder / "short"


def compare(name, path):
    readers = [lambda: read_libsvm(path), lambda: load_svmlight_file(str(path))]
    ours, theirs = (reader() for reader in readers)  # also compiles
    same = (ours[0] != theirs[0]).nnz == 0 and np.array_equal(ours[1], theirs[1])
    seconds = in_turns(readers)
    megabytes = path.stat().st_size / 2**20
    return {
        "file": name,
        "MB": megabytes,
        "rows": ours[0].shape[0],
        "entries": ours[0].nnz,
        "manykernels s": float(seconds[0]),
        "scikit-learn s": float(seconds[1]),
        "times faster": float(seconds[1] / seconds[0]),
        "MB/s": megabytes / float(seconds[0]),
        "same": same,
    }


def text():
    """LIBSVM text."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [compare(name, path) for name, path in files(Path(folder))]
    table("LIBSVM text", rows)
    return rows


STEPS = {"text": text}
GUESSED = {"text": 30}
QUICK = {"NUMBERS": 2000}
