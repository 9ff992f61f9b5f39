# What a person types, and what .ci/run calls. Everything lives in .venv; the model in the user's cache.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# As the worker has it, for tests that run the model in their own process: see docs/log.md.
export GOMP_SPINCOUNT := 10000

.PHONY: demo test check bench quality strategies gpu-check gpu-train setup model

demo: model
	@$(BIN)/midfill demo

test: model
	@$(BIN)/python -m pytest

check: setup
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/python -m pytest -q tests/test_architecture.py

quality: model
	@$(BIN)/midfill eval --quality fast,balanced,best

# HOLES=200 takes an hour on two cores.
HOLES ?= 60
strategies: model
	@PYTHONPATH=tests $(BIN)/python tests/quality/compare_strategies.py --holes $(HOLES)

# Needs a CUDA device, and no network: it runs in whatever Python has torch where there is no .venv.
gpu-check:
	@PYTHONPATH=lsp:infill:engine:tests \
		$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m support.gpu_check

bench: model
	@$(BIN)/midfill bench

# For a machine with a GPU and no network, where nothing is installed by us: it needs a python3
# with torch, numpy, platformdirs, tokenizers and tree-sitter with its grammars. The pieces are those
# of `midfill train pack CONFIG build/pieces`; they can be brought one by one.
PIECES ?= build/pieces
OUT ?= out
TRAIN_SECONDS ?= 600
gpu-train:
	@PYTHONPATH=lsp:infill:engine$${PYTHONPATH:+:$$PYTHONPATH} $(PYTHON) -m midfill_lsp \
		train packed $(PIECES) $(OUT) --seconds $(TRAIN_SECONDS)

model: setup
	@$(BIN)/midfill model fetch embedded

setup: $(STAMP)

# Installed anew only when what is to be installed has changed.
$(STAMP): pyproject.toml constraints.txt
	@echo "setting up $(VENV) (the first time this takes a few minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
