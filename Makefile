# `make help` lists the targets. Setting up and building are files that the others depend on, so each is done once:
# .venv/.ready, .venv/.ready-dev (the tools of `make lint`) and build/.ready (the shared libraries).

PYTHON ?= python3
PY := .venv/bin/python
CPP_FILES = $(shell find csrc reduce_ops tests -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')

.PHONY: help bench test lint format docs sanitize clean distclean FORCE
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

bench: build/.ready  ## time the ladder; ARGS="--help" lists the options
	@$(PY) -m reduce_ops bench $(ARGS)

# Two workers share two cores, and threads that spin while they wait for others would take half of them. Files stay in
# the order of tests/conftest.py; pytest-xdist would have those of many tests first, however short these are.
test: build/.ready  ## run the tests; ARGS goes to pytest
	@OMP_WAIT_POLICY=passive $(PY) -m pytest tests -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: .venv/.ready-dev  ## check formatting, style and types of all committed files
	@$(PY) -m pre_commit run --all-files $(ARGS)

format: .venv/.ready-dev  ## format C++, CUDA and Python in place
	@$(PY) -c 'import clang_format; clang_format.clang_format()' -i $(CPP_FILES)
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format --quiet .

docs: build/.ready  ## draw the pictures and fill in the tables and excerpts of README.md and docs
	@PYTHONPATH=. $(PY) docs/draw.py
	@PYTHONPATH=. $(PY) benchmarks/update_readme.py

sanitize: build/.ready  ## run compute-sanitizer over kernels and operators (needs a GPU and nvcc)
	@PYTHON=$(PY) bash tests/sanitize.sh

clean:  ## remove what was built, keep .venv
	rm -rf build *.egg-info reduce_ops/*.so .pytest_cache .hypothesis .mypy_cache .ruff_cache

distclean: clean  ## remove .venv too
	rm -rf .venv

# An empty rule, so that a .venv without a working Python (the system's one was upgraded) is set up again.
$(PY): ;

.venv/.ready: pyproject.toml tools/bootstrap.py $(PY)
	@$(PYTHON) tools/bootstrap.py

.venv/.ready-dev: .venv/.ready
	@$(PY) tools/bootstrap.py --dev

# What the build takes from the environment; rewritten, and so newer, only when it changes.
ENVIRONMENT = $(CXX) $(CUDA_HOME) $(shell command -v nvcc) $(TORCH_CUDA_ARCH_LIST)
build/environment: FORCE
	@mkdir -p build
	@echo '$(ENVIRONMENT)' | cmp -s - $@ || echo '$(ENVIRONMENT)' >$@

# The compiler's last words, and the last line of the Python traceback that follows them.
SHOW_FAILURE = sed '/^Traceback/,$$d' build/build.log | tail -n 40 | cut -c -300; tail -n 1 build/build.log

# The folders count too: their time changes when a file in them goes.
build/.ready: .venv/.ready build/environment setup.py pyproject.toml $(shell find csrc)
	@echo 'setup: building the shared libraries (log: build/build.log)' >&2
	@$(PY) setup.py build_ext --inplace >build/build.log 2>&1 || { $(SHOW_FAILURE) >&2; exit 1; }
	@sed -n '/^reduce_ops: /p' build/build.log >&2
	@touch $@
