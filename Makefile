# Each target does everything on a machine that has only Python and pip.
comma := ,
space := $() $()
PYTHON ?= python3
VENV ?= .venv
ifeq ($(OS),Windows_NT)
PYTHON := python
BIN := $(VENV)/Scripts
EXE := .exe
else
BIN := $(VENV)/bin
EXE :=
endif
# Byte code is left to the first import, which must be allowed to keep it: most modules of most
# packages are never imported.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --no-compile
# One process a core, so one thread each for linear algebra.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal
# What `pytest` leaves out, and the property tests, which take more examples here.
REST := "long or device or browser or hypothesis"

.PHONY: test test-threads test-all coverage mutants lint demo bench bench-quick docs linkcheck package wheels clean

test: $(VENV)/test
	$(PYTEST)

# For Python without a global lock, with the packages that have wheels for it.
test-threads: $(VENV)/test-threads
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
# run again, so that a run that was ended goes on; both make benchmarks/RESULTS.md anew. With
# `--list` the harness says what is stale, with `--minutes 9` it ends by then.
bench-quick: $(VENV)/bench
	$(BIN)/python -m benchmarks.harness --size quick

bench: $(VENV)/bench
	$(BIN)/python -m benchmarks.harness --size full

# The site, in docs/_build/html. Every warning is an error: links inside of it that lead nowhere,
# docstrings that are no reStructuredText, examples of the gallery that fail.
SPHINX := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -d docs/_build/doctrees
docs: $(VENV)/docs
	$(SPHINX) -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# Links that lead out. Hosts that cannot be reached from here are listed, and are no error.
linkcheck: $(VENV)/docs
	$(BIN)/python docs/linkcheck.py

# What people would install: sdist and wheel, the wheel in an environment that has nothing else.
CLEAN := out/package
CLEAN_BIN := $(CLEAN)/$(notdir $(BIN))
package: $(VENV)/package
	rm -rf dist $(CLEAN)
	$(BIN)/python -m build --no-isolation --outdir dist
	$(PYTHON) -m venv --without-pip $(CLEAN)
	$(BIN)/python -m pip --python $(CLEAN_BIN)/python$(EXE) install --quiet --no-compile dist/*.whl
	$(CLEAN_BIN)/python -I tests/first_fit.py

# Whether everything that manykernels[all] needs comes as wheels, so that nobody needs a compiler.
wheels: package
	$(BIN)/python -m pip --python $(CLEAN_BIN)/python$(EXE) install --quiet --dry-run \
		--only-binary :all: "$$(echo dist/*.whl)[all]"

# An environment per target would take minutes: each target adds its extras to one.
$(BIN)/python$(EXE):
	$(PYTHON) -m venv $(VENV)

# What the targets that are checked before a change lands need, at once.
CHECKED := test test-all lint package
.PHONY: checked
checked: | $(BIN)/python$(EXE)
	$(INSTALL) --editable ".[$(subst $(space),$(comma),$(CHECKED))]"
	touch $(addprefix $(VENV)/,$(CHECKED))

$(VENV)/coverage: $(VENV)/test-all

$(VENV)/demo: EXTRAS = plot,frames
$(VENV)/%: EXTRAS = $*
$(VENV)/%: pyproject.toml | $(BIN)/python$(EXE)
	$(INSTALL) --editable ".[$(EXTRAS)]"
	touch $@

clean:
	rm -rf $(VENV) out dist .pytest_cache .ruff_cache .coverage docs/_build docs/gallery docs/api/generated
	find . -name __pycache__ -prune -exec rm -rf {} +
