"""Progress events: one kind for all operations, engines and displays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stratalog.engine.devices import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What one device has read: the bytes and seconds so far, the rate lately, the readers now and at most.

    `bytes_total` is how much its tasks are expected to read. `busy` is the fraction of the time in which the
    device was busy, as the system counts it. It is 0 if everything came from the page cache, and None if the
    system does not count it or the work is not done yet.
    """

    device: Device
    bytes_read: int
    bytes_total: int = 0
    seconds: float
    rate: float
    readers: int
    most_readers: int
    busy: float | None

    @property
    def seconds_left(self) -> float | None:
        """The expected remaining time; None until it is known."""
        return _seconds_left(self.bytes_read, self.bytes_total, self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What is still to do in one log directory. Kafka: remainingLogsToRecover, remainingSegmentsToRecover"""

    directory: str
    logs: int
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the work is: in bytes, and in finished tasks.

    `stage` names the current stage of an operation that has several, and `part` the current topic or
    partition. `rate` is bytes a second over the last seconds, 0 until it is known. `devices` are set if an
    engine knows which devices it reads from, `remaining` if it counts logs.
    """

    stage: str = ""
    part: str = ""
    bytes_done: int = 0
    bytes_total: int = 0
    rate: float = 0.0
    tasks_done: int = 0
    tasks_count: int = 0
    devices: tuple[DeviceUse, ...] = ()
    remaining: tuple[Remaining, ...] = ()

    @property
    def logs_remaining(self) -> int:
        return sum(found.logs for found in self.remaining)

    @property
    def segments_remaining(self) -> int:
        return sum(found.segments for found in self.remaining)

    @property
    def seconds_left(self) -> float | None:
        """The time of the slowest device, because devices are read in parallel; None until it is known."""
        if self.devices:
            return slowest([device.seconds_left for device in self.devices])
        return _seconds_left(self.bytes_done, self.bytes_total, self.rate)


OnProgress = Callable[[Progress], object]


def slowest(seconds: Sequence[float | None]) -> float | None:
    """The largest of these times; None if any of them is unknown."""
    known = [value for value in seconds if value is not None]
    return max(known, default=0.0) if len(known) == len(seconds) else None


def _seconds_left(done: int, total: int, rate: float) -> float | None:
    left = max(0, total - done)
    if not left:
        return 0.0
    return left / rate if rate > 0 else None
