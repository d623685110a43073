"""The package as such."""

import subprocess
import sys
from pathlib import Path

import pytest

import manykernels


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
above = ("display", "persistence", "omics", "readers", "cli")
above = (*(f"manykernels.{one}" for one in above), "anndata", "mudata")
print(sorted(name for name in sys.modules if name.startswith(above)))
"""


@pytest.mark.parametrize("checkpoint", ["", "run.mk"])
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
    source = Path(manykernels.__file__).read_text()
    for name in manykernels.__all__:
        assert f"import {name} as {name}\n" in source
