# Two commands do everything, setup included:  make demo   make test
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

demo: $(VENV)/installed
	$(BIN)/python examples/demo.py

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -n 2 --dist worksteal

bench: $(VENV)/installed
	$(BIN)/python benchmarks/sketching.py
	$(BIN)/python benchmarks/sources.py

clean:
	rm -rf $(VENV) build dist
