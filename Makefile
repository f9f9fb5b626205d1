# Everything runs in a virtual environment of the project's own, `.venv`, built on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup test test-slow test-matrix lint bench clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: setup
	$(BIN)/pytest -n 2 -m slow

# The same tests on the oldest gymnasium that is supported, in an environment of its own.
OLD := .venv-gymnasium-0.29
OLD_CONSTRAINTS := $(OLD)/constraints.txt

$(OLD)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(OLD)
	grep -v '^gymnasium==\|^minari==' constraints.txt > $(OLD_CONSTRAINTS)
	echo 'gymnasium==0.29.1' >> $(OLD_CONSTRAINTS)
	$(OLD)/bin/python -m pip install --quiet --constraint $(OLD_CONSTRAINTS) pip setuptools
	$(OLD)/bin/python -m pip install --quiet --no-build-isolation --constraint $(OLD_CONSTRAINTS) --editable '.[dev]'
	touch $(OLD)/.ready

test-matrix: test $(OLD)/.ready
	$(OLD)/bin/pytest -n 2 -m "not slow"

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) $(OLD) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
