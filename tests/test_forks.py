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
