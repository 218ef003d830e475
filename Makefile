# `make test` needs only Python: it creates the environment, installs songrank and runs all tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install test lint type check docs demo bench clean

help:
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,lint]'
	touch $(STAMP)

install: $(STAMP)  ## create the environment and install songrank

test: $(STAMP)  ## run all tests, including doctests
	$(BIN)/python -m pytest -n 2

lint: $(STAMP)  ## check style and wording
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/check_words.py

type: $(STAMP)  ## check types with mypy --strict
	$(BIN)/mypy

docs: $(STAMP)  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

check: lint type test  ## run all checks of CI

demo: $(STAMP)  ## train, compare, rank and report on embedded data, in about a minute
	rm -rf songrank-demo
	$(BIN)/songrank demo -o songrank-demo

bench: $(STAMP)  ## run benchmarks (see benchmarks/README.md)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps libauc==2.0.1
	$(BIN)/python benchmarks/loss_step.py
	$(BIN)/python benchmarks/sampling.py
	$(BIN)/python benchmarks/speed.py --only step evaluation lists
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps xgboost==3.2.0
	$(BIN)/python benchmarks/parse_letor.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/prepare_data.py $(if $(DATA),--data $(DATA))

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist site songrank-demo
