# Everything sets itself up: `make demo` and `make test` work on a fresh machine that has Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test test-all lint types contracts tables docs wheel ci clean

$(VENV)/.runtime: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet torch -c constraints.txt
	$(PIP) install --quiet -e . -c constraints.txt
	touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install --quiet -e '.[dev,docs]' -c constraints.txt
	touch $@

demo: $(VENV)/.runtime
	$(BIN)/anaphora demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow and not gpu" -n 2 --dist worksteal --timeout 600

test-all: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not gpu" -n 2 --dist worksteal --timeout 1800

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports --no-cache

tables: $(VENV)/.dev
	$(BIN)/python docs/tables.py

docs: $(VENV)/.dev
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env -b html -d build/doctrees docs site

wheel: $(VENV)/.dev
	rm -rf dist build/wheel
	$(BIN)/python -m hatchling build > /dev/null
	$(BIN)/python tests/structure/check_wheel.py dist build/wheel

ci: test lint types contracts docs wheel

clean:
	rm -rf $(VENV) site dist build
