# All targets run in the project's own virtual environment, `.venv`, built on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup test test-slow test-matrix test-browser pictures dist docs lint bench bench-public bench-peers reproduce reproduce-full clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip setuptools
	$(BIN)/python -m pip install --quiet --no-build-isolation --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt simglucose
	touch $(READY)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 -m "not slow and not browser"

# Takes about an hour. Names every test, so that an interrupted run shows what passed.
test-slow: setup
	$(BIN)/pytest -n 2 --dist worksteal -m slow -v --durations=40

# Opens the reports and the documentation in headless Chromium.
test-browser: setup
	$(BIN)/pytest -m browser tests/browser

# Pictures to look at, in build/pictures: reports, site and command line; updates the one in the documentation.
pictures: setup
	$(BIN)/python -m tests.browser.pictures build/pictures

# The documentation site, in site/: opens from the file system, without a network.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The same tests on every Python from 3.10 to 3.13 that is present, and on the oldest gymnasium.
test-matrix:
	$(PYTHON) tests/matrix.py

# Prints tables and promises, and inserts the tables into docs/. Takes 15 to 40 minutes; run it alone.
bench: setup
	$(BIN)/python -m benchmarks --docs

# Public problems: downloads their data, and continues where it was stopped.
bench-public: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'gymnasium[box2d]'
	$(BIN)/python -m benchmarks public

# The paper's experiments: a quick run, and the full size. Both continue where they were stopped.
reproduce: setup
	$(BIN)/python -m ove_sb3.experiments

reproduce-full: setup
	$(BIN)/python -m ove_sb3.experiments --full

# Other libraries on the same problems, each in an environment of its own; continues where it was
# stopped, and writes the tables into docs/benchmarks.md.
bench-peers: setup
	$(BIN)/python -m benchmarks.peers --page docs/benchmarks.md

# Source archive and wheel, checked; then the first screen of the README, with nothing but the wheel.
dist:
	rm -rf dist build .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet build twine 'setuptools>=77'
	.venv-dist/bin/python -m build --no-isolation
	.venv-dist/bin/python -m twine check --strict dist/*
	rm -rf .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	.venv-dist/bin/python tests/first_screen.py README.md

clean:
	rm -rf $(VENV) .venv-* .peers build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
