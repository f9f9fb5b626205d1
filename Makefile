# Everything runs in a virtual environment of the project's own, `.venv`, built on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup test test-slow lint bench bench-peers clean

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

bench: setup
	$(BIN)/python -m benchmarks

bench-peers: setup
	$(BIN)/python -m benchmarks.peers

clean:
	rm -rf $(VENV) .peers build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
