"""Data to try the commands on: the small sets that come with scikit-learn, and files in the folder
MANYKERNELS_DATA.
"""

import os
from pathlib import Path

from ..readers.tables import ENDINGS, Data, read_table

BUNDLED = {
    "breast_cancer": "tumours, malignant or benign",
    "diabetes": "progress of the disease after a year, a number",
    "digits": "handwritten digits, 8×8 pixels",
    "iris": "three species of iris",
    "wine": "three cultivars of wine",
}


def own_files():
    """Path of each readable file in the folder MANYKERNELS_DATA, by its name without the ending."""
    folder = os.environ.get("MANYKERNELS_DATA")
    if not folder:
        return {}
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"MANYKERNELS_DATA names the folder {folder}, which is not there.")
    paths = sorted(
        path for path in Path(folder).iterdir() if path.suffix.lower() in ENDINGS and path.is_file()
    )
    return {path.stem: path for path in paths if path.stem not in BUNDLED}


def load_sample(name):
    """A data set by its name, with the names of its classes as targets."""
    if name in BUNDLED:
        return _bundled(name)
    files = own_files()
    if name not in files:
        raise ValueError(
            f"There is no data set {name!r}; there are {', '.join([*BUNDLED, *files])}."
        )
    return read_table(files[name])


def _bundled(name):
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    classes = getattr(bunch, "target_names", None)
    words = classes is not None and name != "digits"
    y = classes[bunch.target].astype(str) if words else bunch.target
    return Data(bunch.data, y, [str(feature) for feature in bunch.feature_names], "target")
