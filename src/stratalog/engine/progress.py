"""How far the work is: one kind of event for all operations, engines and displays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stratalog.engine.devices import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceUse:
    """What one device has read: bytes, seconds, bytes a second lately, readers now and at most.

    `bytes_total` is what its tasks are expected to read. `busy` is the part of the time in which the device
    was at work, as the system counts it: 0 where everything came out of the page cache, None where the system
    does not count, and until the work is done.
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
        """None until it is known."""
        return _seconds_left(self.bytes_read, self.bytes_total, self.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """What is still to do in one log directory. Kafka: remainingLogsToRecover, remainingSegmentsToRecover"""

    directory: str
    logs: int
    segments: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far it is: in bytes, and in tasks that are finished.

    `stage` is what is being done, where an operation has several, and `part` what it is at: a topic, a
    partition. `rate` is bytes a second over the last seconds, 0 until something can be said. `devices` are
    told of where an engine reads from devices that it knows, `remaining` where logs are counted.
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
        """The slowest device's time, since devices are read side by side; None until it is known."""
        if self.devices:
            return slowest([device.seconds_left for device in self.devices])
        return _seconds_left(self.bytes_done, self.bytes_total, self.rate)


OnProgress = Callable[[Progress], object]


def slowest(seconds: Sequence[float | None]) -> float | None:
    """The largest of these times; None if one of them is not known."""
    known = [value for value in seconds if value is not None]
    return max(known, default=0.0) if len(known) == len(seconds) else None


def _seconds_left(done: int, total: int, rate: float) -> float | None:
    left = max(0, total - done)
    if not left:
        return 0.0
    return left / rate if rate > 0 else None
