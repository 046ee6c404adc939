# Every target does its own set-up: a fresh machine needs Python 3.11 or later and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-oldest test-pythons pythons lint docs coverage data bench clean

demo: $(VENV)/.demo
	$(BIN)/taskloss demo --force

test: lint
	$(BIN)/python -m pytest -n auto

# The oldest versions that pyproject.toml allows, in an environment of their own.
test-oldest:
	$(MAKE) VENV=.venv-oldest INSTALL="--constraint tests/oldest.txt" .venv-oldest/.test
	.venv-oldest/bin/python -m pytest -n auto

# Every Python that can be had here, each in an environment of its own: those on the path, and those that pyenv keeps beside it.
PYTHONS := 3.11 3.12 3.13
find_python = for p in python$(1) $(HOME)/.pyenv/versions/$(1).*/bin/python; do $$p -c "" 2>/dev/null && echo $$p && break; done

test-pythons:
	@$(foreach v,$(PYTHONS),p=$$($(call find_python,$(v))); \
	  if [ -n "$$p" ]; then $(MAKE) PYTHON=$$p VENV=.venv-$(v) .venv-$(v)/.test && .venv-$(v)/bin/python -m pytest -n auto || exit 1; \
	  else echo "Python $(v) is not here."; fi;)

pythons:
	@echo "The tests run on $$($(PYTHON) --version); make test-pythons would find:"
	@$(foreach v,$(PYTHONS),p=$$($(call find_python,$(v))); echo "  $(v): $${p:-none}";)

lint: $(VENV)/.test
	$(BIN)/ruff check src tests benchmarks docs/conf.py docs/_ext examples
	$(BIN)/ruff format --check src tests benchmarks docs/conf.py docs/_ext examples
	$(BIN)/mypy

# The site, with every example of the gallery run: warnings are errors, and links within it are checked. It is in docs/_build/html.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/_ext/check_site.py docs/_build/html

# Which lines no test runs: a table here, and pages in htmlcov/.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --cov=src/taskloss --cov-report=term:skip-covered --cov-report=html

# The public data sets of the quality tables, fetched where a network allows; says what is missing and where it is from.
data: $(VENV)/.bench
	$(BIN)/python -m benchmarks.fetch

# Minutes, not seconds: each benchmark against its peers in one run, tables to benchmarks/results.
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-* docs/_build docs/api docs/auto_examples docs/tables htmlcov .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis demo.png

# The extra of each target; a stamp is older than these files when dependencies may have changed. Versions that must not move
# are pinned in constraints.txt.
$(VENV)/.demo: EXTRA := plot
$(VENV)/.test: EXTRA := test
$(VENV)/.bench: EXTRA := bench
$(VENV)/.docs: EXTRA := docs
$(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $(INSTALL) --editable ".[$(EXTRA)]"
	touch $@
