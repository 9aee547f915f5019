# Every target builds what it needs; a machine with Python 3.11 or newer and make is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Without byte code, every worker and every process that a test starts would parse all sources again.
unexport PYTHONDONTWRITEBYTECODE

# Of the whole, each worker takes a stretch of its own; one that ends early takes from the other's
# end. Neighbours, which share fixtures and kernels, so stay together.
# ORDER="--shuffle 7" runs them in the random order of a seed.
SHARED := -n 2 --dist worksteal $(ORDER)

.DEFAULT_GOAL := help
.PHONY: help run test test-fast schedules coverage programs check-core check-minimums lint bench bench-peers docs clean

help:  ## Show the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.stamp-run  ## Reproduce the paper's figures and tables
	@$(BIN)/bothworlds paper

test: $(VENV)/.stamp programs  ## Run the tests and the examples of the docstrings
	$(BIN)/python -m pytest $(SHARED)

test-fast: $(VENV)/.stamp  ## Run the tests that answer within a minute, once compiled
	$(BIN)/python -m pytest -q $(SHARED) -m "not processes and not statistical and not slow" \
	    --ignore src/bothworlds/interop/litellm.py --ignore tests/interop/test_litellm.py

schedules: $(VENV)/.stamp  ## Run 100,000 simulated schedules of the service
	$(BIN)/python tests/serve/simulation.py --schedules 100000 --jobs 2

coverage: $(VENV)/.stamp programs  ## Measure which lines the tests run
	mkdir -p .cache/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q $(SHARED) -m "not statistical"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --sort cover

check-core: .venv-core/.stamp  ## Run what needs no extra where nothing but the core is installed
	.venv-core/bin/python -m pytest -q --core

check-minimums: .venv-minimums/.stamp  ## Run the tests with the lowest stated version of everything
	.venv-minimums/bin/python -m pytest -q $(SHARED) -m "not statistical and not locked"

# Tests use the real Chromium, nginx and Caddy; without them they fail with a sentence.
programs:
	@for program in chromium nginx caddy; do \
	    PATH="$$PATH:/usr/sbin" command -v $$program > /dev/null || missing="$$missing $$program"; done; \
	test -z "$$missing" || test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || \
	    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing; }

lint: $(VENV)/.stamp  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.stamp-bench  ## Measure speed next to other libraries
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/.stamp  ## Measure regret and speed next to other libraries, each in its own environment
	$(BIN)/python -m benchmarks.peers

docs: $(VENV)/.stamp-docs  ## Build the documentation into site/
	@$(BIN)/python docs/make_site.py

clean:  ## Remove the environment, caches and build products
	rm -rf $(VENV) .venv-core .venv-minimums build dist site .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@echo "Making a Python environment in $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bothworlds needs Python 3.11 or newer")'
	@$(PYTHON) -m venv $(VENV)

# What running needs and no more; what developing needs contains it.
$(VENV)/.stamp-run: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing NumPy, Numba, matplotlib and pyarrow into $(VENV), some 600 MB, once ..."
	@$(PIP) -e ".[lab]"
	@touch $@

$(VENV)/.stamp: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[dev]"
	touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp
	$(PIP) -e ".[bench]"
	touch $@

$(VENV)/.stamp-docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e ".[docs]"
	touch $@

.venv-core/.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear .venv-core
	.venv-core/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e . hypothesis pytest pytest-timeout
	touch $@

.venv-minimums/.stamp: pyproject.toml .ci/minimums.py
	$(PYTHON) -m venv --clear .venv-minimums
	$(PYTHON) .ci/minimums.py > .venv-minimums/constraints.txt
	.venv-minimums/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c .venv-minimums/constraints.txt -e ".[dev]"
	touch $@
