# `make demo` and `make test` set up what they need: a virtual environment with the package (editable) and an MPI in it.
# Needed before: make, gcc, Python >= 3.10 with its headers and the venv module. An editable install does not rebuild on
# edits of C files, so two stamps do: one for the environment, one for the C core.

PYTHON ?= python3
MPI ?= mpich
N ?= 4
TEXT ?=
ARGS ?=
EXTRAS ?=
SHMEMU_WERROR ?= 1
export SHMEMU_WERROR
# Tests at a time. A job waits more than it computes, so three keep two cores busy.
JOBS ?= 3
# Hundreds of jobs of several processes each import the package and the tests: compiling them every time takes minutes.
unexport PYTHONDONTWRITEBYTECODE

VENV_mpich := .venv
VENV_openmpi := .venv-openmpi
VENV := $(VENV_$(MPI))
$(if $(VENV),,$(error MPI=$(MPI): it may be mpich or openmpi))

PY := $(VENV)/bin/python
ENV := $(VENV)/stamp-environment
CORE := $(VENV)/stamp-core
PIP := $(PY) -m pip --disable-pip-version-check
# What runs in one process without any MPI is tested once, not under each.
NO_MPI := tests/check tests/delivery tests/lessons tests/litmus tests/tracked
C_FILES := $(wildcard shmem/_native/*.c shmem/_native/*.h)

# An environment that was moved here from another folder, or whose Python is gone, is no environment.
ifneq ($(shell cat $(ENV) 2>/dev/null && $(PY) -c ""),$(CURDIR))
.PHONY: $(ENV)
endif
# Nor does a stamp mean anything without what it stands for.
ifneq ($(words $(wildcard shmem/_native/_core*.so shmem/_native/_hot*.so)),2)
.PHONY: $(CORE)
endif

.PHONY: core demo test test-jobs test-quick test-full mutants soak fuzz fuzz-suite lint bench dist clean

core: $(CORE)                   ## the environment alone, with the package in it

demo: $(CORE)                   ## the main job: N= PEs, TEXT= a UTF-8 file
	$(VENV)/bin/shmemu demo -n $(N) $(if $(TEXT),--text "$(TEXT)") $(ARGS)

test: $(CORE)                   ## the whole suite, as in CI, then its jobs under Open MPI; ARGS= for pytest
	$(PY) -m pytest -n $(JOBS) $(ARGS)
	$(if $(filter mpich,$(MPI)),+$(MAKE) --no-print-directory MPI=openmpi test-jobs)

test-jobs: $(CORE)              ## what runs under mpiexec
	$(PY) -m pytest -n $(JOBS) tests/mpi tests/test_launch.py $(ARGS)

test-quick: $(CORE)             ## under two minutes: jobs of 2 PEs
	SHMEMU_TEST_CELLS='direct-2' $(PY) -m pytest -n $(JOBS) -x $(ARGS)

test-full: $(CORE)              ## every test in every cell
	SHMEMU_TEST_CELLS=full $(PY) -m pytest -n $(JOBS) $(if $(filter openmpi,$(MPI)),$(NO_MPI:%=--ignore=%)) $(ARGS)
	$(if $(filter mpich,$(MPI)),+$(MAKE) --no-print-directory MPI=openmpi test-full)

mutants: $(CORE)                ## breaks the code at the places listed in tests/mutants.py; the suite must notice each
	$(PY) tests/mutants.py $(ARGS)

soak: $(CORE)                   ## random programs against a model; ARGS="--minutes 10 --seed 1"
	$(PY) tests/soak.py $(ARGS)

fuzz: $(CORE)                   ## a program over nic, seed after seed; ARGS="prog.py -n 4 --minutes 10"
	$(VENV)/bin/shmemu fuzz $(or $(ARGS),examples/sort.py -n $(N) --minutes 1)

fuzz-suite: $(CORE)             ## tests/mpi over nic, seed after seed; ARGS="--minutes 30 --seed 1"
	$(PY) tests/fuzz_suite.py $(ARGS)

lint: $(CORE)
	$(PY) -m ruff check .
	$(PY) -m mypy

bench: $(CORE)                  ## on an idle machine; results in out/
	$(PY) benchmarks/latency.py $(ARGS)
	$(PY) benchmarks/dispatch.py $(ARGS)
	$(PY) benchmarks/rma.py $(ARGS)
	$(PY) benchmarks/collectives.py $(ARGS)
	$(PY) benchmarks/nic.py $(ARGS)
	$(PY) benchmarks/explorer.py $(ARGS)
	$(PY) benchmarks/simulator.py $(ARGS)
	$(PY) benchmarks/sanitizer.py $(ARGS)

dist: $(ENV)                    ## dist/: an sdist and the wheel made from it
	rm -rf dist
	$(PY) setup.py -q sdist
	$(PIP) wheel -q --no-deps -w dist dist/*.tar.gz

clean:
	rm -rf .venv .venv-openmpi build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f shmem/_native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(ENV): pyproject.toml setup.py
	@$(PYTHON) shmem/_native/build.py
	$(PY) -c "" 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(PIP) install -q --no-compile -e '.[$(MPI),test$(EXTRAS)]'
	@touch $(CORE)
	@pwd > $@

$(CORE): $(ENV) shmem/_native/build.py $(C_FILES)
	$(PY) setup.py -q build_ext --inplace
	@touch $@
