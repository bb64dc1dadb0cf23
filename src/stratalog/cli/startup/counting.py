"""Counts what a load reads, writes and syncs: the totals, and the bytes read from each .log file."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from stratalog.files.disk import Disk
from stratalog.files.entries import ExpectedFile, Path, ReadFile
from stratalog.files.names import FileKind

if TYPE_CHECKING:
    from stratalog.files.disk import Data, Target


class CountingDisk(Disk):
    """A disk that counts. Reads that bypass it, such as those of mapped pages, are added with `note_read`."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.log_bytes: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0
        self.syncs = 0

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        count = super().read_into(source, buffer, position, identity)
        self.note_read(source.path if isinstance(source, ReadFile) else os.fspath(source), count)
        return count

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        data = super().read_at(path, size, position, identity)
        self.note_read(os.fspath(path), len(data))
        return data

    def append(self, path: Path, data: Data) -> int:
        self.note_write(len(data))
        return super().append(path, data)

    def write_at(self, path: Path, data: Data, position: int) -> None:
        self.note_write(len(data))
        super().write_at(path, data, position)

    def sync(self, path: Path) -> None:
        self._note_sync()
        super().sync(path)

    def sync_directory(self, path: Path) -> None:
        self._note_sync()
        super().sync_directory(path)

    def _write_temporaries(
        self, files: Sequence[tuple[Path, Data]], turn: AbstractContextManager[object] | None = None
    ) -> list[str]:
        for _, data in files:
            self.note_write(len(data))
            self._note_sync()
        return super()._write_temporaries(files, turn)

    def scans(self, sizes: dict[str, int]) -> Counter[str]:
        """How often each file was read completely, judging by the number of bytes read from it."""
        return Counter({path: self.log_bytes[path] // size for path, size in sizes.items() if size})

    def note_read(self, path: str, size: int) -> None:
        with self._lock:
            self.bytes_read += size
            if path.endswith(FileKind.LOG.value):
                self.log_bytes[path] += size

    def note_write(self, size: int) -> None:
        with self._lock:
            self.bytes_written += size

    def _note_sync(self) -> None:
        with self._lock:
            self.syncs += 1
