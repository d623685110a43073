"""One function for each data set."""

from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

VIEWS = {"fou": "Fourier", "fac": "profiles", "kar": "Karhunen-Loève"}
VIEWS |= {"pix": "pixels", "zer": "Zernike", "mor": "morphology"}

VOTES = [
    "handicapped infants",
    "water project cost sharing",
    "adoption of the budget resolution",
    "physician fee freeze",
    "el salvador aid",
    "religious groups in schools",
    "anti satellite test ban",
    "aid to nicaraguan contras",
    "mx missile",
    "immigration",
    "synfuels corporation cutback",
    "education spending",
    "superfund right to sue",
    "crime",
    "duty free exports",
    "export administration act south africa",
]
TOPICS = {
    "at home": [0, 5, 9, 11, 13],
    "money": [1, 2, 3, 10, 12, 14],
    "abroad and arms": [4, 6, 7, 8, 15],
}

# columns of codes have words for them
HEART: dict[str, dict[int, str] | None] = {
    "age": None,
    "sex": {0: "female", 1: "male"},
    "chest pain": {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "none"},
    "resting blood pressure": None,
    "cholesterol": None,
    "fasting blood sugar": {0: "up to 120 mg/dl", 1: "over 120 mg/dl"},
    "resting ecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "maximal heart rate": None,
    "exercise angina": {0: "no", 1: "yes"},
    "ST depression": None,
    "ST slope": {1: "up", 2: "flat", 3: "down"},
    "colored vessels": None,
    "thallium scan": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}
EXAMINATIONS = {
    "history": [0, 1, 2],
    "at rest": [3, 4, 5, 6],
    "under exercise": [7, 8, 9, 10],
    "imaging": [11, 12],
}


def load_multiple_features(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """400 handwritten digits, each described in six ways: 649 columns in six groups.

    Parameters
    ----------
    return_X_y : bool
        Whether to give ``(data, target)`` in place of a Bunch.
    as_frame : bool
        Whether data and target are of pandas; ``groups`` then holds names of columns.

    Returns
    -------
    Bunch
        ``data`` (400, 649), ``target`` (the digit), ``groups`` (the six descriptions),
        ``feature_names``, ``target_names``, ``frame`` and ``DESCR``.

    Examples
    --------
    >>> from manykernels.datasets import load_multiple_features
    >>> digits = load_multiple_features()
    >>> digits.data.shape
    (400, 649)
    >>> {view: len(columns) for view, columns in digits.groups.items()}
    {'Fourier': 76, 'profiles': 216, 'Karhunen-Loève': 64, 'pixels': 240, 'Zernike': 47, 'morphology': 6}
    """  # noqa: E501
    views = arrays("multiple_features")
    target = views.pop("target").astype(np.int64)
    data = np.hstack([views[short].astype(np.float64) for short in VIEWS])
    names: list[str] = []
    groups: dict[str, list[int]] = {}
    for short, view in VIEWS.items():
        width = views[short].shape[1]
        groups[view] = list(range(len(names), len(names) + width))
        names += [f"{view} {place}" for place in range(width)]
    table = Table(
        name="multiple_features",
        data=data,
        target=target,
        feature_names=names,
        target_names=[str(digit) for digit in range(10)],
        groups=groups,
        frame=lambda pandas: pandas.DataFrame(data, columns=names),
    )
    return bunch(table, return_X_y, as_frame)


def load_sonar(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """208 echoes of sonar from rocks and from metal cylinders: 60 bands of frequency.

    Parameters
    ----------
    return_X_y : bool
        Whether to give ``(data, target)`` in place of a Bunch.
    as_frame : bool
        Whether data and target are of pandas; ``groups`` then holds names of columns.

    Returns
    -------
    Bunch
        ``data`` (208, 60), ``target`` (0 rock, 1 mine), ``groups`` (six neighborhoods of ten
        bands), ``feature_names``, ``target_names``, ``frame`` and ``DESCR``.

    Examples
    --------
    >>> from manykernels.datasets import load_sonar
    >>> X, y = load_sonar(return_X_y=True)
    >>> X.shape, int(y.sum())
    ((208, 60), 111)
    """
    stored = arrays("sonar")
    data, names = stored["data"] / 1e4, [f"band {band}" for band in range(1, 61)]
    table = Table(
        name="sonar",
        data=data,
        target=stored["target"].astype(np.int64),
        feature_names=names,
        target_names=["rock", "mine"],
        groups={f"bands {b + 1} to {b + 10}": list(range(b, b + 10)) for b in range(0, 60, 10)},
        frame=lambda pandas: pandas.DataFrame(data, columns=names),
    )
    return bunch(table, return_X_y, as_frame)


def load_house_votes(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """How 435 members of the House of Representatives voted on 16 questions in 1984: words, no
    numbers.

    Parameters
    ----------
    return_X_y : bool
        Whether to give ``(data, target)`` in place of a Bunch.
    as_frame : bool
        Whether data and target are of pandas, the votes as categories; ``groups`` then holds names
        of columns.

    Returns
    -------
    Bunch
        ``data`` (435, 16) of "yea", "nay" and "neither", ``target`` (0 democrat, 1 republican),
        ``groups`` (three topics, sorted by us), ``feature_names``, ``target_names``, ``frame`` and
        ``DESCR``.

    Examples
    --------
    >>> from manykernels.datasets import load_house_votes
    >>> votes = load_house_votes()
    >>> [str(vote) for vote in votes.data[0, :3]], str(votes.target_names[votes.target[0]])
    (['nay', 'yea', 'nay'], 'republican')
    """
    stored = arrays("house_votes")
    data = np.array(["neither", "yea", "nay"], dtype=object)[stored["data"]]
    table = Table(
        name="house_votes",
        data=data,
        target=stored["target"].astype(np.int64),
        feature_names=VOTES,
        target_names=["democrat", "republican"],
        groups=TOPICS,
        frame=lambda pandas: pandas.DataFrame(data, columns=VOTES).astype("category"),
    )
    return bunch(table, return_X_y, as_frame)


def load_heart(*, return_X_y: bool = False, as_frame: bool = False) -> Bunch | tuple:
    """270 patients, what four kinds of examination found, and whether their heart is ill.

    Parameters
    ----------
    return_X_y : bool
        Whether to give ``(data, target)`` in place of a Bunch.
    as_frame : bool
        Whether data and target are of pandas, with words in place of codes; ``groups`` then holds
        names of columns.

    Returns
    -------
    Bunch
        ``data`` (270, 13), ``target`` (0 absent, 1 present), ``groups`` (four examinations),
        ``feature_names``, ``target_names``, ``frame`` and ``DESCR``.

    Examples
    --------
    >>> from manykernels.datasets import load_heart
    >>> heart = load_heart()
    >>> heart.data.shape, list(heart.groups)
    ((270, 13), ['history', 'at rest', 'under exercise', 'imaging'])
    """
    stored = arrays("heart")
    data = stored["data"] / 10.0
    table = Table(
        name="heart",
        data=data,
        target=stored["target"].astype(np.int64),
        feature_names=list(HEART),
        target_names=["absent", "present"],
        groups=EXAMINATIONS,
        frame=lambda pandas: _in_words(pandas, data),
    )
    return bunch(table, return_X_y, as_frame)


def _in_words(pandas, data):
    """The table of patients, with categories in the place of codes."""
    frame = pandas.DataFrame(data, columns=list(HEART))
    for name, words in HEART.items():
        if words is not None:
            frame[name] = pandas.Categorical(
                frame[name].astype(int).map(words), categories=list(words.values())
            )
    return frame


# --- from the files of the package to what a loader returns ---------------------------------------


FOLDER = resources.files(__package__) / "data"


def arrays(name):
    """The arrays of a set, by their names."""
    with (FOLDER / f"{name}.npz").open("rb") as file, np.load(file) as archive:
        return dict(archive)


def description(name):
    """Who made a set, under which license, and what was done to it."""
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


class Table(NamedTuple):
    """A data set.

    Attributes
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
    """

    name: str
    data: np.ndarray
    target: np.ndarray
    feature_names: list[str]
    target_names: list[str]
    groups: dict[str, list[int]]
    frame: Callable[[Any], Any]


def bunch(table, return_X_y, as_frame):
    """What a loader returns of a table."""
    data, target, groups = table.data, table.target, table.groups
    if as_frame:
        pandas = _pandas()
        data = table.frame(pandas)
        target = pandas.Series(target, index=data.index, name="target")
        names = table.feature_names
        groups = {group: [names[c] for c in columns] for group, columns in groups.items()}
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=data.assign(target=target) if as_frame else None,
        feature_names=list(table.feature_names),
        target_names=np.array(table.target_names),
        groups=groups,
        DESCR=description(table.name),
    )


def _pandas():
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas: install pandas, or manykernels[frames]."
        ) from error
    return pandas
