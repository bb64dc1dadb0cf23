"""How far a recovery is: events that the command line, metrics and jobs show.

Kafka: the gauges remainingLogsToRecover and remainingSegmentsToRecover, and what LogManager logs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from stratalog.engine.devices import Device
from stratalog.engine.progress import slowest


class Phase(Enum):
    """What is being done."""

    SURVEYING = "looking at the directories"
    SCANNING = "reading"
    FINISHING = "writing the checkpoints"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryProgress:
    """What is still to do in one log directory."""

    directory: str
    logs_remaining: int
    segments_remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProgress:
    """What one device has read, and how fast it does: bytes, and bytes a second over the last seconds."""

    device: Device
    bytes_done: int
    bytes_total: int
    rate: float
    readers: int

    @property
    def seconds_left(self) -> float | None:
        """None as long as nobody can tell."""
        left = max(0, self.bytes_total - self.bytes_done)
        if not left:
            return 0.0
        return left / self.rate if self.rate > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryProgress:
    """One event."""

    phase: Phase
    directories: tuple[DirectoryProgress, ...] = ()
    devices: tuple[DeviceProgress, ...] = ()

    @property
    def logs_remaining(self) -> int:
        return sum(directory.logs_remaining for directory in self.directories)

    @property
    def segments_remaining(self) -> int:
        return sum(directory.segments_remaining for directory in self.directories)

    @property
    def bytes_done(self) -> int:
        return sum(device.bytes_done for device in self.devices)

    @property
    def bytes_total(self) -> int:
        return sum(device.bytes_total for device in self.devices)

    @property
    def rate(self) -> float:
        return sum(device.rate for device in self.devices)

    @property
    def seconds_left(self) -> float | None:
        """Devices are read side by side, so it is the slowest one's; None as long as nobody can tell."""
        return slowest([device.seconds_left for device in self.devices])


OnProgress = Callable[[RecoveryProgress], None]
