"""A log on a disk that loses power, and every disk that may be found afterwards.

The lock of the directory is a real one, because locks do not belong to the disk; everything else is on the
simulated disk, under the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stratalog import PartitionLog, open_log
from stratalog.errors import DiskError
from stratalog.files.simulated import PowerCut, SimulatedDisk
from tests.log.model import NOW, ManualClock, ManualScheduler

CONFIG = {
    "internal.segment.bytes": 300,
    "index.interval.bytes": 100,
    "segment.index.bytes": 240,
    "retention.ms": -1,
}

Story = Callable[[PartitionLog, ManualScheduler], object]


def new_disk(directory: Path) -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directories(str(directory.parent))
    disk.sync_everything()
    disk.steps = 0
    return disk


def open_on(
    directory: Path, disk: SimulatedDisk, *, scheduler: ManualScheduler | None = None
) -> PartitionLog:
    clock = ManualClock()
    used = scheduler or ManualScheduler(clock)
    return open_log(directory, create=True, config=CONFIG, disk=disk, clock=clock, scheduler=used)


@contextmanager
def opened(
    directory: Path, disk: SimulatedDisk, *, scheduler: ManualScheduler | None = None
) -> Iterator[PartitionLog]:
    """The log, which is dropped at the end, whatever state the machine is in."""
    log = open_on(directory, disk, scheduler=scheduler)
    try:
        yield log
    finally:
        with suppress(PowerCut, DiskError):
            log.close()


def fill(log: PartitionLog, count: int) -> None:
    """Records of one size, two to a segment; each says its offset."""
    for _ in range(count):
        log.append(value_of(log.end_offset), timestamp=NOW)


def value_of(offset: int, life: str = "old") -> bytes:
    return f"{life} {offset:04d} ".encode() * 4


def crashed_at(directory: Path, story: Story, step: int) -> SimulatedDisk:
    """The disk of a machine that loses power at this step of the story, or at its end."""
    disk = new_disk(directory)
    disk.crash_at(step)
    scheduler = ManualScheduler(ManualClock())
    with suppress(PowerCut), opened(directory, disk, scheduler=scheduler) as log:
        story(log, scheduler)
        disk.crash_at(disk.steps + 1)  # nobody closes it
    return disk


def steps_of(directory: Path, story: Story) -> int:
    """The number of steps of a story, with opening the log but without closing it."""
    disk = new_disk(directory)
    scheduler = ManualScheduler(ManualClock())
    with opened(directory, disk, scheduler=scheduler) as log:
        story(log, scheduler)
        return disk.steps


def values(log: PartitionLog) -> dict[int, bytes]:
    return {record.offset: record.value or b"" for record in log.records()}
