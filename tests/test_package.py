"""The package as such."""

import ast
import gzip
import io
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import manykernels
from conftest import clock_ahead


def test_public_names():
    for name in manykernels.__all__:
        assert getattr(manykernels, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = manykernels.nothing


def test_import_is_lazy():
    """Importing the package loads none of the libraries that take long."""
    code = """if True:
        import sys, manykernels
        print([m for m in ('numpy', 'sklearn', 'numba', 'scipy') if m in sys.modules])
    """
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


FIT = """
import sys
import numpy as np
from manykernels import MKLClassifier
X = np.random.default_rng(0).standard_normal((20, 2))
MKLClassifier(checkpoint=sys.argv[1] or None).fit(X, X[:, 0] > 0).predict(X)
above = ("display", "persistence", "omics", "readers", "cli", "solvers.reference.")
above = (*(f"manykernels.{one}" for one in above), "anndata", "mudata")
print(sorted(name for name in sys.modules if name.startswith(above)))
"""


@pytest.mark.parametrize("checkpoint", [pytest.param("", marks=pytest.mark.long), "run.mk"])
def test_a_fit_loads_nothing_of_the_floors_above(checkpoint, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FIT, checkpoint],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "[]"


def test_types_ship():
    assert (Path(manykernels.__file__).parent / "py.typed").exists()


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(manykernels.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.name: f".{node.module}" for node in block.body for alias in node.names}
    assert seen == manykernels._WHERE
    assert sorted(seen) == manykernels.__all__


def compressed():
    """Bytes that hold the time."""
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb") as file:
        file.write(b"rows")
    return stream.getvalue()


def test_a_clock_that_is_ahead():
    here = compressed()
    with clock_ahead(1):
        there = compressed()
    times = [int.from_bytes(packed[4:8], "little") for packed in (here, there)]
    assert 3600 <= times[1] - times[0] < 7200


PROCESSES = 20
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider")


def collected(number):
    """What a process with hash seed and hour of its own collects, line by line."""
    own = {"PYTHONHASHSEED": str(number), "MANYKERNELS_HOURS_AHEAD": str(number)}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, *COLLECT],
        cwd=Path(__file__).parents[1],
        env=kept | own,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.mark.long
def test_another_process_collects_the_same_tests(request):
    """At another hour and with other hashes, or workers of pytest-xdist would differ by chance."""
    missing = {item.nodeid for item in request.session.items} - set(collected(1))
    assert sorted({name.partition("[")[0] for name in missing}) == []


@pytest.mark.long
def test_every_process_collects_the_same_tests():
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        first, *others = pool.map(collected, range(PROCESSES))
    differing = set().union(*(set(first) ^ set(other) for other in others))
    assert sorted({name.partition("[")[0] for name in differing}) == []
    assert all(other == first for other in others)  # and in the same order


HARDENED = Path(__file__).parent / "hardened_fit.py"


@pytest.fixture(scope="module")
def image():
    """A folder with the package, compiled loops and a model, of the administrator's alone."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to become another user")
    with tempfile.TemporaryDirectory() as folder:
        image, bytecode = Path(folder), shutil.ignore_patterns("__pycache__")
        shutil.copytree(Path(manykernels.__file__).parent, image / "manykernels", ignore=bytecode)
        shutil.copy(HARDENED, image)
        kept = {"NUMBA_CACHE_DIR": str(image / "loops"), "PYTHONDONTWRITEBYTECODE": "1"}
        run_hardened([], image, os.environ | kept)
        subprocess.run(["chmod", "-R", "a+rX,a-w", image], check=True)
        yield image


def run_hardened(command, image, environment):
    """What is said on the way."""
    done = subprocess.run(
        [*command, sys.executable, image / HARDENED.name, image / "model.mk"],
        cwd="/",
        env=environment | {"PYTHONPATH": str(image)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(image / "manykernels" / "__init__.py")
    return done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("environment", "warnings"),
    [
        ({}, 1),
        ({"HOME": "/nonexistent"}, 1),
        ({"NUMBA_CACHE_DIR": "/proc/nope"}, 1),
        ({"NUMBA_CACHE_DIR": "{image}/loops"}, 0),
    ],
    ids=["no-home", "home-that-is-not-there", "folder-that-cannot-be", "compiled-before"],
)
def test_another_user(image, environment, warnings):
    """The package belongs to root; someone who can write nowhere imports it, loads a model,
    predicts and fits: `pytest -m long tests/test_package.py -k another_user`, as root.
    """
    environment = {name: value.format(image=image) for name, value in environment.items()}
    # the interpreter may lie where only its owner may look: reading is allowed, writing is not
    reads = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient")]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *reads]
    told = run_hardened(nobody, image, {"PATH": os.environ["PATH"], **environment})
    assert told.count("UserWarning") == told.count("set NUMBA_CACHE_DIR") == warnings
