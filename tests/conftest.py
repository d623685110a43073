"""Shared problems and data."""

import os
from pathlib import Path

import numpy as np
import pytest

from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Laplacian, Linear, Polynomial


def data_folder():
    """The folder of real data sets: ``MANYKERNELS_DATA``, or ``shared/data`` beside the checkout."""
    return Path(os.environ.get("MANYKERNELS_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture
def load():
    """A loader of real data sets by name: standardized X, y in {-1, +1}; skips where the set is
    absent.
    """

    def load(name):
        path = data_folder() / f"{name}.npz"
        if not path.exists():
            pytest.skip(
                f"data set {name} is not here ({path}); set MANYKERNELS_DATA to the folder that "
                "has it"
            )
        with np.load(path) as archive:
            X, y = archive["X"].astype(float), archive["y"].astype(float)
        deviation = X.std(axis=0)
        return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y

    return load


@pytest.fixture
def rng():
    """Random numbers that are the same in every run."""
    return np.random.default_rng(0)


def toy(n=40, seed=0):
    """Points in four dimensions and labels that depend on a product of two of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n) > 0, 1.0, -1.0)


MIXED = [
    RBF(0.5, features=[0, 1]),
    RBF(2.0, features=[2, 3]),
    Linear(),
    Polynomial(2),
    Laplacian(0.3),
    RBF(0.1, features=[0]),
    Polynomial(3, features=[1]),
    RBF(8.0),
]


@pytest.fixture
def mixed_bank():
    """Eight kernels of all kinds on the toy points."""
    X, y = toy()
    return make_bank(KernelCollection(MIXED), X), X, y
