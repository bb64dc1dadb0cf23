"""A fork waits for locks that nobody would release in the child, and never waits for itself."""

from __future__ import annotations

import sys
import threading

import pytest

from stratalog.forks import HeldAtFork
from tests.programs import Program
from tests.waiting import PATIENCE_S

forks = pytest.mark.skipif(sys.platform != "linux", reason="forks")

WORKING = """
import os, signal, sys, threading
from stratalog.forks import hold_at_fork, loading

signal.alarm(100)
mine = threading.RLock()
hold_at_fork(mine)
lock = {"loading": loading, "mine": mine}[sys.argv[1]]
"""


@forks
@pytest.mark.parametrize("which", ["loading", "mine"])
def test_a_fork_waits_until_another_thread_has_released_the_lock(which: str) -> None:
    program = (
        WORKING
        + """
is_working, forks = threading.Event(), threading.Event()
done = []

def work():
    with lock:
        is_working.set()
        forks.wait()
        done.append(len(sys.modules))

threading.Thread(target=work).start()
is_working.wait()
os.register_at_fork(before=forks.set)  # handlers that were registered last are called first
child = os.fork()
if not child:
    with loading, mine:
        os._exit(0 if done else 1)
with loading, mine:
    print(os.waitpid(child, 0)[1])
"""
    )
    with Program(program, which) as running:
        assert running.end() == (0, ["0"], "")


@forks
@pytest.mark.parametrize("which", ["loading", "mine"])
def test_a_thread_that_holds_the_lock_may_fork(which: str) -> None:
    program = (
        WORKING
        + """
with lock:
    child = os.fork()
with loading, mine:
    if not child:
        os._exit(0)
    print(os.waitpid(child, 0)[1])
"""
    )
    with Program(program, which) as running:
        assert running.end() == (0, ["0"], "")


@forks
def test_an_import_that_uses_logging_is_not_held_up_by_a_fork_that_waits_for_it() -> None:
    """The handlers of a fork are called from the newest to the oldest, and that of logging takes its lock."""
    program = """
import os, signal, sys, threading
from stratalog import forks

signal.alarm(100)
assert "logging" not in sys.modules
is_importing, waits = threading.Event(), threading.Event()

class Told:
    def acquire(self, blocking=True):
        waits.set()
        return forks.loading.acquire(blocking)

    def release(self):
        forks.loading.release()

def work():
    with forks.importing():
        is_importing.set()
        waits.wait()
        sys.modules["logging"].getLogger("of a module that is imported")

threading.Thread(target=work).start()
is_importing.wait()
forks._held.locks[0] = Told()
child = os.fork()
if not child:
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    with Program(program) as running:
        assert running.end() == (0, ["0"], "")


def test_a_fork_waits_without_a_lock_that_another_thread_needs_to_go_on() -> None:
    first, second = threading.RLock(), threading.RLock()
    held = HeldAtFork(first)
    held.locks.append(second)
    has_second, forks = threading.Event(), threading.Event()

    def work() -> None:
        with second:
            has_second.set()
            assert forks.wait(PATIENCE_S)
            with first:
                pass

    def fork() -> None:
        forks.set()
        held.take()
        held.give_back()

    threads = [threading.Thread(target=work, daemon=True), threading.Thread(target=fork, daemon=True)]
    threads[0].start()
    assert has_second.wait(PATIENCE_S)
    threads[1].start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert not any(thread.is_alive() for thread in threads)
    assert first.acquire(blocking=False)
    assert second.acquire(blocking=False)
