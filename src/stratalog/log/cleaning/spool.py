"""The spool: a temporary file for the records that stay when a cleaning reads segments backwards.

It is never synced: if it is lost, the originals are still there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from stratalog.files.disk import Disk, byte_view
from stratalog.files.entries import Path
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.txn_index import AbortedTxn

_MOST_PLACES = 1 << 18  # they are in memory, so their number must not grow with the log


class LostSpoolError(Exception):
    """The spool has not kept what was written, or cannot be read; the originals are still there."""


class SpoolPlace(NamedTuple):
    """Where in the spool a run is, and the CRC-32C of all its bytes.

    The checksums of batches do not cover their offsets.
    """

    position: int
    size: int
    batches_count: int
    checksum: int


class Spool:
    """A temporary file for the records that stay, in the directory of the log. Close it at the end.

    It holds `segment_size` bytes, or fewer on a disk with little room. When it is full, `is_full` is set and
    the rest is not written. If the disk refuses a write, `is_lost` is set too: the file is empty then.
    """

    def __init__(self, disk: Disk, directory: Path, segment_size: int) -> None:
        free_size = disk.free_size(directory)
        self._most_size = min(segment_size, free_size // 4, free_size - 2 * segment_size)
        self._file = disk.temporary_file(directory)
        self._size = self._segments_size = self._places_count = 0
        self._places: list[SpoolPlace] = []
        self.is_full = self._most_size <= 0
        self.is_lost = False

    def append(self, data: Bytes, batches: BatchTable, largest_offset: int) -> None:  # noqa: ARG002
        """Write a run; the parameters are those of a cleaned segment."""
        self._places_count += 1
        if self._size + len(data) > self._most_size or self._places_count > _MOST_PLACES:
            self.is_full = True
        if self.is_full:
            return
        try:
            rest = byte_view(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            # The originals are still there, and are read again. Their new segments may need this room.
            self.is_full = self.is_lost = True
            self._truncate(0)
            return
        checksum = int(crc32c(data, 0, len(data)))
        self._places.append(SpoolPlace(self._size, len(data), len(batches), checksum))
        self._size += len(data)

    def append_aborted(self, aborted: AbortedTxn) -> None:
        """Not called: a log with transactions is not read backwards."""
        raise NotImplementedError(aborted)

    def end_segment(self) -> list[SpoolPlace] | None:
        """Where the runs of the segment just appended are; None if there was no room for all."""
        places, self._places = self._places, []
        if self.is_full:
            self._truncate(0 if self.is_lost else self._segments_size)
            return None
        self._segments_size = self._size
        return places

    def _truncate(self, size: int) -> None:
        with suppress(OSError):
            self._file.truncate(size)

    def read_into(self, buffer: Bytes, position: int) -> None:
        """Fill a buffer with what was written from a position on."""
        done = 0
        try:
            self._file.seek(position)
            while done < len(buffer):
                count = self._file.readinto(buffer[done:].data)  # type: ignore[attr-defined]
                if not count:
                    raise LostSpoolError
                done += count
        except OSError as error:
            raise LostSpoolError from error

    def close(self) -> None:
        self._file.close()
