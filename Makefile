# Every target does its own set-up: a fresh machine needs Python 3.11 or later and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-oldest test-pythons lint bench clean

demo: $(VENV)/.demo
	$(BIN)/taskloss demo

test: lint
	$(BIN)/python -m pytest -n auto

# The oldest versions that pyproject.toml allows, in an environment of their own.
test-oldest:
	$(MAKE) VENV=.venv-oldest INSTALL="--constraint tests/oldest.txt" .venv-oldest/.test
	.venv-oldest/bin/python -m pytest -n auto

# Every Python that can be had here, each in an environment of its own.
test-pythons:
	@for v in 3.11 3.12 3.13; do \
	  if python$$v -c "" 2>/dev/null; then \
	    echo "Python $$v:" && $(MAKE) PYTHON=python$$v VENV=.venv-$$v .venv-$$v/.test && .venv-$$v/bin/python -m pytest -n auto || exit 1; \
	  else echo "Python $$v is not here."; fi; done

lint: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

# Minutes, not seconds: each benchmark against its peers in one run, tables to benchmarks/results.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis demo.png

# The extra of each target; a stamp is older than these files when dependencies may have changed. Versions that must not move
# are pinned in constraints.txt.
$(VENV)/.demo: EXTRA := plot
$(VENV)/.test: EXTRA := test
$(VENV)/.bench: EXTRA := bench
$(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(INSTALL) --editable ".[$(EXTRA)]"
	touch $@
