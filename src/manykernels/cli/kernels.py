"""Kernels from words or from a JSON file."""

import json
import os
import re
import warnings

import numpy as np

WORDS = "auto, or some of rbf, laplacian, linear, poly and polyN with commas between them, or a JSON file"
FACTORS = 2.0 ** np.arange(-5, 5)  # of gamma="scale", for ten widths
MOST = 200_000  # kernels that "auto" may make before there is an error instead of a very long wait
NOT_IN_FILES = ("Kernel", "FunctionKernel", "Precomputed")


def kernels_from(text, X):
    """The kernels that an option asks for, on the training rows X.

    ``rbf`` and ``laplacian`` are ten widths around scikit-learn's ``gamma="scale"``, ``poly`` the
    degrees 2 and 3, all on all features that are numbers.
    """
    if text == "auto":
        if 13 * (X.shape[1] + 1) > MOST:
            raise ValueError(
                f"--kernels auto would make {13 * (X.shape[1] + 1)} kernels for {X.shape[1]} "
                "features; "
                "say --kernels rbf,linear,poly, or name kernels in a JSON file."
            )
        return "auto"
    if text.lower().endswith(".json"):
        return _from_file(text)
    features, gamma = _numeric(X)
    return [
        kernel for word in text.split(",") for kernel in _from_word(word.strip(), features, gamma)
    ]


def _from_word(word, features, gamma):
    from ..kernels import RBF, Laplacian, Linear, Polynomial

    if word in ("rbf", "laplacian"):
        kernel = RBF if word == "rbf" else Laplacian
        return [kernel(gamma=float(factor * gamma), features=features) for factor in FACTORS]
    if word == "linear":
        return [Linear(features=features)]
    if match := re.fullmatch(r"poly(\d*)", word):
        degrees = [int(match.group(1))] if match.group(1) else [2, 3]
        return [Polynomial(degree=degree, gamma=gamma, features=features) for degree in degrees]
    raise ValueError(f"--kernels {word!r} is not known; use {WORDS}.")


def _numeric(X):
    """The features that are numbers (None for all), and one over their summed variance."""
    from ..kernels.points import as_points
    from ..kernels.vector import weighted_variance

    features = None
    if hasattr(X, "columns"):
        numeric = [name for name in X.columns if X[name].dtype.kind in "fiub"]
        if len(numeric) < X.shape[1]:
            features = tuple(numeric)
            left = ", ".join(repr(name) for name in X.columns if name not in numeric)
            warnings.warn(
                f"Kernels of numbers do not see the columns {left}; --kernels auto does.",
                stacklevel=2,
            )
        X = X[numeric].astype(float)
    if X.shape[1] == 0:
        raise ValueError("There are no columns of numbers for these kernels; use --kernels auto.")
    variance = float(weighted_variance(as_points(X)).sum())
    return features, 1.0 / variance if variance > 0 else 1.0


def _from_file(path):
    """A list of kernels, or a mapping from groups to lists, each kernel as its kind and parameters."""
    with open(path, encoding="utf-8") as file:
        try:
            contents = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}.") from error
    if isinstance(contents, dict) and "kind" not in contents:
        return {
            group: [_kernel(entry, path) for entry in _listed(entries)]
            for group, entries in contents.items()
        }
    return [_kernel(entry, path) for entry in _listed(contents)]


def _listed(entries):
    return entries if isinstance(entries, list) else [entries]


def _kernel(entry, path):
    from .. import kernels

    kinds = {
        name.lower(): getattr(kernels, name) for name in kernels.__all__ if name not in NOT_IN_FILES
    }
    kinds = {
        name: kind
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, kernels.Kernel)
    }
    name = os.path.basename(path)
    if not isinstance(entry, dict) or str(entry.get("kind")).lower() not in kinds:
        raise ValueError(
            f'{name}: a kernel is written as {{"kind": …}} and its parameters, the kind being one of '
            f"{', '.join(sorted(kinds))}; got {entry!r}."
        )
    parameters = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in entry.items()
        if key != "kind"
    }
    try:
        return kinds[entry["kind"].lower()](**parameters)
    except TypeError as error:
        raise ValueError(
            f"{name}: {entry!r} does not fit the kernel {entry['kind']}: {error}."
        ) from error
