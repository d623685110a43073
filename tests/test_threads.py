"""Many threads of one process: fits, predictions and files give the bits of a thread alone."""

import contextvars
import os
import subprocess
import sys
import sysconfig
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    Predictor,
    compress,
    load,
    save,
)
from manykernels._pulse import has_listener, listening
from manykernels._threads import MATRIX_LIBRARY, Threads, one_thread
from manykernels.combinations import Product
from manykernels.kernels import RBF, Laplacian, Linear, Polynomial
from manykernels.lowrank import Nystroem, RandomFourier
from manykernels.thresholds import lowered

THREADS = 8
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 4))
SIDES = np.sign(X[:, 0] + X[:, 1] ** 2 - 1.0)
CLASSES = np.digitize(X[:, 0] - X[:, 1], [-0.5, 0.5])
NEW = rng.standard_normal((90, 4))
VALUES = np.sin(X[:, 0]) + X[:, 1]
LACKING = X.copy()
LACKING[::9, :2] = LACKING[4::9, 2:] = np.nan
# all models share these
KERNELS = [RBF(0.3), RBF(1.0, [0, 1]), Laplacian(0.5), Linear(), Polynomial(2, features=[2, 3])]
VIEWS = [RBF(0.5, [0, 1]), RBF(0.5, [2, 3])]
MODELS = {
    "default": (lambda: MKLClassifier(), X, SIDES),
    "classes": (lambda: MKLClassifier(KERNELS, p=2.0), X, CLASSES),
    "logistic": (lambda: MKLClassifier(KERNELS, loss="logistic"), X, SIDES),
    "regression": (lambda: MKLRegressor(KERNELS), X, VALUES),
    "squared": (lambda: MKLRegressor(KERNELS, loss="squared", p=1.5), X, VALUES),
    "one class": (lambda: MKLOneClass(KERNELS[:3]), X, None),
    "product": (lambda: MKLClassifier(combination=Product(starts=1)), X, SIDES),
    "Fourier": (
        lambda: MKLClassifier(KERNELS[:2], approximation=RandomFourier(24, random_state=0)),
        X,
        SIDES,
    ),
    "Nyström": (
        lambda: MKLClassifier(KERNELS, approximation=Nystroem(8, random_state=0)),
        X,
        SIDES,
    ),
    "missing": (lambda: MKLClassifier(VIEWS, missing="mean"), LACKING, SIDES),
    "tuned": (lambda: MKLClassifierCV(KERNELS[:2], Cs=[0.1, 1.0], cv=3), X, SIDES),
    "two threads": (lambda: MKLClassifier(KERNELS, n_jobs=2), X, CLASSES),
}


def at_once(work, tasks):
    """``[work(task) for task in tasks]``, each in a thread that begins when all are there."""
    tasks = list(tasks)
    ready = threading.Barrier(len(tasks))

    def begin(task):
        ready.wait()
        return work(task)

    with ThreadPoolExecutor(len(tasks)) as pool:
        return list(pool.map(begin, tasks))


def learned(name):
    """All that a fit of a model finds, and what it says of the rows."""
    make, rows, y = MODELS[name]
    model = make().fit(rows, y)
    said = model.decision_function if hasattr(model, "decision_function") else model.predict
    return [
        model.kernel_weights_,
        model.dual_coef_,
        np.asarray(model.intercept_),
        np.float64(model.result_.objective),
        said(rows),
    ]


def assert_same_bits(found, alone):
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def alone():
    """What a thread alone finds."""
    return {name: learned(name) for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_the_same_fit_in_every_thread(alone, name):
    for found in at_once(learned, [name] * THREADS):
        assert_same_bits(found, alone[name])


def test_other_fits_in_every_thread(alone):
    names = [*MODELS, *MODELS][: 2 * THREADS]
    for name, found in zip(names, at_once(learned, names), strict=True):
        assert_same_bits(found, alone[name])


@pytest.mark.parametrize("name", ["default", "classes", "Fourier", "Nyström", "missing", "product"])
@pytest.mark.parametrize("entries", [0, 2**40], ids=["compiled", "few rows"])
def test_a_model_answers_all(name, entries, tmp_path):
    make, rows, y = MODELS[name]
    model, parts = make().fit(rows, y), [rows[k::THREADS] for k in range(THREADS)]
    with lowered(uncompiled_entries=entries):
        wanted = [model.decision_function(part) for part in parts]
        save(model, tmp_path / "model.mk")
        twins = load(tmp_path / "model.mk"), Predictor(tmp_path / "model.mk")
        said = [twin.decision_function(rows) for twin in twins]  # prepares none of its successors
        fresh = make().fit(rows, y), load(tmp_path / "model.mk"), Predictor(tmp_path / "model.mk")
        assert_same_bits(at_once(fresh[0].decision_function, parts), wanted)
        for one, alone in zip(fresh[1:], said, strict=True):
            for found in at_once(one.decision_function, [rows] * THREADS):
                np.testing.assert_array_equal(found, alone)


def test_files_are_written_read_and_made_smaller(tmp_path):
    model = MKLClassifier(KERNELS[:3]).fit(X, SIDES)

    def turn(number):
        path = tmp_path / f"{number}.mk"
        save(model, path)
        small = compress(load(path), NEW, n_points=5, points="support", random_state=0)
        return [load(path).decision_function(X), small.decision_function(X)]

    wanted = turn(THREADS)
    for found in at_once(turn, range(THREADS)):
        assert_same_bits(found, wanted)


def blas_threads():
    """Of the libraries that were there when they were looked for."""
    libraries = MATRIX_LIBRARY._libraries or ThreadpoolController()
    return [one["num_threads"] for one in libraries.info() if one["user_api"] == "blas"]


def test_the_matrix_library_gets_its_threads_back():
    """Also if the thread that began first ends first."""
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(ThreadpoolController().limit, limits=3, user_api="blas").result()
    try:
        first, second = one_thread(), Threads(2).algebra()
        with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
            one.submit(first.__enter__).result()
            assert set(blas_threads()) == {1}
            other.submit(second.__enter__).result()
            one.submit(first.__exit__, None, None, None).result()
            other.submit(second.__exit__, None, None, None).result()
        assert set(blas_threads()) == {3}
    finally:
        before.restore_original_limits()


def test_a_context_within_another_holds():
    with threadpool_limits(3, user_api="blas"):
        with one_thread():
            with Threads(2).algebra():
                assert set(blas_threads()) == {2}
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {3}


def test_a_listener_hears_its_own_thread_alone():
    """Also where threads inherit the context of the thread that started them."""
    with listening(lambda: None):
        context = contextvars.copy_context()
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(context.run, has_listener).result()
        assert has_listener()


FIRST_USE = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

X = np.random.default_rng(0).standard_normal((60, 4))
ready = threading.Barrier(8)

def use(number):
    ready.wait()
    import manykernels

    for name in manykernels.__all__[number:] + manykernels.__all__[:number]:
        getattr(manykernels, name)
    model = manykernels.MKLClassifier().fit(X, X[:, 0] * X[:, 1] > 0)
    return model.decision_function(X).tobytes()

with ThreadPoolExecutor(8) as pool:
    assert len(set(pool.map(use, range(8)))) == 1
print(getattr(sys, "_is_gil_enabled", lambda: True)())
"""


@pytest.fixture(scope="module")
def locked():
    """Whether a process that begins in eight threads has the global lock at its end."""
    run = [sys.executable, "-c", FIRST_USE]
    chosen = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run(run, capture_output=True, text=True, env=chosen)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_threads_begin_with_the_import(locked):
    assert locked in ("True", "False")


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="needs Python without a global lock"
)
def test_nothing_brings_the_global_lock_back(locked):
    assert locked == "False"
