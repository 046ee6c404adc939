# Every target does its own set-up: a fresh machine needs Python 3.11 or later and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/.demo
	$(BIN)/taskloss demo

test: lint
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

# Minutes, not seconds: each benchmark against its peers in one run, tables to benchmarks/results.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis demo.png

# The extra of each target; a stamp is older than these files when dependencies may have changed. Versions that must not move
# are pinned in constraints.txt.
$(VENV)/.demo: EXTRA := plot
$(VENV)/.test: EXTRA := test
$(VENV)/.bench: EXTRA := bench
$(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$(EXTRA)]"
	touch $@
