# Every target sets up .venv first; tools/set_up.sh is done at once when nothing has changed.

VENV ?= .venv
export VENV
PYTHON_IN := $(VENV)/bin/python
# worksteal: blocks of cases that belong together are spread over the workers.
PYTEST := $(PYTHON_IN) -m pytest -q --dist worksteal
CHECKED := src tests benchmarks tools
# What starts no JVM.
UNIT := tests --ignore=tests/kafka --ignore=tests/spark
WORKERS ?= 2
# Whole files to a worker, in the order of their names, as a file's tests share what they start.
BY_FILE := --dist loadfile --no-loadscope-reorder
# The profile of the tests that start a JVM.
COUNTS ?= ci
# Parts at a time, each shown in one piece at its end where this make can do that. All of them run, however
# many fail. All four that are long, where there is memory for it: those of Kafka and Spark wait for a JVM or a
# disk half of the time, and the unit tests have the cores then.
PARTS ?= $(or $(shell awk '/^MemTotal:/ { print ($$2 > 10000000 ? 4 : 3) }' /proc/meminfo 2>/dev/null),3)
AT_ONCE := --no-print-directory --keep-going -j $(PARTS) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# Spark gives a Python process of its own ten seconds to start, without a setting for it, and brokers have limits
# too. So tests that start neither take what those leave of the cores.
LATER := nice -n 2
# The files of tests that start no JVM lie in memory, if there is room: they are small, and most of the time
# would go into fsync.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "TMPDIR=/dev/shm" }')
REF ?= main
ARGS ?=
# Images for containers often forbid bytecode. Without it each of some hundred processes compiles the source again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## List the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
	    printf '  make %-16s %s\n' "$$name" "$$text"; done

.PHONY: demo
demo: warm-once  ## A broker's directory, a power cut, and the way back (ARGS="--size 1GB")
	$(VENV)/bin/stratalog demo $(ARGS)

.PHONY: quick
quick: check quick-tests  ## Before each commit: ruff, mypy, unit tests, a few examples of each property; no JVM

.PHONY: check
check: set-up  ## Ruff and mypy only
	$(PYTHON_IN) -m ruff check $(CHECKED)
	$(PYTHON_IN) -m ruff format --check $(CHECKED)
	$(PYTHON_IN) -m mypy

# Compiled once, so that the workers below find the kernels and do not each compile them.
.PHONY: kernels
kernels: set-up
	@$(VENV)/bin/stratalog warm > /dev/null

.PHONY: quick-tests
quick-tests: kernels
	$(IN_MEMORY) STRATALOG_PROFILE=quick $(PYTEST) -n $(WORKERS) -m "not kafka" $(UNIT) $(ARGS)

# Debian's packages are installed beside the set-up. While the kernels are compiled, what needs none of them runs.
# The unit tests come last, as they share two cores evenly: nothing else is left to run alone at the end.
.PHONY: test
test:  ## All of it: quick with seeded counts, real Kafka, Spark
	@$(MAKE) $(AT_ONCE) kernels debian check test-uncompiled test-kafka spark-processes spark-session test-seeded

# Chromium for the page of an audit, kcat for `cat`. Without them their tests are skipped and say why.
.PHONY: debian
debian:
	@sh tools/debian.sh

.PHONY: test-seeded
test-seeded: kernels debian  ## The tests of quick, with at most a tenth of the deep counts instead of a handful
	$(IN_MEMORY) STRATALOG_PROFILE=ci $(LATER) $(PYTEST) -n $(WORKERS) $(UNIT)

.PHONY: test-uncompiled
test-uncompiled: set-up  ## The kernels as plain Python: the same bytes, and debuggers see inside
	$(IN_MEMORY) NUMBA_DISABLE_JIT=1 STRATALOG_PROFILE=quick $(PYTEST) tests/records/kernels

# Not part of `test`: tracing doubles the time, and the processes that tests start as another user trip over it.
.PHONY: coverage
coverage: set-up  ## How much of the source the quick tests run, kernels as plain Python included
	rm -f .coverage .coverage.*
	STRATALOG_PROFILE=quick $(PYTHON_IN) -m coverage run -m pytest -q -n $(WORKERS) $(UNIT) \
	    --ignore=tests/records/kernels/test_jit.py
	NUMBA_DISABLE_JIT=1 STRATALOG_PROFILE=quick $(PYTHON_IN) -m coverage run -m pytest -q tests/records/kernels
	$(PYTHON_IN) -m coverage combine --quiet
	$(PYTHON_IN) -m coverage report --skip-covered --skip-empty

.PHONY: test-kafka
test-kafka: kernels debian  ## Against a real Kafka from Maven Central
	STRATALOG_PROFILE=$(COUNTS) $(PYTEST) -n $(WORKERS) $(BY_FILE) tests/kafka

.PHONY: test-spark
test-spark: kernels  ## On embedded Spark
	@$(MAKE) $(AT_ONCE) spark-session spark-processes

# What shares one session, and what starts processes of its own.
.PHONY: spark-session spark-processes
spark-session: kernels
	STRATALOG_PROFILE=$(COUNTS) $(PYTEST) -m session tests/spark
spark-processes: kernels
	STRATALOG_PROFILE=$(COUNTS) $(PYTEST) -m "not session" tests/spark

.PHONY: test-deep
test-deep: check kernels debian  ## Everything with the full counts; hours. Goes on where it was stopped (ARGS=--list)
	$(PYTHON_IN) -m tools.deep --workers $(WORKERS) $(ARGS)

.PHONY: bench
bench: kernels  ## Run the benchmarks and write docs/benchmarks.md, on a quiet machine (ARGS="ls scan")
	$(PYTHON_IN) -m tools.bench write $(ARGS)

.PHONY: bench-smoke
bench-smoke: set-up  ## Run every benchmark on a hundredth of its data: does it run, not how fast
	$(PYTHON_IN) -m tools.bench smoke $(ARGS)

.PHONY: bench-compare
bench-compare: set-up  ## Benchmarks of REF=main and of this tree, by turns on this machine (ARGS=walk)
	$(PYTHON_IN) -m tools.bench compare $(REF) $(ARGS)

.PHONY: warm
warm: set-up  ## Compile the kernels and keep Spark's classes, so that commands start faster
	$(VENV)/bin/stratalog warm --spark
	@touch $(VENV)/stratalog-warm

# For whoever waits for Spark to start; tests of units need none of it.
.PHONY: warm-once
warm-once: set-up
	@[ -e $(VENV)/stratalog-warm ] || { $(VENV)/bin/stratalog warm --spark >/dev/null && touch $(VENV)/stratalog-warm; } \
	    || echo "Spark's classes could not be kept; it starts all the same, only slower." >&2

.PHONY: set-up
set-up:  ## Create .venv with the pinned versions
	@sh tools/set_up.sh

.PHONY: clean
clean:  ## Remove .venv and what the tools left; caches in the home directory stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* build dist \
	    spark-warehouse demo-logs src/*.egg-info
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
