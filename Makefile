# `make` lists the targets. Everything is built in the clone, in .venv.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Steps share .venv and the two cores: in parallel they would only disturb each other.
.NOTPARALLEL:

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
STAMP := .venv/.setup-done
WITH_EXTRAS := .[spark,quality,test]
WITH_SPARK := .[spark,test]
WAREHOUSE ?= warehouse
SAMPLES := $(wildcard data/samples/*)

# $(call step,what it does,command): one line with the seconds it took; what the command printed
# is shown only if it failed.
define step
	@printf '%-42s' '$(1)'; start=$$SECONDS; log=$$(mktemp); \
	if $(2) >"$$log" 2>&1 </dev/null; then printf '%3d s\n' $$((SECONDS - start)); rm -f "$$log"; \
	else printf 'failed\n'; cat "$$log"; rm -f "$$log"; exit 1; fi
endef

.PHONY: help setup run test test-hard test-oldest test-live test-live-short oracle upgrade lint docs picture bench wheel try-wheel cluster-run clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## build .venv with everything in it, once (the other targets call it)
	@:

$(STAMP): setup.cfg setup.py pyproject.toml constraints.txt tools/delta_jars.py tools/delta_jars.sha256
	@command -v $(PYTHON) >/dev/null || { echo 'Python 3.11 or later is needed, and $(PYTHON) is not on the PATH.'; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "Python 3.11 or later is needed, and $(PYTHON) is %d.%d (another: make setup PYTHON=...)." % v[:2])'
	@java=$${JAVA_HOME:+$$JAVA_HOME/bin/}java; \
	major=$$({ "$$java" -version 2>&1 || true; } | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	[ "$${major:-0}" -ge 17 ] || { echo "Java 17 or later is needed, and $${major:-none} was found (JAVA_HOME, then the PATH)."; exit 1; }
	$(call step,creating .venv,{ [ -x $(BIN)/python ] || $(PYTHON) -m venv .venv; })
	$(call step,installing Python packages,$(PIP) install --editable '$(WITH_EXTRAS)' --constraint constraints.txt)
	@# mypy does not see through an editable install
	@mkdir -p .venv/typing/kip_replay && cd .venv/typing/kip_replay && ln -sfn ../../../{__init__.py,jobs,pipelines,replay} .
	$(call step,fetching the jars of Delta Lake,$(BIN)/python -m tools.delta_jars)
	@touch $@

run: setup ## replay the sample recordings into ./warehouse, on Spark
	@$(BIN)/kip-replay run $(SAMPLES) --warehouse $(WAREHOUSE) --engine spark

# As many workers as cores; one that is done takes tests of another.
TESTS := $(BIN)/python -m pytest -p no:cacheprovider -n auto --dist worksteal --durations=10

test: setup ## run the tests, but for those that take long
	@$(TESTS) -m 'not slow and not live'
	@echo 'Deselected are the tests that take long (kills, full disks, clusters): make test-hard.'

test-hard: setup ## run the tests that take long
	@$(TESTS) -m '(slow or property) and not live' --hypothesis-profile=hard

test-oldest: ## run the tests of the Spark engine with the oldest packages that setup.cfg takes
	@[ -x .venv-oldest/bin/python ] || $(PYTHON) -m venv .venv-oldest
	$(call step,installing the oldest packages,.venv-oldest/bin/python -m pip --quiet install --editable '$(WITH_SPARK)' --constraint constraints-oldest.txt)
	@PYTHONPATH=tests .venv-oldest/bin/python -m pytest -p no:cacheprovider tests/engines/test_engines.py tests/spark/test_session.py tests/spark/test_connect.py

test-live: setup ## start real clusters of several versions and hold predictions against them (Maven)
	@$(BIN)/python -m pytest -p no:cacheprovider -m 'live and not short' -s tests/live

test-live-short: setup ## the same of one version alone, what is exact
	@$(BIN)/python -m pytest -p no:cacheprovider -m short -s tests/live

oracle: setup ## let Kafka's own classes answer the histories of tests/kafka_oracle anew: SEED=... (Maven)
	@PYTHONPATH=tests $(BIN)/python -m kafka_oracle $(or $(SEED),1)

upgrade: setup ## upgrade a live cluster between two recordings: a page with prediction and reality
	@PYTHONPATH=tests:. $(BIN)/python -m live.upgrade upgrade

lint: setup ## check format, types, words and the borders between the packages
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tools.words
	@$(BIN)/python -m tools.sentences

docs: run ## print the pages that code and recordings make: tables, accuracy, the answers of sql
	@$(BIN)/kip-replay run $(SAMPLES) tests/recordings/* --warehouse $(WAREHOUSE)-accuracy --engine local
	@PYTHONPATH=tests $(BIN)/python -m same_rows $(WAREHOUSE) $(WAREHOUSE)-accuracy $(SAMPLES)
	@$(BIN)/python -m tools.docs > docs/tables.md
	@$(BIN)/python -m tools.docs steps
	@PYTHONPATH=tests:. $(BIN)/python -m truth $(WAREHOUSE)-accuracy $(SAMPLES) tests/recordings/*
	@PYTHONPATH=tests:. $(BIN)/python -m analysis.test_coverage $(WAREHOUSE)-accuracy $(SAMPLES) tests/recordings/*
	@$(BIN)/kip-replay sql --warehouse $(WAREHOUSE) --answer docs/sql.md

picture: ## take the picture in README.md of a recording in ./warehouse (needs Chromium)
	@page=$$(mktemp --suffix .html); \
	$(BIN)/kip-replay report acks-slow-follower --warehouse $(WAREHOUSE) --output "$$page"; \
	chromium --headless --no-sandbox --hide-scrollbars --window-size=1200,800 \
		--screenshot=docs/report.png "file://$$page" 2>/dev/null; rm "$$page"

bench: setup ## measure runs of 21 to 336 MB, print docs/performance.md (10 min), beside the revision BEFORE
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.scale $(if $(BEFORE),--before $(BEFORE))

wheel: setup ## build dist/*.whl
	@rm -rf build dist
	$(call step,building the wheel,$(PIP) wheel --no-deps --wheel-dir dist .)
	@rm -rf build; ls dist/*.whl

try-wheel: wheel ## replay a sample with nothing but the wheel (and EXTRAS=[spark,quality]), in a temporary folder
	@tools/try_wheel.sh dist/*.whl data/samples/metadata-4.1 '$(EXTRAS)'

cluster-run: setup ## the same as run, on a cluster of a master and two workers that then ends
	@$(BIN)/python -m tools.cluster run $(SAMPLES) --warehouse $(WAREHOUSE)

clean: ## remove what setup, runs and tests have made
	@rm -rf .venv .venv-oldest build dist *.egg-info warehouse warehouse-accuracy upgrade spark-warehouse metastore_db derby.log
	@rm -rf .golden .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
