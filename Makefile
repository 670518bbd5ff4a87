# Two commands do everything on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
CXX ?= g++
VENV := .venv
BIN := $(VENV)/bin
FLOORS := .venv-floors
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
# What the installed package is made of, folders too: a change here, and nowhere else, rebuilds it.
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE NOTICE $(shell find native src -not -name '*.pyc' -not -name __pycache__)
# Two processes share the tests, file by file: fixtures of a file are made once.
IN_PARALLEL := -m pytest -n 2 --dist loadfile
PYTEST := $(BIN)/python $(IN_PARALLEL)
NATIVE := $(wildcard native/*.cpp native/*.hpp)
INSTALL := install --no-build-isolation --no-deps --config-settings=build-dir=build/

.PHONY: help demo test test-all test-extras test-failed test-slow fuzz wheel docs lock lint format stub sanitize sanitize-address sanitize-thread bench clean

help: ## Say what each command does
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

demo: $(VENV)/installed ## Run the main job on a small made-up shop
	@echo "the demo: half a minute on two quiet cores"
	$(BIN)/matchset demo

test: $(VENV)/installed $(VENV)/test ## Test the installed package
	@echo "testing: about five minutes on two quiet cores, longer on busy ones"
	$(PYTEST)

test-all: test docs test-extras ## Test everything: also what needs PyTorch, a browser or Schemathesis

test-extras: $(VENV)/installed $(VENV)/test $(VENV)/dssm $(VENV)/browser $(VENV)/schema
	$(PYTEST) -m "torch or browser or schema"
	$(BIN)/python tests/fuzz.py --minutes 0.5 --seed 1

test-failed: ## Run the tests that failed last time once more, one at a time
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none -m ""

MINUTES ?= 10
fuzz: $(VENV)/installed $(VENV)/test $(VENV)/dssm ## Fuzz models, requests, filters, logs, products, experiments and work folders for MINUTES=10
	$(BIN)/python tests/fuzz.py --minutes $(MINUTES)

test-slow: test-all fuzz $(FLOORS)/installed $(VENV)/ray ## Test what takes long: fuzzing, a Ray cluster, a training within little memory, and the lowest version of every dependency
	$(BIN)/python -m pytest -m "ray or slow"
	$(FLOORS)/bin/python $(IN_PARALLEL)

wheel: $(VENV)/build $(VENV)/wheel ## Make dist/: an sdist, and from it a wheel, tested where there is no compiler
	rm -rf build/wheel dist
	$(BIN)/python -m build --sdist --no-isolation --outdir dist .
	$(PIP) wheel --no-build-isolation --no-deps --wheel-dir build/wheel dist/*.tar.gz
	PATH="$(BIN):$$PATH" $(BIN)/auditwheel repair --strip --wheel-dir dist build/wheel/*.whl
	tools/check_wheel.sh "$(PYTHON)" dist/*.whl $(WHEEL_TESTS)
	@ls -l dist

docs: $(VENV)/docs ## Build the documentation into build/site, and check its links and its reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --clean
	$(BIN)/python tools/check_site.py build/site
	@echo "open build/site/index.html, or serve it: $(BIN)/python -m http.server --directory build/site"

lint: $(VENV)/installed $(VENV)/lint ## Check style, formatting, types and the native stub
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(NATIVE)
	$(BIN)/python tools/make_stub.py --check
	$(BIN)/mypy

format: $(VENV)/lint ## Rewrite the code in our format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(NATIVE)

stub: $(VENV)/installed $(VENV)/lint ## Rewrite the type stub of the native module
	$(BIN)/python tools/make_stub.py

# Tests of what is native. Python is not instrumented, so the run-time library comes first.
NATIVE_TESTS = $(addprefix tests/test_,$(addsuffix .py,strings arrow text vectorizer language file embeddings tree solver \
  layers negatives estimator packed search explain postings match baselines serve_responses two_tower inverted_lists \
  reranker recency match_set damaged_match_sets))
sanitize: sanitize-address sanitize-thread ## Run the native tests under ASan and UBSan, and threads under TSan

# Once with the instructions of this machine, once with those that every machine has.
WITH_ASAN = PYTHONPATH=build/address \
  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 HYPOTHESIS_PROFILE=few
sanitize-address: build/address/installed $(VENV)/installed $(VENV)/test
	$(WITH_ASAN) $(BIN)/python -m pytest -q -p no:cacheprovider $(NATIVE_TESTS)
	$(WITH_ASAN) MATCHSET_PLAIN=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests/test_packed.py tests/test_search.py
	diff <($(BIN)/python tests/digests.py) <($(WITH_ASAN) MATCHSET_PLAIN=1 $(BIN)/python tests/digests.py)

# TSan supports no threads after a fork, and takes memory of its own.
sanitize-thread: build/thread/installed $(VENV)/test
	PYTHONPATH=build/thread LD_PRELOAD="$$($(CXX) -print-file-name=libtsan.so)" \
	TSAN_OPTIONS=halt_on_error=1 HYPOTHESIS_PROFILE=few \
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_concurrency.py tests/test_match_set_bytes.py tests/test_recency.py \
	  -k "not forked and not memory"

bench: $(VENV)/installed ## Run the benchmarks beside the peers, on simulated shops of 200,000 products
	$(BIN)/python benchmarks/vectorize.py
	$(BIN)/python benchmarks/learn.py
	$(BIN)/python benchmarks/search.py --products 200000
	$(BIN)/python benchmarks/peers.py --problem shop-200000 market-200000
	$(BIN)/python benchmarks/titles.py
	$(BIN)/python benchmarks/shops.py --products 20000 --methods all
	$(BIN)/python benchmarks/read_log.py

lock: $(VENV)/installed $(VENV)/test $(VENV)/lint $(VENV)/dssm $(VENV)/browser $(VENV)/schema ## Write down the versions of a development environment
	$(BIN)/python -m pip freeze --exclude matchset | sed -E 's/\+cpu$$//' > requirements-dev.lock

clean: ## Remove every environment and build product
	rm -rf .venv .venv-floors build dist matchset-demo

# Environments. A stamp file stands for each group of packages, so that a second call does nothing.

$(VENV)/created:
	@tools/check_machine.sh "$(PYTHON)" "$(CXX)"
	@echo "the first time: 150 MB to download, then a minute to compile on two quiet cores, all in $(VENV)"
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/build: pyproject.toml | $(VENV)/created
	$(PIP) install --group build
	@touch $@

$(VENV)/test $(VENV)/lint $(VENV)/schema $(VENV)/wheel $(VENV)/docs: $(VENV)/%: pyproject.toml | $(VENV)/created
	$(PIP) install --group $*
	@touch $@

$(VENV)/dependencies: pyproject.toml | $(VENV)/build
	$(PIP) install $$($(BIN)/python tools/print_dependencies.py serve report)
	@touch $@

# PyTorch is large: only what needs it installs it, in the last version known to have a build without CUDA.
TORCH ?= torch==2.13.0
$(VENV)/dssm: pyproject.toml | $(VENV)/dependencies
	$(PIP) install $(TORCH) $$($(BIN)/python tools/print_dependencies.py dssm)
	@touch $@

$(VENV)/ray: pyproject.toml | $(VENV)/dependencies
	$(PIP) install $$($(BIN)/python tools/print_dependencies.py ray)
	@touch $@

$(VENV)/browser: pyproject.toml | $(VENV)/created
	@tools/install_browser.sh
	$(PIP) install --group browser
	@touch $@

# The package once more, beside the lowest versions that pyproject.toml allows.
$(FLOORS)/installed: $(SOURCES) | $(VENV)/created
	$(PYTHON) -m venv --clear $(FLOORS)
	$(FLOORS)/bin/python -m pip --quiet install --upgrade "pip>=25.1"
	$(FLOORS)/bin/python -m pip --quiet install $$($(BIN)/python tools/print_dependencies.py --lowest build serve report test)
	$(FLOORS)/bin/python -m pip --quiet install --no-build-isolation --no-deps --config-settings=build-dir=build/floors .
	@touch $@

# The package once more, its native module built with a sanitizer.
build/address/installed build/thread/installed: build/%/installed: $(SOURCES) | $(VENV)/dependencies
	rm -rf build/$*
	$(PIP) install --no-build-isolation --no-deps --target build/$* \
	  --config-settings=build-dir=build/cmake-$* --config-settings=cmake.define.MATCHSET_SANITIZE=$* \
	  --config-settings=cmake.define.MATCHSET_WERROR=ON .
	@touch $@

$(VENV)/installed: $(SOURCES) | $(VENV)/dependencies
	@echo "compiling the native module: a minute on two quiet cores, longer on busy ones"
	$(PIP) $(INSTALL)release .
	@touch $@
