"""Every test ends: one that hangs is red, with the stacks of all threads, and the tests after it still run.

When the time of a test is over, SIGALRM interrupts its main thread with HungError, which fails the test like
any other error. If no Python handler can run, as in a kernel that does not end, `faulthandler` ends the
process a little later, and pytest-xdist reports the test that killed its worker. To find a hang sooner:

    STRATALOG_TEST_SECONDS=5 .venv/bin/pytest tests/log
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from collections.abc import Generator
from types import FrameType

import pytest

from tests import profile

# For the set-up, the call or the teardown of one test. It is many times what the slowest test takes, because
# the machine may be busy; in the deep run one test may have a million cases.
_SECONDS = {profile.QUICK: 900.0, profile.CI: 900.0, profile.DEEP: 4 * 3600.0}
# An interrupt is lost in a callback, whose errors are only printed. Then the next one counts.
_AGAIN_S = 10.0
# How long after its first interrupt a test is ended together with its process.
_GRACE_S = 60.0
# After the last test: a thread that nobody ended keeps the process alive.
_EXIT_S = 120.0

_HAS_ALARM = hasattr(signal, "setitimer")


class HungError(BaseException):
    """A test ran out of time. Not an Exception, so that neither our code nor Hypothesis handles it."""


class Watchdog:
    """Limits the time of each test of this process. A plugin of pytest."""

    def __init__(self) -> None:
        self._seconds = float(os.environ.get("STRATALOG_TEST_SECONDS") or _SECONDS[profile.current()])
        # Before the output of a test is captured, so that the stacks are seen even if the process ends.
        self._stderr = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._limited(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._limited(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._limited(item))

    def pytest_enter_pdb(self) -> None:
        """A test in a debugger has no time limit."""
        self._stop()

    def pytest_unconfigure(self) -> None:
        # A worker that has no more tests waits for the others, and pytest-xdist ends it.
        if "PYTEST_XDIST_WORKER" not in os.environ:
            self._end_process_in(_EXIT_S)

    def _limited(self, item: pytest.Item) -> Generator[None, object, object]:
        def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            os.write(self._stderr, f"\n{item.nodeid} did not end within {self._seconds:g} s:\n".encode())
            faulthandler.dump_traceback(self._stderr)
            raise HungError(f"the test did not end within {self._seconds:g} s")

        self._end_process_in(self._seconds + _GRACE_S)
        if _HAS_ALARM:
            former = signal.signal(signal.SIGALRM, interrupt)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, _AGAIN_S)
        try:
            return (yield)
        finally:
            self._stop()
            if _HAS_ALARM:
                signal.signal(signal.SIGALRM, former)

    def _end_process_in(self, seconds: float) -> None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._stderr)

    def _stop(self) -> None:
        if _HAS_ALARM:
            signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
