"""The examples in docstrings run, and the main pages of the reference have some."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import manykernels

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(manykernels.__path__, "manykernels.")
    if not name.endswith("__main__")
]


def sources():
    """Modules whose source has a prompt, found without importing all of them."""
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        with open(spec.origin, encoding="utf-8") as file:
            if ">>> " in file.read():
                yield name


@pytest.mark.parametrize("name", list(sources()))
def test_examples_run(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize(
    "name", sorted(set(manykernels.__all__) - {"Checkpoint", "KernelCollection", "load", "report"})
)
def test_what_people_import_has_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(manykernels, name))
