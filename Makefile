# The front door: `make demo` and `make test` need Python 3.11 or later and a package index, and nothing else.

PYTHON ?= python3
# A CPU build of torch where the package index has one; a range would fetch gigabytes of CUDA on a machine without a GPU.
# On a GPU machine install the torch you want into .venv first, or set TORCH= to let pip choose.
TORCH ?= torch==2.13.0
MODEL ?= star-16x64-pmnist
BIN = .venv/bin

.PHONY: demo test test-all test-gpu test-site site lint format generated bench bench-gpu clean

demo: .venv/.installed
	$(BIN)/rnnzoo pull $(MODEL)
	$(BIN)/rnnzoo eval $(MODEL)

test: .venv/.dev  # two processes, each with one thread of its own
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

test-all: .venv/.dev
	$(BIN)/pytest -m ''

test-gpu: .venv/.dev
	TRITON_INTERPRET=0 $(BIN)/pytest -m gpu tests/networks/test_triton.py tests/networks/test_triton_diagonal.py

test-site: .venv/.dev  # needs Chromium, such as Debian's package chromium
	$(BIN)/pip install -q 'playwright>=1.40' 'axe-playwright-python>=0.1.4'
	OMP_NUM_THREADS=1 $(BIN)/pytest -m browser tests/publishing

site: .venv/.dev
	$(BIN)/rnnzoo site --out site --serve

lint: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m zoo.publishing.generated --check

format: .venv/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

generated: .venv/.dev
	$(BIN)/python -m zoo.publishing.generated

bench: .venv/.dev
	$(BIN)/python -m benchmarks.stacks
	$(BIN)/python -m benchmarks.scaling
	$(BIN)/python -m benchmarks.linear
	$(BIN)/python -m benchmarks.streams --threads 1
	$(BIN)/python -m benchmarks.plot
	$(BIN)/python -m zoo.publishing.generated

bench-gpu: .venv/.dev
	$(BIN)/python -m benchmarks.gpu

.venv/.torch:
	$(PYTHON) -m venv .venv
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/pip install '$(or $(TORCH),torch)'
	touch $@

NATIVE = $(wildcard zoo/networks/kernels/native/*)

.venv/.installed: .venv/.torch pyproject.toml setup.py $(NATIVE)
	$(BIN)/pip install -e .
	touch $@

.venv/.dev: .venv/.torch pyproject.toml setup.py $(NATIVE)
	$(BIN)/pip install -e '.[dev]'
	touch $@ .venv/.installed

clean:
	rm -rf .venv build dist *.egg-info zoo/networks/kernels/*.so
