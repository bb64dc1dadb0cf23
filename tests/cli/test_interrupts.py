"""Ctrl-C at a moment when Python drops it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="there are no POSIX signals")

# Ctrl-C comes inside a weak reference's callback; afterwards the program waits, as `cat --follow` does.
PROGRAM = """
import signal, sys, time, weakref
from stratalog.cli.interrupts import raise_dropped_interrupts

class Thing: pass

def callback(_):
    signal.raise_signal(signal.SIGINT)
    for _ in range(1000):
        pass

if sys.argv[1] == "raised":
    raise_dropped_interrupts()
thing = Thing()
kept = weakref.ref(thing, callback)
del thing
try:
    for _ in range(int(sys.argv[2])):
        time.sleep(0.01)
except KeyboardInterrupt:
    print("stopped")
else:
    print("dropped")
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)


def test_a_ctrl_c_that_came_in_a_callback_was_lost() -> None:
    assert run("raised", "30000").stdout == "stopped\n"


def test_a_ctrl_c_is_not_lost_again_if_the_hook_is_slow() -> None:
    """It was raised again after 20 ms, on a busy machine inside the hook that had seen it dropped."""
    slow = """
start = threading.Thread.start
def start_slowly(self):
    start(self)
    time.sleep(0.3)
threading.Thread.start = start_slowly
raise_dropped_interrupts()
"""
    program = PROGRAM.replace("raise_dropped_interrupts()\nthing", f"pass\n{slow}thing")
    command = [sys.executable, "-c", f"import threading{program}", "raised", "3000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert done.stdout == "stopped\n"


def test_python_itself_loses_it() -> None:
    done = run("dropped", "30")

    assert done.stdout == "dropped\n"
    assert "Exception ignored in" in done.stderr


def test_another_error_in_a_callback_is_reported_as_before() -> None:
    program = PROGRAM.replace("signal.raise_signal(signal.SIGINT)", "raise ValueError('planted')")
    command = [sys.executable, "-c", program, "raised", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert "ValueError: planted" in done.stderr
