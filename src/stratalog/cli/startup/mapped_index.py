"""An index file that is mapped into memory, as Kafka's brokers map theirs. Only for measurements.

Stratalog itself reads indexes and never maps them: a mapped file that somebody else truncates kills the
process. Here nobody else has the files. Kafka: AbstractIndex
"""

from __future__ import annotations

import mmap
import os
from io import FileIO

from stratalog.cli.startup.counting import CountingDisk
from stratalog.files.names import FileKind

ENTRY_SIZES = {FileKind.OFFSET_INDEX: 8, FileKind.TIME_INDEX: 12}


class MappedIndex:
    """Maps the file at once; `close` releases it. To Kafka 2.1, each slot of the file is an entry."""

    def __init__(self, disk: CountingDisk, path: str, kind: FileKind) -> None:
        self._disk, self._path = disk, path
        self._entry_size = ENTRY_SIZES[kind]
        self._memory: mmap.mmap | None = None
        self.size = 0
        self._map()

    def passes_check(self) -> bool:
        """Kafka 2.1's OffsetIndex.sanityCheck and TimeIndex.sanityCheck.

        A check of the last offset is left out: there Kafka adds the base offset to both sides, so it can only
        fail if the last offset is negative.
        """
        if self.size % self._entry_size:
            return False
        final = self.last_entry()
        if not final or self._entry_size == ENTRY_SIZES[FileKind.OFFSET_INDEX]:
            return True
        return _timestamp(final) >= _timestamp(self._entry(0))

    def last_entry(self) -> bytes:
        """The last slot of the file; empty if there is none. Kafka reads it when it opens an index."""
        count = self.size // self._entry_size
        return self._entry(count - 1) if count else b""

    def rebuild(self, entries: bytes, max_size: int) -> None:
        """Make the file as large as it can become, write its entries, and trim it. Nothing is synced.

        Kafka: AbstractIndex.reset, append, trimToValidSize
        """
        self.resize(max_size)
        if self._memory is not None:
            self._memory[: len(entries)] = entries
        self._disk.note_write(len(entries))
        self.resize(len(entries))

    def resize(self, size: int) -> None:
        """Change the size of the file, and map it again. Kafka: AbstractIndex.resize"""
        size -= size % self._entry_size
        if size != self.size:
            self.close()
            os.truncate(self._path, size)
            self._map()

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _map(self) -> None:
        with FileIO(self._path, "r+") as file:
            self.size = file.seek(0, os.SEEK_END)
            self._memory = mmap.mmap(file.fileno(), self.size) if self.size else None

    def _entry(self, number: int) -> bytes:
        assert self._memory is not None
        self._disk.note_read(self._path, mmap.PAGESIZE)  # the page that is faulted in
        return self._memory[number * self._entry_size : (number + 1) * self._entry_size]


def _timestamp(entry: bytes) -> int:
    return int.from_bytes(entry[:8], "big", signed=True)
