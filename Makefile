# `make demo` and `make test` each work alone on a fresh machine with Python 3.11+, pip, venv, make and a compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-postgres coverage lint bench docs setup clean

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# The tests of campaigns on PostgreSQL: a throw-away server on loopback, for as long as they run.
test-postgres: $(VENV)/.dev
	.ci/postgres $(BIN)/python -m pytest tests/decide/campaign -k postgres $(ARGS)

coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov=credo --cov-report=term:skip-covered $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.docs
	$(BIN)/python docs/pictures.py
	$(BIN)/mkdocs build --strict

bench: .venv-bench/.ready
	.venv-bench/bin/python -m benchmarks $(ARGS)

setup: $(VENV)/.dev

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[demo]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[demo,test,lint]"
	touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e ".[demo,docs]"
	touch $@

.venv-bench/.ready: pyproject.toml benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install --quiet --upgrade pip
	.venv-bench/bin/python -m pip install --quiet -r benchmarks/requirements.txt -e ".[all]"
	touch $@

clean:
	rm -rf $(VENV) .venv-bench site out .pytest_cache .mypy_cache .ruff_cache .hypothesis
