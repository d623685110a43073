"""The data sets that the command knows by name. To list them, nothing slow is imported."""

import os
from pathlib import Path

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
# those of `readers.tables`, which takes long to import
ENDINGS = (".csv", ".tsv", ".parquet", ".npz", ".libsvm", ".svm", ".svmlight", ".txt")


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
    return {path.stem: path for path in paths if path.stem not in BUNDLED | OURS}
