"""Checks whether there is room for what a plan writes, so that a dry run shows whether the run would fail.

New files are written before the old ones are deleted. A cut of a log frees the bytes that it cuts. An index
frees nothing, because its preallocated zeros may occupy no blocks. Sizes are counted in bytes, not in blocks:
if the room is nearly enough, the run may still fail.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from stratalog.errors import DiskError
from stratalog.files.names import FileKind
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.steps import CopyRanges, Delete, KeepRange, Step, Truncate, WriteFile

HINT = "`stratalog recover --work-dir DIR` copes with a full disk."


class Room:
    """The free bytes on the device of one log directory, as its plans are added."""

    def __init__(self, directory: str, free: int) -> None:
        self._directory = directory
        self._free = free

    def take(self, steps: Iterable[Step], *, keeps_here: bool) -> None:
        """DiskError if a step does not fit; `keeps_here`: quarantine is on the same device."""
        for step in steps:
            match step:
                case WriteFile():
                    self.write(len(step.data))
                    self._free += 0 if step.file is None else min(step.file.size, len(step.data))
                case CopyRanges():
                    self.write(sum(size for _, size in step.ranges))
                case KeepRange() if keeps_here:
                    self._free -= step.size  # whether it fits was checked before
                case Truncate() if _is_log(step.file):
                    self._free += step.file.size - step.size
                case Delete() if _is_log(step.file):
                    self._free += step.file.size

    def write(self, size: int) -> None:
        """DiskError unless a new file of this size fits."""
        if size > self._free:
            raise DiskError(
                self._directory,
                f"{size} bytes are to be written to a new file, and {max(0, self._free)} are free here. Free "
                f"some space; or {HINT}",
                errno.ENOSPC,
            )
        self._free -= size


def _is_log(file: FileFact) -> bool:
    return FileKind.LOG.value in file.name  # in any state
