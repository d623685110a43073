"""From the files of the package to what a loader returns."""

from importlib import resources

import numpy as np
from sklearn.utils import Bunch

FOLDER = resources.files(__package__) / "data"


def arrays(name):
    """The arrays of a set, by their names."""
    with (FOLDER / f"{name}.npz").open("rb") as file, np.load(file) as archive:
        return dict(archive)


def description(name):
    """Who made a set, under which license, and what was done to it."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def bunch(name, data, target, *, feature_names, target_names, groups, frame, return_X_y, as_frame):
    """What a loader returns.

    Parameters
    ----------
    name : str
        Of the set, and of its description.
    data : (n, f) array
    target : (n,) array
        Of codes.
    feature_names, target_names : lists of str
    groups : dict from name to list of int
        Columns that belong together.
    frame : callable
        That makes the table of pandas, from its module.
    return_X_y, as_frame : bool
    """
    if as_frame:
        pandas = _pandas()
        data = frame(pandas)
        target = pandas.Series(target, index=data.index, name="target")
        groups = {group: [feature_names[c] for c in columns] for group, columns in groups.items()}
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=data.assign(target=target) if as_frame else None,
        feature_names=list(feature_names),
        target_names=np.array(target_names),
        groups=groups,
        DESCR=description(name),
    )


def _pandas():
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas: install pandas, or manykernels[frames]."
        ) from error
    return pandas
