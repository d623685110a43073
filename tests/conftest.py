"""Shared problems and data, and how much of the tests a run takes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations, groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import manykernels
from manykernels import thresholds
from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Laplacian, Linear, Polynomial

THOROUGH = os.environ.get("MANYKERNELS_THOROUGH", "0") not in ("", "0")

# a run before a change lands takes both
FEW, MANY = 5, 40
settings.register_profile("default", max_examples=FEW, deadline=None)
settings.register_profile("thorough", max_examples=MANY, deadline=None)
settings.load_profile("thorough" if THOROUGH else "default")

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def examples(thorough):
    """How many examples a property takes: ``thorough`` in `make test-all`, else five at most."""
    return thorough if THOROUGH else min(thorough, FEW)


def pytest_configure(config):
    """Compile the loops of a new checkout before several processes run its tests, a part in each of
    two processes: each would compile all of them otherwise.
    """
    is_worker, several = hasattr(config, "workerinput"), getattr(config.option, "numprocesses", 0)
    loops = Path(manykernels.__file__).parent / "_loops"
    if is_worker or not several or config.option.collectonly or any(loops.rglob("*.nbi")):
        return
    program = [sys.executable, str(Path(__file__).with_name("compiled.py"))]
    parts = [subprocess.Popen([*program, part]) for part in ("kernels", "factors")]
    for part in parts:
        part.wait()


@contextmanager
def clock_ahead(hours):
    """Where ``time.time`` and ``time.time_ns`` are so many hours ahead."""
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + 3600 * hours
    time.time_ns = lambda: nanoseconds() + 3600 * 10**9 * hours
    try:
        yield
    finally:
        time.time, time.time_ns = seconds, nanoseconds


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """A process that only lists the tests may be told to do so at another hour
    (``MANYKERNELS_HOURS_AHEAD``): ids must not depend on the clock. (Never one that runs them:
    libraries that take the clock when they are imported keep the other hour.)
    """
    ahead = int(os.environ.get("MANYKERNELS_HOURS_AHEAD", "0"))
    if not ahead:
        return (yield)
    assert session.config.option.collectonly, "MANYKERNELS_HOURS_AHEAD is for --collect-only"
    with clock_ahead(ahead):
        return (yield)


def pytest_collection_modifyitems(items):
    """Of the rows of a test marked ``pairwise``, mark as ``long`` those that are not needed for
    every two values of its parameters to meet.
    """

    def test_of(item):
        return item.nodeid.partition("[")[0]

    tables = [
        item
        for item in items
        if item.get_closest_marker("pairwise") and not item.get_closest_marker("long")
    ]
    # fixtures of a module bring rows of several tests together
    for _, table in groupby(sorted(tables, key=test_of), key=test_of):
        pairs_seen = set()
        rows = [(item, _pairs(item.callspec.params)) for item in table]
        while rows:
            # the row with most new pairs; the first of equals, so that every run takes the same
            item, pairs = max(rows, key=lambda row: len(row[1] - pairs_seen))
            if pairs <= pairs_seen:
                break
            pairs_seen |= pairs
            rows = [row for row in rows if row[0] is not item]
        for item, _ in rows:
            item.add_marker(pytest.mark.long)


def _pairs(params):
    """Every two values of a row, each with the name of its parameter."""
    return set(combinations([(name, id(value)) for name, value in sorted(params.items())], 2))


def data_folder():
    """The folder of real data: ``MANYKERNELS_DATA``, or ``shared/data`` beside the checkout."""
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
def lower(monkeypatch):
    """A function that gives thresholds other values until the test ends."""

    def lower(**changed):
        monkeypatch.setattr(thresholds, "TABLE", replace(thresholds.TABLE, **changed))

    return lower


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
