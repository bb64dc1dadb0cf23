"""Work that a log leaves for later: flushing after a roll, deleting files after their delay.

A log is given a scheduler, as it is given a clock. `BackgroundScheduler` is the real one, a single thread
that starts with its first task. Tests use one that runs its tasks when the test says so, and so never sleep.
"""

from __future__ import annotations

import heapq
import logging
import sys
import threading
from collections.abc import Callable
from itertools import count
from typing import Protocol

from stratalog.clock import Clock, system_clock
from stratalog.errors import StratalogError

logger = logging.getLogger(__name__)

ScheduledTask = Callable[[], object]


class Scheduler(Protocol):
    """Runs tasks later, one after the other."""

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None: ...


class BackgroundScheduler:
    """One daemon thread; tasks run in the order of their time.

    A task's StratalogError is only logged: if a failure must be known, the task has to report it itself."""

    def __init__(self, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._tasks: list[tuple[int, int, str, ScheduledTask]] = []
        self._numbers = count()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:
        """Run `task` once, delay_ms from now; after `close` it is dropped, as in Kafka's scheduler."""
        with self._changed:
            if self._closed:
                return
            heapq.heappush(self._tasks, (self._clock() + delay_ms, next(self._numbers), name, task))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="stratalog-scheduler", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Run the tasks that are due, drop the others, and end the thread."""
        with self._changed:
            self._closed = True
            now = self._clock()
            self._tasks = [entry for entry in self._tasks if entry[0] <= now]
            heapq.heapify(self._tasks)
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def abandon(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """End the thread after its current task; no other task is run, and nobody waits.

        When the interpreter ends, it stops the thread wherever it is, and the thread may still hold the lock:
        then this returns at once. `sys` itself may be gone by then, so `sys.is_finalizing` is kept here.
        """
        if is_finalizing():
            return
        with self._changed:
            self._closed = True
            self._tasks.clear()
            self._changed.notify()

    def _run(self) -> None:
        try:
            while (found := self._next()) is not None:
                name, task = found
                try:
                    task()
                except StratalogError as error:
                    logger.error("%s failed: %s", name, error)
        finally:
            # A bug in a task ends the thread, with a traceback; the next task gets a new thread.
            with self._changed:
                self._thread = None

    def _next(self) -> tuple[str, ScheduledTask] | None:
        """Wait for the next task that is due; None when closed and nothing is left."""
        with self._changed:
            while True:
                if self._tasks:
                    wait_ms = self._tasks[0][0] - self._clock()
                    if wait_ms <= 0:
                        _, _, name, task = heapq.heappop(self._tasks)
                        return name, task
                    self._changed.wait(wait_ms / 1000)
                elif self._closed:
                    return None
                else:
                    self._changed.wait()


class HoldingScheduler:
    """Holds tasks back until `release`, then passes on every task. Delays count from the release.

    While a thread opens thousands of logs, each task that another thread runs takes the interpreter from it.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._held: list[tuple[str, ScheduledTask, int]] | None = []

    def schedule(self, name: str, task: ScheduledTask, delay_ms: int = 0) -> None:
        with self._lock:
            if self._held is not None:
                self._held.append((name, task, delay_ms))
                return
        self._scheduler.schedule(name, task, delay_ms)

    def release(self) -> None:
        """Pass on all tasks held so far, and every later one at once."""
        with self._lock:
            held, self._held = self._held or [], None
        for name, task, delay_ms in held:
            self._scheduler.schedule(name, task, delay_ms)


def repeat(
    scheduler: Scheduler, name: str, every_ms: int, task: ScheduledTask, *, is_wanted: Callable[[], bool]
) -> None:
    """Run a task periodically, as long as it is wanted; an error ends it."""

    def run() -> None:
        if is_wanted():
            task()
            scheduler.schedule(name, run, every_ms)

    scheduler.schedule(name, run, every_ms)
