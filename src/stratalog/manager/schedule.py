"""The periodic work of a log manager: flushing, checkpoints, and tasks that are added later.

Kafka: LogManager.startup, KafkaScheduler
"""

from __future__ import annotations

import threading

from stratalog.log.scheduler import ScheduledTask, Scheduler


class Schedule:
    """Tasks that repeat on a scheduler until `stop`, each one `every_ms` after it has last ended."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._stopped = threading.Event()
        self._running = threading.Lock()
        self._stops: list[ScheduledTask] = []

    def add(
        self,
        name: str,
        task: ScheduledTask,
        *,
        every_ms: int,
        delay_ms: int,
        stop: ScheduledTask | None = None,
    ) -> None:
        """Run a task `delay_ms` from now, and then periodically, even after an error in the task.

        `stop` is called when the schedule is to stop, before it waits for tasks.
        """
        if stop is not None:
            self._stops.append(stop)

        def run() -> None:
            with self._running:
                if self._stopped.is_set():
                    return
                try:
                    task()
                finally:
                    self._scheduler.schedule(name, run, every_ms)

        self._scheduler.schedule(name, run, delay_ms)

    def once(self, name: str, task: ScheduledTask, delay_ms: int) -> None:
        """Run a task once, unless the schedule is stopped before."""

        def run() -> None:
            with self._running:
                if not self._stopped.is_set():
                    task()

        self._scheduler.schedule(name, run, delay_ms)

    def stop(self) -> None:
        """Begin no further task; returns when none is running. Must not be called from a task."""
        for stop in self._stops:
            stop()
        self._stopped.set()
        with self._running:
            pass
