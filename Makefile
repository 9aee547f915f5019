# Every target builds what it needs; a machine with Python 3.11 or newer and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test lint bench bench-peers docs clean

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.stamp  ## Reproduce the paper's figures and tables
	$(BIN)/bothworlds paper

test: $(VENV)/.stamp  ## Run the tests and the examples of the docstrings
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/.stamp  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.stamp-bench  ## Measure speed beside other libraries
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/.stamp  ## Measure regret and speed beside other libraries, each in its own environment
	$(BIN)/python -m benchmarks.peers

docs: $(VENV)/.stamp-docs  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean:  ## Remove the environment, caches and build products
	rm -rf $(VENV) build dist site .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bothworlds needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp
	$(PIP) -e ".[bench]"
	touch $@

$(VENV)/.stamp-docs: $(VENV)/.stamp
	$(PIP) -e ".[docs]"
	touch $@
