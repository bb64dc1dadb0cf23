"""What all tests share: Hypothesis profiles, a time limit, and which tests run only in `make test-deep`."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from stratalog.records.kernels.jit import compile_always
from tests import counting, profile
from tests.watchdog import Watchdog

counts = counting.counts

# Tests see what a process does that runs for long; tests/records/kernels/test_jit.py compares both forms.
compile_always()

# Derandomised, so that a failing run also fails on the next machine. No deadline: the first example of a
# test may compile a kernel. `too_slow` measures the machine, which may be busy with something else.
_SHARED: dict[str, Any] = {
    "derandomize": True,
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.too_slow],
    "print_blob": False,
}
settings.register_profile(profile.QUICK, max_examples=profile.HANDFUL, **_SHARED)
settings.register_profile(profile.CI, max_examples=25, **_SHARED)
settings.register_profile(profile.DEEP, max_examples=1000, **_SHARED)
settings.load_profile(profile.current())
# Tables obey it, and pytest-xdist sets it in its workers.
os.environ.pop("COLUMNS", None)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Watchdog())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that are marked deep, unless this is the deep run."""
    if profile.current() == profile.DEEP:
        return
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker(pytest.mark.skip(reason="runs in `make test-deep`"))


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collection.

    The collector checks the oldest objects only when their number has grown by a quarter. The logs and
    simulated disks of finished tests have megabytes each, but are too few for that, and a worker would grow
    to gigabytes.
    """
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let the interpreter clean up as usual: DuckDB's module reports what is left of it as leaks."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many cases of each kind were tried."""
    counting.summarise(terminalreporter)
