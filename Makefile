# `make` lists the targets. Everything is built in the clone, in .venv.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Steps share .venv and the two cores: in parallel they would only disturb each other.
.NOTPARALLEL:

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.setup-done
WAREHOUSE ?= warehouse
SAMPLES := $(wildcard data/samples/*)

# $(call step,what it does,command): one line with the seconds it took; what the command printed
# is shown only if it failed.
define step
	@printf '%-42s' '$(1)'; start=$$SECONDS; log=$$(mktemp); \
	if $(2) >"$$log" 2>&1 </dev/null; then printf '%3d s\n' $$((SECONDS - start)); rm -f "$$log"; \
	else printf 'failed\n'; cat "$$log"; rm -f "$$log"; exit 1; fi
endef

.PHONY: help setup run test test-all lint docs accuracy bench cluster cluster-run clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## build .venv with everything in it, once (the other targets call it)
	@:

$(STAMP): setup.cfg pyproject.toml pipelines/delta_jars.py pipelines/class_archive.py pipelines/compiled_rules.py
	@command -v $(PYTHON) >/dev/null || { echo 'Python 3.11 or later is needed, and $(PYTHON) is not on the PATH.'; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or later is needed, and $(PYTHON) is %d.%d (another: make setup PYTHON=...)." % v[:2])'
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	major=$$({ "$$java" -version 2>&1 || true; } | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	[ "$${major:-0}" -ge 17 ] || { echo "Java 17 or later is needed, and $${major:-none} was found (JAVA_HOME, then the PATH)."; exit 1; }
	$(call step,creating .venv,{ [ -x $(BIN)/python ] || $(PYTHON) -m venv .venv; })
	$(call step,installing Python packages,$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]')
	$(call step,fetching the jars of Delta Lake,$(BIN)/python -m pipelines.delta_jars)
	$(call step,archiving the classes of Spark,$(BIN)/python -m pipelines.class_archive)
	$(call step,compiling the rules,$(BIN)/python -m pipelines.compiled_rules)
	@touch $@

run: setup ## replay the sample recordings into ./warehouse
	@$(BIN)/python -m jobs.run $(SAMPLES) --warehouse $(WAREHOUSE)

test: setup ## run the tests, but for those that take long
	@$(BIN)/python -m pytest -m 'not slow'

test-all: setup ## run all tests
	@$(BIN)/python -m pytest

lint: setup ## check format, types and the borders between the packages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: setup ## print docs/tables.md from the schema
	@$(BIN)/python -m jobs.docs > docs/tables.md

accuracy: setup ## replay every recording in the repository and print docs/accuracy.md
	@$(BIN)/python -m jobs.run $(SAMPLES) tests/recordings/* --warehouse $(WAREHOUSE)-accuracy
	@$(BIN)/python -m jobs.accuracy --warehouse $(WAREHOUSE)-accuracy > docs/accuracy.md

bench: setup ## measure speed beside DuckDB, Polars, Spark and orjson, and print docs/performance.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	@PYTHONPATH=tests $(BIN)/python -m benchmarks

cluster: setup ## start a Spark cluster of a master and two workers, until Ctrl-C
	@$(BIN)/python -m pipelines.cluster

cluster-run: setup ## the same as run, on a cluster of a master and two workers that then ends
	@$(BIN)/python -m pipelines.cluster jobs/run.py $(SAMPLES) --warehouse $(WAREHOUSE)

clean: ## remove what setup, runs and tests have made
	@rm -rf .venv *.egg-info warehouse warehouse-accuracy spark-warehouse metastore_db derby.log
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
