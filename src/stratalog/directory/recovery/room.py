"""Checks whether there is room for what a plan writes, so that a dry run shows whether the run would fail.

New files are written before the old ones are deleted. With a work directory they are written over the old
ones, and must fit only at the end. A file occupies whole blocks; a sparse one, such as a preallocated index,
occupies less than its size. A file system also needs blocks of its own: if there is barely enough room, the
run may still fail.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from stratalog.errors import DiskError
from stratalog.files.reading import DiskReader
from stratalog.log.recovery.steps import CopyRanges, Delete, KeepRange, Step, Truncate, WriteFile

HINT = "`stratalog recover --work-dir DIR` copes with a full disk."


@dataclass(slots=True)
class FreeSpace:
    """The free bytes of one device. The rooms of all directories on it take from the same object."""

    size: int
    size_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_before = self.size


class Room:
    """The free bytes on the device of one log directory, as its plans are added."""

    def __init__(
        self, directory: str, space: FreeSpace, *, block_size: int = 1, has_work_dir: bool = False
    ) -> None:
        self._directory = directory
        self._space = space
        self._block_size = block_size
        self._has_work_dir = has_work_dir

    @classmethod
    def find(
        cls, disk: DiskReader, directory: str, spaces: dict[int, FreeSpace], *, has_work_dir: bool
    ) -> Self | None:
        """The room of a directory; None if the disk cannot say it, which does not stop a run either.

        `spaces` are those of the devices that were seen before, by number.
        """
        try:
            status = disk.status(directory)
            if status is None:
                return None
            size = disk.free_size(directory)
            block_size = disk.block_size(directory)
        except DiskError:
            return None
        space = spaces.setdefault(status.device, FreeSpace(size))
        return cls(directory, space, block_size=block_size, has_work_dir=has_work_dir)

    @property
    def freed_size(self) -> int:
        """How many bytes all plans on this device free in the end; negative if they take more."""
        return self._space.size - self._space.size_before

    def take(self, steps: Iterable[Step], occupied: Mapping[str, int], *, keeps_here: bool) -> None:
        """DiskError if a step does not fit. `occupied` is how many bytes each file takes on the device.

        `keeps_here`: the quarantine is on the same device.
        """
        for step in steps:
            match step:
                case WriteFile():
                    size = self._in_blocks(len(step.data))
                    if not self._has_work_dir:
                        self._require(size)
                    self._space.size -= size - (0 if step.file is None else occupied.get(step.file.name, 0))
                case CopyRanges():
                    size = self._in_blocks(sum(size for _, size in step.ranges))
                    self._require(size)
                    self._space.size -= size
                case KeepRange() if keeps_here:
                    # Whether it fits was checked before. Zeros are not copied: a sparse file has no blocks
                    # for them.
                    self._space.size -= min(
                        self._in_blocks(step.size), occupied.get(step.file.name, step.size)
                    )
                case Truncate():
                    self._space.size += max(0, occupied.get(step.file.name, 0) - self._in_blocks(step.size))
                case Delete():
                    self._space.size += occupied.get(step.file.name, 0)

    def settle(self) -> None:
        """DiskError unless everything fits at the end: the clean-shutdown file is small, but new."""
        if self._space.size < 0:
            raise DiskError(
                self._directory,
                f"its disk is full, and the cuts do not free enough: {-self._space.size} more bytes are "
                "needed. Free some space.",
                errno.ENOSPC,
            )
        self._require(self._block_size)
        self._space.size -= self._block_size

    def _in_blocks(self, size: int) -> int:
        return -(-size // self._block_size) * self._block_size

    def _require(self, size: int) -> None:
        """DiskError unless a new file of this size fits."""
        free = max(0, self._space.size)
        if size > free:
            advice = "Free some space." if self._has_work_dir else f"Free some space; or {HINT}"
            raise DiskError(
                self._directory,
                f"{size} bytes are to be written to a new file, and {free} are free here. {advice}",
                errno.ENOSPC,
            )
