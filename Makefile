# Each target does everything on a machine that has only Python and pip.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: test demo lint bench clean

test: $(VENV)/ready
	$(BIN)/python -m pytest -n auto --dist worksteal

demo: $(VENV)/demo
	$(BIN)/python examples/demo.py

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(VENV)/ready
	$(BIN)/python -m benchmarks foundations

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[test,bench]"
	touch $@

$(VENV)/demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable ".[plot,frames]"
	touch $@

clean:
	rm -rf $(VENV) out .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
