# make run    the demonstration: one program under NumPy and under Diffuse
# make test   ruff, mypy, pytest: first what runs several ranks, a few at a time, then what runs in one process
# make bench  every application and overhead beside NumPy, numexpr, Numba and JAX
# make figures  the paper's figures 13, 14 and 15 at small sizes; without --quick they take 40 minutes
# make gpu    on a machine with an NVIDIA GPU, without a network: the same bits on the device, and bench/gpu.py
# make bench-legate   the same programs on Legate; CUPYNUMERIC=python names an interpreter that has cuPyNumeric

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Stamps rather than the environment's own files: pip leaves those with the dates of the packages.
INSTALLED = $(VENV)/.installed
SOURCES = pyproject.toml

.PHONY: run test suite ranks lint bench figures gpu bench-legate clean

run: $(INSTALLED)
	$(BIN)/diffuse run --compare apps/channel_flow.py

# One more than there are processors: tests wait for processes of their own a third of the time.
WORKERS ?= $(shell n=$$(nproc); echo $$((n < 8 ? n + 1 : 8)))

# mypy, which takes one processor, runs beside the tests with several ranks, which wait for each other half of the
# time.  The other tests would slow ranks down so much that some seem to hang.  Python keeps the bytecode of what
# pip has not compiled, which hundreds of processes import.  `make test THOROUGH=1` runs more rounds of random programs.
test: $(INSTALLED)-test
	kernels=$$(mktemp -d) && trap 'rm -rf "$$kernels"' EXIT && export DIFFUSE_CACHE_DIR="$$kernels" && \
	export PYTHONDONTWRITEBYTECODE= && \
	$(MAKE) -j2 ranks lint && $(MAKE) suite

suite: $(INSTALLED)-test
	$(BIN)/python -m pytest -q --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder -m "not ranks"

ranks: $(INSTALLED)-test
	$(BIN)/python -m pytest -q --numprocesses 2 --dist loadfile -m ranks $$(grep -l 'mark[.]ranks' tests/test_*.py)

lint: $(INSTALLED)-test
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(INSTALLED)-bench
	$(BIN)/python bench/all.py

figures: $(INSTALLED)-bench
	$(BIN)/python bench/figure13.py --quick
	$(BIN)/python bench/figure14.py --quick
	$(BIN)/python bench/figure15.py --quick

# Without the extension (no C compiler, no setuptools) all runs, but calls cost more.  BUDGET=560 says how many
# seconds there are for everything, RESULTS=folder where gpu.json and gpu.txt go.
gpu:
	-$(PYTHON) setup.py -q build_ext --inplace
	$(PYTHON) tests/on_gpu.py $(if $(BUDGET),--budget $(BUDGET)) $(if $(RESULTS),--json $(RESULTS)/gpu.json)

bench-legate: $(INSTALLED)-bench $(INSTALLED)-legate
	$(BIN)/python bench/on_legate.py $(if $(CUPYNUMERIC),--cupynumeric $(CUPYNUMERIC))

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# Python compiles the modules that tests import when they do.
$(INSTALLED)-test: EXTRAS = test,legate,mpi
$(INSTALLED)-test: COMPILED = --no-compile

$(INSTALLED)-%: $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(COMPILED) -e ".[$(or $(EXTRAS),$*)]"
	touch $@ $(INSTALLED)

clean:
	rm -rf $(VENV) build dist *.egg-info bench/results .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
