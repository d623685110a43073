"""The package as such."""

import subprocess
import sys

import pytest

import manykernels


def test_public_names():
    for name in manykernels.__all__:
        assert getattr(manykernels, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = manykernels.nothing


def test_import_is_lazy():
    """Importing the package loads none of the libraries that take long."""
    code = "import sys, manykernels; print([m for m in ('numpy', 'sklearn', 'numba', 'scipy') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
