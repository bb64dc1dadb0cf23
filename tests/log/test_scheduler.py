"""Work that is left for later runs in its order, once, and not after closing."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading

import pytest

from stratalog.errors import UsageError
from stratalog.log.scheduler import BackgroundScheduler, HoldingScheduler, repeat
from tests.log.model import NOW, ManualClock, ManualScheduler
from tests.waiting import PATIENCE_S


def test_no_thread_is_started_before_there_is_work() -> None:
    before = threading.active_count()
    scheduler = BackgroundScheduler()

    assert threading.active_count() == before
    scheduler.close()


def test_tasks_run_in_the_order_of_their_time() -> None:
    clock = ManualClock()
    scheduler = BackgroundScheduler(clock)
    ran: list[str] = []
    scheduler.schedule("late", lambda: ran.append("late"), 20)
    scheduler.schedule("early", lambda: ran.append("early"), 10)
    clock.sleep(20)

    scheduler.close()

    assert ran == ["early", "late"]


def test_what_is_not_due_when_it_is_closed_is_dropped() -> None:
    clock = ManualClock()
    scheduler = BackgroundScheduler(clock)
    ran: list[str] = []
    scheduler.schedule("due", lambda: ran.append("due"))
    scheduler.schedule("not due", lambda: ran.append("not due"), 1)

    scheduler.close()
    scheduler.schedule("after closing", lambda: ran.append("after closing"))

    assert ran == ["due"]


def test_a_task_that_fails_is_told_of_and_does_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = BackgroundScheduler()
    done = threading.Event()

    def fail() -> None:
        raise UsageError("it went wrong")

    with caplog.at_level(logging.ERROR):
        scheduler.schedule("flush-log", fail)
        scheduler.schedule("next", done.set)
        assert done.wait(PATIENCE_S)
    scheduler.close()

    assert "flush-log failed: it went wrong" in caplog.text


def test_a_task_may_schedule_another() -> None:
    scheduler = BackgroundScheduler()
    done = threading.Event()
    scheduler.schedule("first", lambda: scheduler.schedule("second", done.set))

    assert done.wait(PATIENCE_S)
    scheduler.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_task_that_breaks_the_thread_does_not_keep_later_ones_from_running() -> None:
    scheduler = BackgroundScheduler()
    threads: list[threading.Thread] = []
    done = threading.Event()

    def broken() -> None:
        threads.append(threading.current_thread())
        raise ZeroDivisionError

    scheduler.schedule("broken", broken)
    while not threads:
        done.wait(0.01)
    threads[0].join(PATIENCE_S)
    scheduler.schedule("sound", done.set)

    assert done.wait(PATIENCE_S)
    scheduler.close()


def test_a_task_is_repeated_as_long_as_it_is_wanted() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    ran: list[int] = []
    repeat(scheduler, "work", 10, lambda: ran.append(clock()), is_wanted=lambda: len(ran) < 3)

    for _ in range(6):
        clock.sleep(10)
        scheduler.run_due()

    assert [now - NOW for now in ran] == [10, 20, 30]


def test_a_repeated_task_ends_with_an_error() -> None:
    clock = ManualClock()
    scheduler = ManualScheduler(clock)

    def fail() -> None:
        raise UsageError("no more")

    repeat(scheduler, "work", 10, fail, is_wanted=lambda: True)
    clock.sleep(10)
    with pytest.raises(UsageError, match="no more"):
        scheduler.run_due()

    clock.sleep(10)
    assert scheduler.run_due() == []


def test_a_program_ends_although_the_scheduler_was_stopped_with_its_lock() -> None:
    """A log that nobody closed waited for a lock whose thread the interpreter had stopped."""
    # The second call of the clock, by the scheduler's thread, does not return.
    program = """
import threading
from stratalog.log.scheduler import BackgroundScheduler

class Unclosed:
    def __init__(self):
        self.scheduler = BackgroundScheduler(threading.Lock().acquire)
    def __del__(self):
        print("deleted", flush=True)
        self.scheduler.abandon()

log = Unclosed()
log.scheduler.schedule("task", print)
while log.scheduler._changed.acquire(blocking=False):
    log.scheduler._changed.release()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )

    assert (done.stdout, done.stderr) == ("deleted\n", "")


def test_held_tasks_are_scheduled_when_they_are_released_and_later_ones_at_once() -> None:
    clock = ManualClock()
    inner = ManualScheduler(clock)
    scheduler = HoldingScheduler(inner)
    ran: list[str] = []
    scheduler.schedule("first", lambda: ran.append("first"))
    scheduler.schedule("second", lambda: ran.append("second"), 10)
    assert inner.tasks == []
    clock.sleep(10)

    scheduler.release()
    scheduler.schedule("third", lambda: ran.append("third"))

    assert inner.run_due() == ["first", "third"]
    clock.sleep(10)
    assert inner.run_due() == ["second"]
    assert ran == ["first", "third", "second"]


def test_a_second_release_schedules_nothing_again() -> None:
    inner = ManualScheduler(ManualClock())
    scheduler = HoldingScheduler(inner)
    scheduler.schedule("once", lambda: None)

    scheduler.release()
    scheduler.release()

    assert [name for _, name, _ in inner.tasks] == ["once"]
