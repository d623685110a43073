"""Parameters and kernels as JSON and arrays, and back.

Plain values, arrays and objects of the library's own classes can be packed. Of an object only its
class's name and the parameters of its constructor are kept, and only classes of this file's table
are ever built again: a file cannot name any other code. A value that is packed is either a plain
one (None, bool, number, text, list) or a mapping with one entry that says what the value is.
"""

import inspect
import math
import numbers
import os
import re
from functools import cache
from typing import Any

import numpy as np

from .. import kernels
from .._files import CorruptFile
from ..kernels import KernelCollection, Precomputed
from ..kernels.collection import MaskedCollection
from ..kernels.groups import GroupedCollection
from ..kernels.precomputed import GramElsewhere

INLINE = 32  # entries of an array that is written as text
DEPTH = 30  # of values within values
NUMBERS = (
    "bool",
    "float16",
    "float32",
    "float64",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
SELECTION = (  # functions of sklearn.feature_selection that parameters may name
    "chi2",
    "f_classif",
    "f_regression",
    "mutual_info_classif",
    "mutual_info_regression",
    "r_regression",
)
ELEMENTWISE = ("abs", "cbrt", "exp", "expm1", "log", "log10", "log1p", "log2", "sqrt", "square")
# types that parameters may name
TYPES = {kind.__name__: kind for kind in (bool, float, int, object, str)} | {
    f"numpy.{name}": getattr(np, name)
    for name in (*NUMBERS[1:], "number", "floating", "integer", "object_")
}


class CannotSave(TypeError):
    """Something that a file cannot hold safely, such as a function."""


KERNELS = {
    name: getattr(kernels, name)
    for name in (
        *("RBF", "Laplacian", "Linear", "Polynomial"),
        *("Hamming", "Spectrum", "Tanimoto", "MinMax"),
    )
}


@cache
def known_functions() -> dict[str, Any]:
    """The functions that parameters may name."""
    from sklearn import feature_selection

    ours = {f"numpy.{name}": getattr(np, name) for name in ELEMENTWISE}
    return ours | {f"sklearn.{name}": getattr(feature_selection, name) for name in SELECTION}


@cache
def known_classes() -> dict[str, type]:
    """The classes whose objects can be packed, by name; what predicts needs the kernels alone."""
    from .. import combinations, losses, lowrank, regularizers
    from ..solvers import SOLVERS
    from ..solvers.reference.fixed import Alignment, Uniform
    from ..solvers.reference.gfb import GFB
    from ..solvers.reference.simplex import SILP, MirrorDescent, SimpleMKL

    known: list[type] = [combinations.Product, combinations.PolynomialMixture]
    known += [lowrank.Nystroem, lowrank.IncompleteCholesky, lowrank.RandomFourier]
    balls = (
        "PNormBall",
        "SquaredPNorm",
        "L1",
        "GeneralizedKL",
        "ElasticNet",
        "BlockNorm",
        "LogDet",
        "SimplexRidge",
    )
    known += [getattr(regularizers, name) for name in balls]
    known += losses.LOSSES.values()
    known += [solver for solver in SOLVERS.values() if isinstance(solver, type)]
    known += [GFB, SILP, Alignment, MirrorDescent, SimpleMKL, Uniform]
    return KERNELS | {one.__name__: one for one in known}


class Packer:
    """Turns values into JSON; large arrays are put aside.

    Attributes
    ----------
    arrays : dict
        What was put aside, by name.
    """

    def __init__(self):
        self.arrays = {}

    @property
    def classes(self) -> dict[str, Any]:
        """The classes whose objects can be packed, by name."""
        return known_classes()

    def pack(self, value, where):
        """JSON for a value; `where` it is, for the message if it cannot be packed."""
        if value is None or isinstance(value, (bool, str)):
            return str(value) if isinstance(value, np.str_) else value
        if isinstance(value, np.generic):
            return self._pack_array(np.asarray(value), where)
        if isinstance(value, numbers.Integral):
            return int(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        return self._pack_many(value, where)

    def _pack_many(self, value, where):
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, list):
            return [self.pack(one, where) for one in value]
        if isinstance(value, (tuple, set, frozenset)) and type(value).__name__ in (
            "tuple",
            "set",
            "frozenset",
        ):
            return {type(value).__name__: [self.pack(one, where) for one in value]}
        if isinstance(value, slice):
            return {
                "slice": [self.pack(part, where) for part in (value.start, value.stop, value.step)]
            }
        if isinstance(value, dict):
            return {
                "dict": [
                    [self.pack(key, where), self.pack(one, where)] for key, one in value.items()
                ]
            }
        if isinstance(value, np.ndarray):
            return self._pack_array(value, where)
        if isinstance(value, (np.dtype, type)) or callable(value):
            named = self._pack_named(value)
            if named is not None:
                return named
        if isinstance(value, Precomputed):
            return {"gram": [self.pack(value.features, where), value.title]}
        if isinstance(value, KernelCollection):
            return self._pack_collection(value, where)
        return self._pack_object(value, where)

    def _pack_named(self, value):
        """A type or function by its name, if it is in the tables."""
        if isinstance(value, np.dtype):
            return {"dtype": value.str if value.kind == "U" else value.name}
        for kind, table in (("type", TYPES), ("function", known_functions())):
            for name, one in table.items():
                if one is value:
                    return {kind: name}
        return None

    def _pack_array(self, array, where):
        if array.dtype.kind in "OUT":
            listed = array.ravel().tolist()
            if all(isinstance(one, str) for one in listed):
                return {
                    "strings": [
                        list(array.shape),
                        "object" if array.dtype.kind == "O" else "str",
                        listed,
                    ]
                }
            if not all(isinstance(one, (bool, int, float, str, type(None))) for one in listed):
                raise CannotSave(
                    f"{where} holds an array of Python objects, which a file cannot hold safely: "
                    "make it numbers."
                )
            return {"objects": [list(array.shape), [self.pack(one, where) for one in listed]]}
        if array.dtype.name not in NUMBERS:
            raise CannotSave(
                f"{where} holds an array of type {array.dtype}, which a file cannot hold: make it "
                "numbers."
            )
        if array.ndim <= 1 and array.size <= INLINE:
            return {"array": [array.dtype.name, self.pack(array.tolist(), where)]}
        kept = array.astype(_kept_type(array.dtype), copy=False)
        name = self._held(kept)
        if name is None:
            name = f"{where} {len(self.arrays)}"
            self.arrays[name] = kept
        return {"tensor": [array.dtype.name, name]}

    def _held(self, array):
        """The name of an equal array that was put aside before; None if there is none."""
        for name, other in self.arrays.items():
            if other.dtype == array.dtype and np.array_equal(other, array):
                return name
        return None

    def _pack_collection(self, collection, where):
        if isinstance(collection, MaskedCollection):
            masks = {
                "gammas": collection.gammas,
                "packed": collection.packed,
                "n_features": collection.n_features,
            }
            return {"masked": self.pack(masks, where)}
        if isinstance(collection, GroupedCollection):
            return {"grouped": self.pack([dict(collection.columns), dict(collection.own)], where)}
        return {"kernels": [self.pack(list(collection.kernels), where), list(collection.groups)]}

    def _pack_object(self, value, where):
        kind = type(value)
        if self.classes.get(kind.__name__) is not kind:
            raise CannotSave(
                f"{where} holds {_short(value)}, which is not of this library, and a model file "
                "holds no code. Use pickle, "
                "joblib or skops for this model, and load it only where you trust the file."
            )
        names = [name for name in inspect.signature(kind).parameters if hasattr(value, name)]
        return {
            "object": [
                kind.__name__,
                {name: self.pack(getattr(value, name), where) for name in names},
            ]
        }


class Unpacker:
    """Turns JSON into values again.

    Parameters
    ----------
    arrays : dict
        What the packer put aside.

    Attributes
    ----------
    kinds : tuple of str
        What packed values may be.
    """

    kinds: tuple[str, ...] = (
        "float", "tuple", "set", "frozenset", "slice", "dict", "array", "strings", "objects",
        "tensor", "dtype", "type", "function", "gram", "masked", "grouped", "kernels", "object",
    )  # fmt: skip

    def __init__(self, arrays):
        self.arrays = arrays

    @property
    def classes(self) -> dict[str, Any]:
        """The classes whose objects may be made, by name."""
        return known_classes()

    def unpack(self, packed, depth=0):
        """The value."""
        if depth > DEPTH:
            raise CorruptFile("Values are nested too deeply.")
        if isinstance(packed, list):
            return [self.unpack(one, depth + 1) for one in packed]
        if not isinstance(packed, dict):
            return packed
        ((kind, content),) = packed.items()
        if kind not in self.kinds:
            raise CorruptFile(f"Unknown kind of value {kind[:40]!r}.")
        return getattr(self, f"_{kind}")(content, depth + 1)

    def _float(self, content, depth):
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]

    def _tuple(self, content, depth):
        return tuple(self.unpack(one, depth) for one in content)

    def _set(self, content, depth):
        return set(self._tuple(content, depth))

    def _frozenset(self, content, depth):
        return frozenset(self._tuple(content, depth))

    def _slice(self, content, depth):
        start, stop, step = self._tuple(content, depth)
        return slice(start, stop, step)

    def _dict(self, content, depth):
        return {self.unpack(key, depth): self.unpack(one, depth) for key, one in content}

    def _array(self, content, depth):
        dtype, listed = content
        array = np.array(self.unpack(listed, depth), dtype=_number_type(dtype))
        if array.ndim > 1:
            raise CorruptFile("A list of numbers holds lists.")
        return array[()]

    def _strings(self, content, depth):
        shape, dtype, listed = content
        if not all(isinstance(one, str) for one in listed):
            raise CorruptFile("A list of names holds something else.")
        return np.array(listed, dtype={"object": object, "str": str}[dtype]).reshape(shape)

    def _objects(self, content, depth):
        shape, listed = content
        out = np.empty(len(listed), dtype=object)
        out[:] = [self.unpack(one, depth) for one in listed]
        return out.reshape(shape)

    def _tensor(self, content, depth):
        dtype, name = content
        array, dtype = self.arrays[name], _number_type(dtype)
        if array.dtype != _kept_type(dtype):
            raise CorruptFile("An array is of another type than it was.")
        return array.astype(dtype, copy=False)

    def _dtype(self, content, depth):
        if content == "object" or re.fullmatch(r"[<>]U[0-9]{1,6}", content):
            return np.dtype(content)
        return _number_type(content)

    def _type(self, content, depth):
        return TYPES[content]

    def _function(self, content, depth):
        return known_functions()[content]

    def _gram(self, content, depth):
        features, title = content
        return GramElsewhere(self.unpack(features, depth), title)

    def _masked(self, content, depth):
        parts = self.unpack(content, depth)
        if parts["packed"].shape != (len(parts["gammas"]), -(-parts["n_features"] // 8)):
            raise CorruptFile("The masks of the kernels do not have the right shape.")
        masks = np.unpackbits(parts["packed"], axis=1, count=parts["n_features"]).astype(bool)
        return MaskedCollection(parts["gammas"], masks)

    def _grouped(self, content, depth):
        columns, own = self.unpack(content, depth)
        return GroupedCollection(columns, own)

    def _kernels(self, content, depth):
        kernels, groups = content
        collection = KernelCollection(self.unpack(kernels, depth))
        if len(groups) != len(collection) or not all(isinstance(group, str) for group in groups):
            raise CorruptFile("There is not one group per kernel.")
        collection.groups = list(groups)
        return collection

    def _object(self, content, depth):
        name, parameters = content
        if name not in self.classes:
            raise CorruptFile(
                f"The file asks for {name[:40]!r}, which is not a class that files may hold."
            )
        return self.classes[name](
            **{key: self.unpack(value, depth) for key, value in parameters.items()}
        )


def _number_type(name):
    if name not in NUMBERS:
        raise CorruptFile(f"Arrays in a file hold numbers, not {str(name)[:40]!r}.")
    return np.dtype(name)


def _kept_type(dtype):
    """The type that numbers of a type are written as."""
    if dtype.name in ("float32", "uint8", "bool"):
        return dtype
    return np.dtype(np.float64 if dtype.kind == "f" else np.int64)


def _short(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# --- whether values of a file are what they should be, before anything is made of them ------------


def require(condition, message):
    """Raise CorruptFile unless a condition holds."""
    if not condition:
        raise CorruptFile(message)


def check_array(value, what, shape, kinds="f", finite=True):
    """The value, if it is an array of these kinds of numbers and of this shape.

    Parameters
    ----------
    value : object
    what : str
        For the message.
    shape : tuple of int or None
        None for any length.
    kinds : str
        Codes of NumPy's kinds of types.
    finite : bool
        Whether NaN and infinity are refused.
    """
    good = isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == len(shape)
    good = good and all(
        length is None or length == given for length, given in zip(shape, value.shape, strict=True)
    )
    wanted = " by ".join("any" if length is None else str(length) for length in shape)
    require(good, f"{what} should be an array of numbers, {wanted}.")
    if finite and value.dtype.kind == "f":
        require(np.isfinite(value).all(), f"{what} should be finite.")
    return value


def check_indices(value, what, below, size=None):
    """The value, if it is an array of indices below a number."""
    check_array(value, what, (size,), "iu")
    within = value.size == 0 or (value.min() >= 0 and value.max() < below)
    require(within, f"{what} should be indices below {below}.")
    return value


def check_whole(value, what, least=0):
    """The value, if it is a whole number of at least so much."""
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    require(good, f"{what} should be a whole number of at least {least}.")
    return value


def check_number(value, what):
    """The value, if it is a number, which may be infinite or missing."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(good, f"{what} should be a number.")
    return value


def check_list(value, what, size=None):
    """The value, if it is a list, of this size if one is given."""
    good = isinstance(value, list) and (size is None or len(value) == size)
    require(good, f"{what} should be a list{'' if size is None else f' of {size}'}.")
    return value


def check_mapping(value, what, kind=object):
    """The value, if it is a mapping from values of a kind."""
    good = isinstance(value, dict) and all(isinstance(key, kind) for key in value)
    require(good, f"{what} should be a mapping.")
    return value


def check_categories(value, what, kind):
    """The value, if it is a mapping from columns to lists of categories."""
    for entries in check_mapping(value, what, kind).values():
        check_list(entries, what)
        plain = all(isinstance(entry, (str, int, float, np.generic)) for entry in entries)
        require(plain, f"{what} should be texts and numbers.")
    return value
