"""Counts what is read from one device, and at which rate."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry, FileIdentity, FileStatus, Path, ReadFile

if TYPE_CHECKING:
    from stratalog.files.disk import Target

_CACHED_RATE = 3e9  # bytes a second: what is read more slowly does not come out of the page cache
_REMEMBERED_S = 10.0  # what the rate is taken over: long enough to be calm, short enough to be now


class RateMeter:
    """The bytes a second of the last seconds, from totals that are noted now and then."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, int]] = deque()

    def note(self, now_s: float, total: int) -> None:
        """The total is this much now."""
        self._noted.append((now_s, total))
        while len(self._noted) > 2 and now_s - self._noted[1][0] >= _REMEMBERED_S:
            self._noted.popleft()

    @property
    def rate(self) -> float:
        """0 until something can be said."""
        if len(self._noted) < 2:
            return 0.0
        (began_s, before), (ended_s, after) = self._noted[0], self._noted[-1]
        return (after - before) / (ended_s - began_s) if ended_s > began_s else 0.0


class ReadingDisk(Disk):
    """A disk seen by the readers of one device: reads are counted, and can be held up or ended.

    `before_read` is called ahead of each read: it may wait, or raise to end the reading. Nothing can be
    changed through it: what readers do is only to read.
    """

    def __init__(self, disk: Disk, before_read: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._inner = disk
        self.before_read = before_read
        self._lock = threading.Lock()
        self.bytes_read = 0

    def open_read(self, path: Path) -> ReadFile:
        self.before_read()
        file = self._inner.open_read(path)
        _advise(file, 0, 0, "POSIX_FADV_SEQUENTIAL")  # the system then reads ahead in larger pieces
        return file

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: FileIdentity | None = None
    ) -> int:
        self.before_read()
        began = perf_counter()
        count = self._inner.read_into(source, buffer, position, identity)
        is_cached = count > _CACHED_RATE * (perf_counter() - began)
        if not is_cached and isinstance(source, ReadFile):
            # It came from the device, which is to go on while this piece is looked at.
            _advise(source, position + count, count, "POSIX_FADV_WILLNEED")
        self._count(count)
        return count

    def read_at(self, path: Path, size: int, position: int, identity: FileIdentity | None = None) -> bytes:
        self.before_read()
        data = self._inner.read_at(path, size, position, identity)
        self._count(len(data))
        return data

    def size(self, source: ReadFile | Path) -> int:
        return self._inner.size(source)

    def status(self, path: Path) -> FileStatus | None:
        return self._inner.status(path)

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        return self._inner.list_directory(path)

    def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
        return self._inner.list_sizes(path, suffix)

    def _count(self, count: int) -> None:
        with self._lock:
            self.bytes_read += count


def _advise(file: ReadFile, position: int, size: int, advice: str) -> None:
    """Tell the system what is read next. Only advice: there is no error if it is not taken."""
    if file.descriptor >= 0 and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.descriptor, position, size, getattr(os, advice))
