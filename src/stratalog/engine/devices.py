"""Finds which physical device a directory is on, and measures how many readers that device can use.

Every device starts with one reader. If that one is very fast (`FAST_RATE`), the bytes are in memory, or on a
disk that more readers do not slow down, and there is a reader for each core from then on. Otherwise readers
are added one by one, as long as each makes the device more than a tenth faster. A reader that does not help
is removed, and tried again from time to time, because a busy machine may be idle a minute later.
Why: docs/decisions/0014-readers-by-measuring.md.

`ReaderCount` decides, from numbers alone. `measuring.py` counts the bytes, `readers.py` has the threads.
"""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import NamedTuple

from stratalog.files.disk import Path
from stratalog.files.reading import DiskReader

MOST_READERS = 32
GROWTH = 1.1  # one more reader must make the device this much faster
# A window of the measurement lasts until this many bytes are read, but at least the shortest and at most the
# longest time: a slow disk is measured for longer.
WINDOW_SIZE = 64 << 20
SHORTEST_WINDOW_S, LONGEST_WINDOW_S = 0.04, 2.0
# A single reader that is this fast reads from memory, or from a disk that more readers do not slow down. This
# many bytes are enough to know the rate.
FAST_RATE = 1.5e9
FAST_SIZE = 16 << 20
_PATIENCE = 20  # windows until one more reader is tried again; doubled each time it does not help

_SYSTEM = FilePath("/sys/dev/block")


class Device(NamedTuple):
    """A physical device: its number from `stat`, and the system's name for it, or else the number.

    `statistics` is the file in which Linux counts the work of the device; None if there is none, as for a
    file system in memory or on another machine.
    """

    number: int
    name: str
    statistics: str | None = None


def device_of(disk: DiskReader, path: Path, *, system: FilePath = _SYSTEM) -> Device:
    """The device that holds the directory: two partitions of one disk are one device.

    A volume on one disk counts as that disk; a volume over several disks counts as a separate device.
    """
    return numbered_device(device_number(disk, path), system=system)


def device_number(disk: DiskReader, path: Path) -> int:
    """The number of the file system that holds the directory; 0 if there is no such directory."""
    status = disk.status(path)
    return 0 if status is None else status.device


def numbered_device(number: int, *, system: FilePath = _SYSTEM) -> Device:
    """The device of a file system. It takes ten system calls, so ask once for all of its directories."""
    plain = f"{os.major(number)}:{os.minor(number)}" if hasattr(os, "major") else str(number)
    try:
        return _physical(system / plain, number, system)
    except OSError:
        return Device(number, plain)


def _physical(link: FilePath, number: int, system: FilePath) -> Device:
    folder = link.resolve(strict=True)
    if (folder / "partition").exists():
        folder = folder.parent
    slaves = folder / "slaves"
    below = sorted(slaves.iterdir()) if slaves.is_dir() else []
    if len(below) == 1:
        return _physical(below[0], number, system)
    major, _, minor = (folder / "dev").read_text("ascii").strip().partition(":")
    statistics = folder / "stat"
    return Device(
        os.makedev(int(major), int(minor)),
        folder.name,
        str(statistics) if statistics.exists() else None,
    )


def busy_ms(device: Device) -> int | None:
    """How long the device has been busy since the machine started; None if the system does not count it."""
    if device.statistics is None:
        return None
    try:
        fields = FilePath(device.statistics).read_text("ascii").split()
    except OSError:
        return None
    return int(fields[9]) if len(fields) > 9 and fields[9].isdecimal() else None


class ReaderCount:
    """How many readers a device gets. `measured` takes the rate of a window, and may change `count` by one.

    If a single reader is fast, `count` becomes the number of cores at once.
    """

    def __init__(self, most: int = MOST_READERS, *, cores: int | None = None) -> None:
        self.count = 1
        self._most = most
        self._cores = cores or os.cpu_count() or 1
        self._rate_before: float | None = None  # with one reader fewer; None if no reader is being tried
        self._patience = _PATIENCE
        self._windows_left = 0

    def measured(self, rate: float) -> None:
        """Record the rate, in bytes a second, with `count` readers."""
        if self.count == 1 and rate > FAST_RATE:
            self.count = min(self._cores, self._most)
            self._windows_left = self._patience
        elif self._rate_before is not None:
            if rate > self._rate_before * GROWTH:
                self._try_one_more(rate)
                return
            self.count -= 1
            self._rate_before = None
            self._windows_left = self._patience
            self._patience *= 2
        elif self._windows_left > 0:
            self._windows_left -= 1
        else:
            self._try_one_more(rate)

    def is_enough(self, size: int, seconds: float) -> bool:
        """Whether a window with this many bytes and seconds is long enough to be measured."""
        if self.count == 1 and size >= FAST_SIZE and size > FAST_RATE * seconds:
            return True
        return seconds >= SHORTEST_WINDOW_S and (size >= WINDOW_SIZE or seconds >= LONGEST_WINDOW_S)

    def _try_one_more(self, rate: float) -> None:
        if self.count < self._most:
            self.count += 1
            self._rate_before = rate
        else:
            self._rate_before = None
            self._windows_left = self._patience


def fixed_count(readers: int) -> ReaderCount:
    """A number of readers that the caller gives; measurements do not change it."""
    count = _FixedCount()
    count.count = readers
    return count


class _FixedCount(ReaderCount):
    def measured(self, rate: float) -> None:
        """Nothing changes."""
