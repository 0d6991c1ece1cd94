# The two commands a newcomer needs: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: run test test-slow results speed clean

run: $(VENV)/.run  ## train PAMT on Pubmed with the paper's hyper-parameters and test it
	$(BIN)/pamt datasets fetch pubmed
	$(BIN)/pamt fit --config configs/pubmed.yaml

test: $(VENV)/.dev  ## lint, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

test-slow: $(VENV)/.dev  ## the tests that take minutes or need the package index
	$(BIN)/python -m pytest -m "slow or network"

results: $(VENV)/.run  ## the studies behind docs/results.md: many hours; run it again to resume
	$(BIN)/pamt study main noise ablation parameters

speed: $(VENV)/.run  ## how fast this machine is: ratios measured side by side (a quarter of an hour)
	$(PIP_INSTALL) -e ".[plots,benchmark]"
	$(BIN)/pamt speed

clean:  ## remove the virtual environment and the caches; runs are kept
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# Stamps: a second call installs nothing unless the two files changed.
$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e ".[plots]"
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP_INSTALL) -e ".[dev]"
	touch $@ $(VENV)/.run
