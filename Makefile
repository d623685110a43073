# Each target does everything on a machine that has only Python and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Byte code is left to the first import, which must be allowed to keep it: most modules of most
# packages are never imported.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
# One process a core, so one thread each for linear algebra.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
# What `pytest` leaves out, and the property tests, which take more examples here.
REST := "long or device or browser or hypothesis"

.PHONY: test test-all coverage mutants lint demo bench bench-quick clean

test: $(VENV)/test
	$(PYTEST)

test-all: $(VENV)/test-all
	MANYKERNELS_THOROUGH=1 $(PYTEST) -m $(REST)

# Lines and branches of src that `test` and `test-all` together reach; compiled loops count as
# unreached, since no line of theirs runs in Python.
coverage: $(VENV)/coverage
	$(PYTEST) --cov=manykernels --cov-branch --cov-report=
	MANYKERNELS_THOROUGH=1 $(PYTEST) -m $(REST) --cov=manykernels --cov-branch --cov-append \
		--cov-report=term-missing:skip-covered

# Small faults put into the source one at a time, and whether the tests notice them.
mutants: $(VENV)/test $(VENV)/mutants
	$(BIN)/python -m benchmarks mutants

lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

demo: $(VENV)/demo
	$(BIN)/python examples/demo.py

# All benchmarks: small in minutes, or the whole in hours. What has a record of these files is not
# run again, so that a run that was ended goes on; both make benchmarks/RESULTS.md anew.
bench-quick: $(VENV)/bench
	$(BIN)/python -m benchmarks.harness --size quick

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks.harness --size full

# An environment per target would take minutes: each target adds its extras to one.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/coverage: $(VENV)/test-all

$(VENV)/demo: EXTRAS = plot,frames
$(VENV)/%: EXTRAS = $*
$(VENV)/%: pyproject.toml | $(BIN)/python
	$(INSTALL) --editable ".[$(EXTRAS)]"
	touch $@

clean:
	rm -rf $(VENV) out .pytest_cache .ruff_cache .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
