# Two commands do everything on a fresh machine: `make demo` and `make test`.
# Needs only Python >= 3.11 (with pip and venv) and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test lint bench bench-long docs clean

demo: $(VENV)/.demo
	$(BIN)/ovk demo

# One BLAS thread in each of the two test processes: two in each are many times slower on two cores.
test: $(VENV)/.dev lint
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# Warnings are errors: a broken link or a name that does not exist fails.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench-long: $(VENV)/.bench
	$(BIN)/python -m benchmarks --long

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/api/generated

# One virtual environment; a stamp for each set of extras that has been installed into it.
$(VENV)/.venv:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the extras plot and cli"
	$(PIP) install -e ".[plot,cli]"
	touch $@

$(VENV)/.dev: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the extra dev"
	$(PIP) install -e ".[dev]"
	touch $@

$(VENV)/.docs: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the extra docs"
	$(PIP) install -e ".[docs]"
	touch $@

$(VENV)/.bench: $(VENV)/.venv pyproject.toml
	@echo "installing ovk with the extra bench"
	$(PIP) install -e ".[bench]"
	touch $@
