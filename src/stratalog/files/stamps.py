"""`FileStamp`: how a task on another machine knows that it sees the file for which it was planned.

Another machine may have another file under the same path, such as its own replica of the partition. A task
that read it would report facts about the wrong log, and the driver would act on them.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Self

from stratalog.errors import OtherFileError
from stratalog.files.reading import DiskReader


class FileStamp(NamedTuple):
    """A file's size and time of change, as the driver saw them. A missing file has size -1."""

    path: str
    size: int
    mtime_ms: int

    @classmethod
    def of(cls, disk: DiskReader, path: str) -> Self:
        status = disk.status(path)
        return cls(path, -1, 0) if status is None else cls(path, status.size, status.mtime_ms)

    def check(self, disk: DiskReader) -> None:
        """OtherFileError if this machine sees another file."""
        found = FileStamp.of(disk, self.path)
        if found != self:
            raise OtherFileError(
                self.path,
                f"on host {os.uname().nodename} it is not the file for which the work was planned: "
                f"{_facts(found)}, but the driver saw {_facts(self)}. All workers must see the same files "
                "under the same paths as the driver, and nobody may change them meanwhile.",
            )


def _facts(stamp: FileStamp) -> str:
    if stamp.size < 0:
        return "no file"
    return f"{stamp.size} bytes, changed at {stamp.mtime_ms} ms since 1970"
