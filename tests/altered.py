"""Model files with one thing altered and a sound checksum: what must be refused or must predict.

``python tests/altered.py 3000`` alters so many files of every kind of model in turn, and prints
those that were neither refused nor could predict. A fault that kills the process says where.
"""

import copy
import faulthandler
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from manykernels import MKLClassifier, MKLFeatureSelector, MKLOneClass, MKLRegressor, load, save
from manykernels._files import read, write
from manykernels.combinations import Product
from manykernels.kernels import (
    RBF,
    Hamming,
    KernelCollection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Spectrum,
)
from manykernels.lowrank import IncompleteCholesky, Nystroem, RandomFourier

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
FEW = sparse.csr_array(np.where(X > 0, X, 0.0))
FRAME = pd.DataFrame(X[:, :2], columns=["u", "v"]).assign(
    kind=RNG.choice(["p", "q", "r"], 40), text=["".join(RNG.choice(list("ac"), 5)) for _ in X]
)
HOLES = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
LACKING = X.copy()
LACKING[:6, :2] = LACKING[20:30, 2:] = np.nan
KERNELS = [RBF(), Linear(features=[0, 1]), Polynomial(2, features=slice(1, 3)), Laplacian(0.3)]
MASKS = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]], dtype=bool)


def _columns():
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["u", "v"]),
            ("kinds", OneHotEncoder(handle_unknown="ignore"), ["kind"]),
            ("texts", OrdinalEncoder(), ["text"]),
        ]
    )


class Sound(NamedTuple):
    """The parts of a sound file, and points that its model predicts."""

    arrays: dict
    content: dict
    points: object


MODELS = {
    "classifier": (MKLClassifier(KERNELS), X, Y),
    "classes": (MKLClassifier(KERNELS, multiclass="ovo", share_weights=False, p=1.5), X, THREE),
    "regressor": (MKLRegressor(KERNELS, p=2.0), X, X[:, 0] * X[:, 1]),
    "targets": (MKLRegressor(KERNELS, loss="squared"), X, X[:, :2] ** 2),
    "one class": (MKLOneClass(KERNELS, nu=0.2, p=2.0), X, None),
    "centered": (MKLClassifier(KERNELS, normalize="center"), X, Y),
    "missing": (
        MKLClassifier({"a": KERNELS[1], "b": RBF(features=[2, 3])}, missing="scaled"),
        LACKING,
        Y,
    ),
    "missing centered": (
        MKLClassifier([KERNELS[1], RBF(features=[2])], missing="mean", normalize="center"),
        LACKING,
        Y,
    ),
    "masked": (
        MKLClassifier(
            KernelCollection.masked_rbf(np.tile([0.3, 0.7, 1.0], 12), np.tile(MASKS, (12, 1)))
        ),
        X,
        Y,
    ),
    "landmarks": (MKLClassifier(KERNELS, approximation=Nystroem(10)), X, THREE),
    "pivots": (MKLClassifier(KERNELS, approximation=IncompleteCholesky(6)), X, Y),
    "frequencies": (
        MKLClassifier([RBF(), RBF(0.1, [1, 2])], approximation=RandomFourier(9)),
        X,
        Y,
    ),
    "product": (MKLClassifier(combination=Product(["a", "a", "b", "b"], starts=1)), X, Y),
    "sparse": (MKLClassifier([RBF(), Linear()]), FEW, Y),
    "sparse landmarks": (MKLClassifier([RBF()], approximation=Nystroem(10)), FEW, Y),
    "frame": (
        MKLClassifier(
            {
                "numbers": [RBF(features=["u", "v"]), Linear(features=["v"])],
                "kinds": Hamming(features="kind"),
                "texts": Spectrum(2, features="text"),
            }
        ),
        FRAME,
        Y,
    ),
    "auto": (MKLClassifier(), FRAME[["u", "kind"]], Y),
    "matrices": (MKLClassifier([Precomputed(X @ X.T), Precomputed(np.eye(40))]), None, Y),
    "scaled": (make_pipeline(StandardScaler(), PCA(3), MKLClassifier(KERNELS[:2])), X, Y),
    "columns": (make_pipeline(_columns(), MKLClassifier([RBF(), Linear()])), FRAME, Y),
    "holes": (
        make_pipeline(
            SimpleImputer(add_indicator=True), SelectKBest(k=3), MKLRegressor(KERNELS[:2])
        ),
        HOLES,
        X[:, 0],
    ),
    "union": (
        make_pipeline(
            FeatureUnion([("a", MinMaxScaler()), ("b", StandardScaler())]),
            MKLFeatureSelector(threshold=1e-3, max_iter=3),
            MKLClassifier([RBF()]),
        ),
        X,
        Y,
    ),
}


def sound_file(name, folder):
    """The parts of a file of a fitted model."""
    model, points, targets = MODELS[name]
    path = Path(folder) / "sound.mk"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = copy.deepcopy(model).fit(
            np.arange(40)[:, None] if points is None else points, targets
        )
    save(model, path)
    points = [X @ X.T, np.eye(40)] if points is None else points
    return Sound(*read(path, "model"), points)


ODD = (
    None, True, 0, 1, -1, 3, 10**12, 2**70, 0.5, -2.5, 1e300, 1e308, "", "x", "0", [], {}, [0],
    [[]], {"float": "nan"}, {"float": "inf"}, {"tuple": []}, {"dict": []},
    {"array": ["float64", []]}, {"array": ["int64", [0]]},
    {"array": ["float64", [{"float": "nan"}]]},
    {"strings": [[0], "str", []]}, {"slice": [None, None, None]}, {"set": [1]},
    {"type": "float"}, {"dtype": "float32"}, {"function": "numpy.log"}, {"object": ["RBF", {}]},
    {"object": ["Linear", {}]}, {"strings": [[1], "object", ["x"]]}, {"objects": [[1], [1]]},
    {"objects": [[2], ["x", None]]}, {"array": ["float64", [-1e308]]},
)  # fmt: skip


def altered(sound, rng):
    """The arrays and the content of a file with one thing altered, and which."""
    arrays, content = dict(sound.arrays), copy.deepcopy(sound.content)
    if arrays and rng.random() < 0.35:
        name = sorted(arrays)[rng.integers(len(arrays))]
        how, made = _other_array(arrays[name], rng)
        if made is None:
            del arrays[name]
        else:
            arrays[name] = made
        return arrays, content, f"array {name!r}: {how}"
    return arrays, content, _alter_content(content, rng)


def _alter_content(content, rng):
    places = []

    def visit(node, path):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key, f"{path}/{key}"))
            if isinstance(node[key], (dict, list)):
                visit(node[key], f"{path}/{key}")

    visit(content, "")
    node, key, path = places[rng.integers(len(places))]
    old = copy.deepcopy(node[key])
    change = rng.integers(4)
    if change == 0:
        del node[key]
        return f"{path} dropped"
    if change == 1:
        other, place, where = places[rng.integers(len(places))]
        node[key] = (
            copy.deepcopy(other[place]) if other is not node else ODD[rng.integers(len(ODD))]
        )
        return f"{path} as {where}: {_short(old)} -> {_short(node[key])}"
    node[key] = _other_value(old, rng) if change == 2 else ODD[rng.integers(len(ODD))]
    return f"{path}: {_short(old)} -> {_short(node[key])}"


def _other_value(value, rng):
    """Something near a value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return [value + 1, value - 1, -value, 10 * value, value + 0.5, str(value)][rng.integers(6)]
    if isinstance(value, str):
        return [value + "x", value[:-1], value.upper(), value[::-1]][rng.integers(4)]
    if isinstance(value, list) and value:
        return [value[:-1], value[1:], value[::-1], [*value, value[-1]], [value], value[0]][
            rng.integers(6)
        ]
    if isinstance(value, dict) and value:
        return [list(value), list(value.values()), {**value, "more": 1}][rng.integers(3)]
    return ODD[rng.integers(len(ODD))]


def _other_array(array, rng):
    """A name for what was done to an array, and what it became."""
    made = np.array(array)

    def put(value, place):
        if made.size:
            with np.errstate(all="ignore"):
                made.reshape(-1)[place] = np.array(value).astype(made.dtype)
        return made

    some = int(rng.integers(max(made.size, 1)))
    changes = {
        "dropped": lambda: None,
        "shorter": lambda: made[:-1] if made.ndim else made,
        "empty": lambda: made.reshape(-1)[:0],
        "longer": lambda: np.concatenate([made, made[-1:]]) if made.ndim else made,
        "narrower": lambda: made[:, :-1] if made.ndim > 1 else made[:1],
        "reversed": lambda: np.ascontiguousarray(made[::-1]),
        "shuffled": lambda: rng.permutation(made),
        "transposed": lambda: np.ascontiguousarray(made.T) if made.ndim > 1 else made[None],
        "flat": lambda: made.reshape(-1),
        "deeper": lambda: made[None],
        "whole": lambda: np.nan_to_num(made).astype(np.int64),
        "short whole": lambda: np.nan_to_num(made).astype(np.int32),
        "floats": lambda: made.astype(np.float64),
        "short floats": lambda: made.astype(np.float32),
        "booleans": lambda: made.astype(bool),
        "bytes": lambda: np.nan_to_num(made).astype(np.uint8),
        "last zero": lambda: put(0, -1),
        "first one": lambda: put(1, 0),
        "zeros": lambda: np.zeros_like(made),
        "nan": lambda: put(np.nan, some) if made.dtype.kind == "f" else put(-1, some),
        "infinite": lambda: put(np.inf, some) if made.dtype.kind == "f" else put(2**31 - 1, some),
        "huge": lambda: put(1e300 if made.dtype == np.float64 else 2**30, some),
        "largest": lambda: put(1e308 if made.dtype == np.float64 else 2**30, some),
        "all largest": lambda: put(-1e308 if made.dtype == np.float64 else 2**30, slice(None)),
        "negative": lambda: put(-1, some),
        "far negative": lambda: put(-(10**6), some),
        "one more": lambda: put(made.reshape(-1)[some] + 1, some) if made.size else made,
    }
    how = sorted(changes)[rng.integers(len(changes))]
    with np.errstate(all="ignore"):
        return how, changes[how]()


def _short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# columns of other names, other categories, no holes, or holes that are marked otherwise
OTHER_DATA = (
    *("feature names", "Found unknown categories", "SelectKBest does not accept missing"),
    "SimpleImputer does not accept missing",
)


def _of_other_data(model, points, error):
    """Whether a file is sound, but of a model of other data, as where a step has been left out."""
    width = getattr(points, "shape", (0, model.n_features_in_))[1]
    return model.n_features_in_ != width or any(words in str(error) for words in OTHER_DATA)


def outcome(path, sound, rng):
    """What was altered, and "refused", "predicts", or the traceback of what it came to."""
    arrays, content, what = altered(sound, rng)
    write(path, arrays, content, "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = load(path)
        except ValueError:
            return what, "refused"
        except Exception:
            return what, "loading: " + traceback.format_exc()
        try:
            values = model.predict(sound.points)
            if hasattr(model, "decision_function"):
                values = model.decision_function(sound.points)
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                return what, "predicting: values that are not finite"
        except Exception as error:
            if isinstance(error, ValueError) and _of_other_data(model, sound.points, error):
                return what, "predicts"
            return what, "predicting: " + traceback.format_exc()
    return what, "predicts"


def campaign(count, seed=0, names=tuple(MODELS)):
    """Alter so many files; those that were neither refused nor predicted, and how many were."""
    faulty, counts = [], {"refused": 0, "predicts": 0}
    with tempfile.TemporaryDirectory() as folder:
        sounds = {name: sound_file(name, folder) for name in names}
        for number in range(count):
            name = names[number % len(names)]
            path = Path(folder) / "altered.mk"
            print(f"{seed} {number} {name}", file=sys.stderr)  # if it is the last, it has crashed
            what, end = outcome(path, sounds[name], np.random.default_rng((seed, number)))
            if end in counts:
                counts[end] += 1
            else:
                faulty.append((name, number, what, end))
    return faulty, counts


if __name__ == "__main__":
    faulthandler.enable()
    faults, totals = campaign(int(sys.argv[1]), *map(int, sys.argv[2:3]))
    for name, number, what, end in faults:
        print(f"---- {name} {number}: {what}\n{end}")
    print(totals, "faults:", len(faults))
