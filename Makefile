# Parley. Every target sets up what it needs, the first time and after a change of a lock.
#
#   make up ARGS="--workers 2"     options of `parley up`
#   make test ARGS="-k resume"     options of pytest; -n 0: without parallel workers
#   make up STACK=gpu              vLLM for NVIDIA GPUs in place of its CPU build

PYTHON ?= python3
STACK ?= cpu
ARGS ?=
RUN ?= -m pytest
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help up test test-long check format bench audit bill lock clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

up: ## start the whole platform on this machine; Ctrl-C stops it
	@$(PYTHON) scripts/setup.py $(STACK)
	@exec $(BIN)/parley up $(ARGS)

test: ## run the tests of every change: real vLLM, Valkey, SQLite, Postgres, Chromium
	@$(PYTHON) scripts/setup.py $(STACK) test
	@$(BIN)/python $(RUN) -n auto -m "not long" $(ARGS)

test-long: ## run all tests, with more examples
	@$(PYTHON) scripts/setup.py $(STACK) test
	@PARLEY_TEST_LONG=1 $(BIN)/python -m pytest -n auto $(ARGS)

check: ## formatting, lint (Python and Lua), types, import contracts, file sizes, real time in tests, documents, the browser code's types
	@$(PYTHON) scripts/setup.py $(STACK) test
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_sizes.py
	@$(BIN)/python -m scripts.lua check
	@$(BIN)/python scripts/check_tests.py
	@$(BIN)/python -m scripts.check_docs
	@$(BIN)/python scripts/javascript.py tsc -p clients/js/jsconfig.json
	@$(BIN)/python scripts/javascript.py tsc -p server/web/jsconfig.json
	@$(BIN)/python scripts/client_types.py --check
	@$(BIN)/python scripts/javascript.py tsc -p admin/web/tables/jsconfig.json
	@$(BIN)/python -m scripts.api_types
	@$(BIN)/python scripts/javascript.py tsc -p admin/web/tsconfig.json
	@$(BIN)/python scripts/javascript.py tsc -p admin/web/tsconfig.portal.json
	@$(BIN)/python scripts/javascript.py pyright
	@$(BIN)/python scripts/javascript.py pyright -p pyright.known.json

format: ## bring the code into its format, and docs/settings.md to what the settings say
	@$(PYTHON) scripts/setup.py $(STACK) test
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/python -m scripts.lua format
	@$(BIN)/python -m scripts.check_docs --write

bench: ## Parley beside raw AsyncLLM and vLLM's own server, in one run
	@$(PYTHON) scripts/setup.py $(STACK)
	@$(BIN)/python -m chaos bench stream $(ARGS)

audit: ## known holes of the packages and digests of the images; says what it could not look up
	@$(PYTHON) scripts/setup.py $(STACK) test
	@$(BIN)/python -m scripts.check_supply

bill: ## what an installation consists of, as CycloneDX: make bill > bill.json
	@$(PYTHON) scripts/sbom.py $(STACK)

lock: ## resolve requirements/*.txt again from pyproject.toml
	@$(PYTHON) scripts/setup.py $(STACK) test
	@$(BIN)/python scripts/lock.py

clean: ## remove what was made here; the data in PARLEY_HOME stays
	rm -rf .venv .cache node_modules server/web/dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
