"""Counts what is read from one device, and at which rate."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from stratalog.files.entries import DirectoryEntry, ExpectedFile, FileId, FileStatus, Path, ReadFile
from stratalog.files.reading import DiskReader

if TYPE_CHECKING:
    from stratalog.files.reading import Target

_CACHED_RATE = 3e9  # bytes a second: slower reads do not come from the page cache
_REMEMBERED_S = 10.0  # the window of the rate: long enough to be steady, short enough to be current


class RateMeter:
    """The rate over the last seconds, in bytes a second, from totals that are recorded now and then."""

    def __init__(self) -> None:
        self._noted: deque[tuple[float, int]] = deque()

    def note(self, now_s: float, total: int) -> None:
        """Records the running total."""
        self._noted.append((now_s, total))
        while len(self._noted) > 2 and now_s - self._noted[1][0] >= _REMEMBERED_S:
            self._noted.popleft()

    @property
    def rate(self) -> float:
        """0 until the rate is known."""
        if len(self._noted) < 2:
            return 0.0
        (began_s, before), (ended_s, after) = self._noted[0], self._noted[-1]
        return (after - before) / (ended_s - began_s) if ended_s > began_s else 0.0


class ReadingDisk(DiskReader):
    """The disk that one reader uses: it counts the bytes read, and can pause or end the reading.

    `before_read` is called before each read: it may wait, or raise to end the reading.
    """

    def __init__(self, disk: DiskReader, before_read: Callable[[], None] = lambda: None) -> None:
        self.namespace = disk.namespace
        self._inner = disk
        self.before_read = before_read
        self._lock = threading.Lock()
        self.bytes_read = 0

    def open_read(self, path: Path) -> ReadFile:
        self.before_read()
        file = self._inner.open_read(path)
        file.expect_sequential_reads()
        return file

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        self.before_read()
        began = perf_counter()
        count = self._inner.read_into(source, buffer, position, identity)
        is_cached = count > _CACHED_RATE * (perf_counter() - began)
        if not is_cached and isinstance(source, ReadFile):
            # The bytes came from the device, so let the system read ahead while this piece is processed.
            source.expect_read(position + count, count)
        self._count(count)
        return count

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        self.before_read()
        data = self._inner.read_at(path, size, position, identity)
        self._count(len(data))
        return data

    def size(self, source: ReadFile | Path) -> int:
        return self._inner.size(source)

    def status(self, path: Path) -> FileStatus | None:
        return self._inner.status(path)

    def identify(self, file: ReadFile) -> FileId:
        return self._inner.identify(file)

    def free_size(self, path: Path) -> int:
        return self._inner.free_size(path)

    def block_size(self, path: Path) -> int:
        return self._inner.block_size(path)

    def available_size(self, path: Path) -> int:
        return self._inner.available_size(path)

    def may_create_in(self, path: Path) -> bool:
        return self._inner.may_create_in(path)

    def is_read_only(self, path: Path) -> bool:
        return self._inner.is_read_only(path)

    def is_in_use(self, directory: Path) -> bool:
        return self._inner.is_in_use(directory)

    def is_same_device(self, path: Path, other: Path) -> bool:
        return self._inner.is_same_device(path, other)

    def release(self, directory: Path) -> None:
        self._inner.release(directory)

    def close(self) -> None:
        self._inner.close()

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        return self._inner.list_directory(path)

    def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
        return self._inner.list_sizes(path, suffix)

    def _count(self, count: int) -> None:
        with self._lock:
            self.bytes_read += count
