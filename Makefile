# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Needs only Python >= 3.11 (with pip and venv) and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What the tests use; pip reads dependency groups from 25.1 on.
EXTRAS := plot,cli,files,graph,frames,array-api,river,dask,nats,kafka,serve

.PHONY: demo test test-quick test-long test-slow test-lowest audit lint bench bench-long fuzz reproduce docs dist clean

demo: $(VENV)/.demo
	$(BIN)/ovk demo

# One BLAS thread in each of the two test processes: two in each are many times slower on two cores.
# Compiled modules are kept, also where the environment says otherwise: tests start many processes.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2

# What must hold for every change: style, types, layers and all tests that are not marked `long`.
test: $(VENV)/.dev
	@$(BIN)/python .ci/timed.py "make test" $(MAKE) --no-print-directory lint test-quick

test-quick: $(VENV)/.dev
	$(PYTEST) -m "not long"

# Tests marked `long` (kills, browsers, statistics, gallery, reproductions), random damage for a minute, and every
# module with its examples on the lowest supported versions.
test-long: $(VENV)/.dev $(VENV)-lowest/.dev
	@$(BIN)/python .ci/timed.py "make test-long" $(MAKE) --no-print-directory test-slow

test-slow:
	$(PYTEST) -m long
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -m fuzz --seconds 60
	$(ONE_THREAD) $(VENV)-lowest/bin/python -m pytest -q tests/test_doctests.py

# All tests on the lowest version of every dependency that pyproject.toml allows, in an environment of its own.
test-lowest: $(VENV)-lowest/.dev
	$(ONE_THREAD) $(VENV)-lowest/bin/python -m pytest -n 2

# Known vulnerabilities of what users install, in the lowest and in the newest versions. Needs an index with advisories:
# without one, pip-audit says which packages could not be audited, and fails (--strict).
audit: $(VENV)/.audit
	for which in lowest newest; do \
	  $(BIN)/python .ci/lowest.py $$which > $(VENV)/$$which.txt && echo "$$which versions:" && \
	  $(BIN)/python -m pip_audit --strict -r $(VENV)/$$which.txt || exit 1; \
	done

# Source archive and wheel, with the checks that an index makes.
dist: $(VENV)/.dist
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# Lines of code on a page have room for 75 characters beside the sidebars.
PAGES := $(wildcard README.md docs/*.md docs/guide/*.md docs/howto/*.md docs/systems/*.md docs/decisions/*.md)
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --line-length 75 $(PAGES)
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Warnings are errors: a broken link or a name that does not exist fails.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/widths.py docs/_build/html
	@echo "open docs/_build/html/index.html"

# Ten minutes of random damage, interruptions and inputs; SECONDS=60 for less. The table goes into docs/reliability.md.
SECONDS ?= 600
fuzz: $(VENV)/.dev
	$(ONE_THREAD) PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) --write

bench-long: $(VENV)/.bench
	$(BIN)/python -m benchmarks --long
	$(BIN)/python -m benchmarks.long_streams
	$(BIN)/python -m benchmarks.service_trials

# make reproduce NAME=jura; without a name it lists them, NAME=all runs all.
reproduce: $(VENV)/.reproduce
	$(BIN)/python -m reproduce $(NAME)

clean:
	rm -rf $(VENV) $(VENV)-lowest build dist docs/_build docs/gallery docs/api/generated

# One virtual environment; a stamp for each set of extras that has been installed into it.
$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the extras plot and cli"
	$(PIP) install -e ".[plot,cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with all extras and the group dev"
	$(PIP) install -e ".[$(EXTRAS)]" --group dev
	touch $@

$(VENV)-lowest/.dev: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python .ci/lowest.py > $(VENV)-lowest/requirements.txt
	@echo "installing ovk with all extras and the group dev, in the lowest versions"
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check --quiet install -r $(VENV)-lowest/requirements.txt
	$(VENV)-lowest/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -e .
	touch $@

$(VENV)/.audit: $(VENV)/.venv
	$(PIP) install pip-audit
	touch $@

$(VENV)/.dist: $(VENV)/.venv pyproject.toml
	$(PIP) install build twine
	touch $@

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the group docs"
	$(PIP) install -e ".[plot,cli,graph,river]" --group docs
	touch $@

$(VENV)/.reproduce: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the extra plot"
	$(PIP) install -e ".[plot]"
	touch $@

$(VENV)/.bench: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the group bench"
	$(PIP) install -e ".[plot,river,serve]" --group bench
	touch $@
