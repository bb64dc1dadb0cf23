"""Readers: threads that take the tasks of a device in order, as many at once as it can use.

Theory of operation. Each device has a queue and threads that take from its front, so that a device sees few
sequential streams. The thread that takes the outcomes looks every few milliseconds at how much was read, lets
`ReaderCount` decide and reports progress. A reader that is no longer wanted does not first finish its
segment, which may have a gigabyte left: it pauses before its next read. It goes on when it is wanted again,
or when no task waits any more: its own task must be finished too. A reader that has finished a task waits
while too many outcomes were not taken yet: that bounds the memory.

A StratalogError becomes the outcome of its task. Any other exception of a task ends all readers, and is
raised in the thread that takes the outcomes.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Generic

from stratalog.engine.devices import (
    Device,
    ReaderCount,
    busy_ms,
    fixed_count,
)
from stratalog.engine.engine import Result, Task, TaskFunction, TaskOutcome
from stratalog.engine.measuring import RateMeter, ReadingDisk
from stratalog.engine.progress import DeviceUse
from stratalog.errors import StratalogError
from stratalog.files.reading import DiskReader

MonotonicClock = Callable[[], float]
OnReading = Callable[[Sequence[DeviceUse]], object]
IsWanted = Callable[[int], bool]

_FIRST_TICK_S, _TICK_S = 0.0025, 0.02  # ticks get longer: at the start, readers may have to be added soon
MOST_WAITING = 8  # outcomes not taken yet


class _Stopped(BaseException):
    """Ends a reader in the middle of a task; not an Exception, so that no task handles it as a failure."""


def read_devices(
    queues: Mapping[Device, Sequence[tuple[int, Task]]],
    function: TaskFunction[Task, Result],
    *,
    disk: DiskReader,
    readers: int | None = None,
    on_reading: OnReading | None = None,
    is_wanted: IsWanted | None = None,
    monotonic: MonotonicClock = time.monotonic,
) -> Generator[TaskOutcome[Task, Result], None, tuple[DeviceUse, ...]]:
    """Yields the outcome of every task; returns the use of each device. A device's tasks start in order.

    `function` runs in one of our threads; the disk it gets is read-only and valid until it returns. `readers`
    fixes the number for each device; without it, measuring finds the best. `on_reading` is called every few
    milliseconds, in the thread that takes the outcomes. `is_wanted` is called when a task's turn comes;
    unwanted tasks are skipped.
    """
    outcomes: _Outcomes[Task, Result] = _Outcomes()
    stop, changed = threading.Event(), threading.Condition()
    pools = [
        _Pool(device, queue, function, outcomes, disk, readers, is_wanted, stop, changed, monotonic)
        for device, queue in queues.items()
    ]
    try:
        tick_s, ticked_s = _FIRST_TICK_S, time.monotonic()
        for pool in pools:
            pool.adjust()
        while True:
            # Checked before the outcomes are taken: otherwise the last outcome of a reader that has just
            # ended could be missed.
            is_running = any(pool.is_running() for pool in pools)
            taken = outcomes.take(tick_s if is_running else 0.0)
            yield from taken
            if not taken or time.monotonic() - ticked_s >= tick_s:
                tick_s, ticked_s = min(2 * tick_s, _TICK_S), time.monotonic()
                for pool in pools:
                    pool.adjust()
                if on_reading is not None:
                    on_reading([pool.use(is_final=False) for pool in pools])
            if not taken and not is_running:
                break
    finally:
        stop.set()
        outcomes.stop()
        for pool in pools:
            pool.join()
    for pool in pools:
        if pool.failure is not None:
            raise pool.failure
    return tuple(pool.use() for pool in pools)


class _Outcomes(Generic[Task, Result]):
    """The queue of outcomes between the readers and their consumer."""

    def __init__(self) -> None:
        self._ready: deque[TaskOutcome[Task, Result]] = deque()
        self._is_stopped = False
        lock = threading.Lock()
        self._filled, self._emptied = threading.Condition(lock), threading.Condition(lock)

    def put(self, outcome: TaskOutcome[Task, Result]) -> None:
        """Waits while too many are queued; ends the reader if the consumer has stopped."""
        with self._emptied:
            while len(self._ready) >= MOST_WAITING and not self._is_stopped:
                self._emptied.wait()
            if self._is_stopped:
                raise _Stopped
            self._ready.append(outcome)
            self._filled.notify()

    def take(self, seconds: float) -> list[TaskOutcome[Task, Result]]:
        """All queued outcomes; waits at most `seconds` for the first."""
        with self._filled:
            if not self._ready and seconds:
                self._filled.wait(seconds)
            taken = [*self._ready]
            self._ready.clear()
            self._emptied.notify_all()
        return taken

    def wake(self) -> None:
        """Wake the consumer, so that it checks the readers again."""
        with self._filled:
            self._filled.notify()

    def stop(self) -> None:
        with self._emptied:
            self._is_stopped = True
            self._emptied.notify_all()


class _Pool(Generic[Task, Result]):
    """The readers of one device."""

    def __init__(
        self,
        device: Device,
        queue: Sequence[tuple[int, Task]],
        function: TaskFunction[Task, Result],
        outcomes: _Outcomes[Task, Result],
        disk: DiskReader,
        readers: int | None,
        is_wanted: IsWanted | None,
        stop: threading.Event,
        changed: threading.Condition,
        monotonic: MonotonicClock,
    ) -> None:
        self.device = device
        self.failure: BaseException | None = None
        self._tasks = deque(queue)
        self._function = function
        self._is_wanted = is_wanted
        self._outcomes = outcomes
        self._stop = stop
        self._monotonic = monotonic
        self._changed = changed
        self._disk = disk
        self._disks: dict[int, ReadingDisk] = {}  # one for each reader, shared with its helper threads
        self._count = ReaderCount() if readers is None else fixed_count(readers)
        self._threads: list[threading.Thread] = []
        self._running = self._most = 0
        self._meter = RateMeter()
        self._began_s = self._window_s = monotonic()
        self._window_bytes = 0
        self._busy_before = busy_ms(device)
        self._ended_s: float | None = None

    def is_running(self) -> bool:
        with self._changed:
            return bool(self._running or self._tasks) and self.failure is None and not self._stop.is_set()

    def adjust(self) -> None:
        """Measure, decide, and start readers if more are wanted."""
        now_s, total = self._monotonic(), self._bytes_read
        self._meter.note(now_s, total)
        seconds, size = now_s - self._window_s, total - self._window_bytes
        is_full = self._count.is_enough(size, seconds)
        with self._changed:
            # When no task is left, fewer readers run than wanted. Such a rate says nothing about the device.
            if is_full and self._running >= self._count.count and size:
                self._count.measured(size / seconds)
                self._changed.notify_all()
            wanted = min(self._count.count, self._running + len(self._tasks))
            missing = range(self._running, wanted)
            self._running += len(missing)
            self._most = max(self._most, self._running)
            if not self._running and self._ended_s is None:
                self._ended_s = now_s
        if is_full:
            self._window_s, self._window_bytes = now_s, total
        for number in missing:
            if number not in self._disks:
                self._disks[number] = ReadingDisk(self._disk, partial(self._before_read, number))
            thread = threading.Thread(target=self._read, args=(number,), name=f"stratalog-{self.device.name}")
            self._threads.append(thread)
            thread.start()

    def use(self, *, is_final: bool = True) -> DeviceUse:
        seconds = (self._ended_s or self._monotonic()) - self._began_s
        # Reading the system's count opens a file, so it is not read several times a second.
        busy, before = busy_ms(self.device) if is_final else None, self._busy_before
        return DeviceUse(
            device=self.device,
            bytes_read=self._bytes_read,
            seconds=seconds,
            rate=self._meter.rate,
            readers=min(self._count.count, self._running),
            most_readers=self._most,
            busy=None
            if busy is None or before is None
            else min(1.0, (busy - before) / 1000 / max(seconds, 1e-3)),
        )

    @property
    def _bytes_read(self) -> int:
        return sum(disk.bytes_read for disk in self._disks.values())

    def join(self) -> None:
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _read(self, reader: int) -> None:
        disk = self._disks[reader]
        try:
            while not self._stop.is_set():
                with self._changed:
                    if not self._tasks or reader >= self._count.count:
                        return
                    number, task = self._tasks.popleft()
                    if not self._tasks:
                        self._changed.notify_all()  # paused readers may go on now
                if self._is_wanted is None or self._is_wanted(number):
                    self._outcomes.put(TaskOutcome(number, task, self._run(disk, task)))
        except _Stopped:
            pass
        except BaseException as error:  # raised again in the consumer
            self.failure = error
            self._stop.set()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
            self._outcomes.wake()

    def _run(self, disk: DiskReader, task: Task) -> Result | StratalogError:
        try:
            return self._function(disk, task)
        except StratalogError as error:
            return error

    def _before_read(self, reader: int) -> None:
        if self._stop.is_set():
            raise _Stopped
        if reader >= self._count.count and self._tasks:
            with self._changed:
                self._changed.wait_for(
                    lambda: reader < self._count.count or not self._tasks or self._stop.is_set()
                )
            if self._stop.is_set():
                raise _Stopped
