"""Readers: threads that take the scans of a device in order, as many at once as it stands.

Theory of operation. Each device has a queue, sorted by partition and segment, and threads that take from its
front, so that a device sees few sequential streams. The thread that called `scan_all` looks every few
milliseconds at how much was read, lets `ReaderCount` decide and tells how far it is. A reader too many does
not wait for the end of its segment, which may be a gigabyte away: it is held up before its next read, and
goes on when it is wanted again, or when the queue is empty and nobody else is to be slowed down.
Whatever a scan raises ends all readers and is raised by `scan_all`; a failure that concerns one directory
only is the business of the function that runs the scan.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from stratalog.engine.devices import (
    LONGEST_WINDOW_S,
    SHORTEST_WINDOW_S,
    WINDOW_SIZE,
    Device,
    ReaderCount,
    busy_ms,
    fixed_count,
)
from stratalog.engine.measuring import RateMeter, ReadingDisk
from stratalog.files.reading import DiskReader

Task = TypeVar("Task")
MonotonicClock = Callable[[], float]

_TICK_S = 0.02


class _Stopped(BaseException):
    """Ends a reader in the middle of a scan; no Exception, so that no scan takes it for a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What one device has read: bytes, seconds, bytes a second lately, readers now and at most.

    `busy` is the part of the time in which the device was at work, as the system counts it: 0 where
    everything came out of the page cache, None where the system does not count.
    """

    device: Device
    bytes_read: int
    seconds: float
    rate: float
    readers: int
    most_readers: int
    busy: float | None


OnReading = Callable[[Sequence[DeviceUse]], None]


def scan_all(
    tasks: Mapping[Device, Sequence[Task]],
    run: Callable[[DiskReader, Task], None],
    *,
    disk: DiskReader,
    readers: int | None = None,
    on_progress: OnReading | None = None,
    monotonic: MonotonicClock = time.monotonic,
) -> tuple[DeviceUse, ...]:
    """Run every task, those of one device in their order; returns how each device was used.

    `run` gets a disk that only reads, in a thread of ours. `readers` for each device instead of as many as
    measuring finds best. `on_progress` is called in the caller's thread, every few milliseconds.
    """
    stop, changed = threading.Event(), threading.Condition()
    pools = [
        _Pool(device, found, run, ReadingDisk(disk), readers, stop, changed, monotonic)
        for device, found in tasks.items()
    ]
    try:
        for pool in pools:
            pool.adjust()
        while any(pool.is_running() for pool in pools):
            with changed:
                # Asked again under the lock: a last reader that ended just now tells it to nobody any more.
                if any(pool.is_running() for pool in pools):
                    changed.wait(_TICK_S)
            for pool in pools:
                pool.adjust()
            if on_progress is not None:
                on_progress([pool.use(is_final=False) for pool in pools])
    finally:
        stop.set()
        for pool in pools:
            pool.join()
    for pool in pools:
        if pool.failure is not None:
            raise pool.failure
    return tuple(pool.use() for pool in pools)


class _Pool(Generic[Task]):
    """The readers of one device."""

    def __init__(
        self,
        device: Device,
        tasks: Sequence[Task],
        run: Callable[[DiskReader, Task], None],
        disk: ReadingDisk,
        readers: int | None,
        stop: threading.Event,
        changed: threading.Condition,
        monotonic: MonotonicClock,
    ) -> None:
        self.device = device
        self.failure: BaseException | None = None
        self._tasks = deque(tasks)
        self._run = run
        self._stop = stop
        self._monotonic = monotonic
        self._changed = changed
        self._numbers = threading.local()
        self._disk = disk
        disk.before_read = self._before_read
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
        now_s, total = self._monotonic(), self._disk.bytes_read
        self._meter.note(now_s, total)
        seconds, size = now_s - self._window_s, total - self._window_bytes
        is_full = seconds >= SHORTEST_WINDOW_S and (size >= WINDOW_SIZE or seconds >= LONGEST_WINDOW_S)
        with self._changed:
            # Fewer readers than wanted, since nothing is left to take: that says nothing of the device.
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
            thread = threading.Thread(target=self._read, args=(number,), name=f"stratalog-{self.device.name}")
            self._threads.append(thread)
            thread.start()

    def use(self, *, is_final: bool = True) -> DeviceUse:
        seconds = (self._ended_s or self._monotonic()) - self._began_s
        # The system's counts are a file to be opened: not several times a second.
        busy, before = busy_ms(self.device) if is_final else None, self._busy_before
        return DeviceUse(
            device=self.device,
            bytes_read=self._disk.bytes_read,
            seconds=seconds,
            rate=self._meter.rate,
            readers=min(self._count.count, self._running),
            most_readers=self._most,
            busy=None
            if busy is None or before is None
            else min(1.0, (busy - before) / 1000 / max(seconds, 1e-3)),
        )

    def join(self) -> None:
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _read(self, number: int) -> None:
        self._numbers.number = number
        try:
            while not self._stop.is_set():
                with self._changed:
                    if not self._tasks or number >= self._count.count:
                        return
                    task = self._tasks.popleft()
                    if not self._tasks:
                        self._changed.notify_all()  # those that are held up need not wait for anybody now
                self._run(self._disk, task)
        except _Stopped:
            pass
        except BaseException as error:  # raised again in the caller's thread
            self.failure = error
            self._stop.set()
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _before_read(self) -> None:
        number = self._numbers.number
        if self._stop.is_set():
            raise _Stopped
        if number >= self._count.count and self._tasks:
            with self._changed:
                self._changed.wait_for(
                    lambda: number < self._count.count or not self._tasks or self._stop.is_set()
                )
            if self._stop.is_set():
                raise _Stopped
