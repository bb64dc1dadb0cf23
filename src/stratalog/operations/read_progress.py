"""The progress of a command that reads logs: bytes read, of about how many.

The number of bytes to read is an estimate: the number of passes over a log is known only when the log is
open, and a log that a broker writes to grows meanwhile. So each part of the work has an expected size, and
counts as exactly that size when it is done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from stratalog.engine.progress import OnProgress, Progress
from stratalog.files.entries import EntryKind
from stratalog.files.names import FileKind
from stratalog.files.reading import DiskReader

CountRead = Callable[[int], object]
"""Called with the number of bytes just read."""


def nobody(progress: Progress) -> None:
    """An OnProgress that does nothing."""


class ReadProgress:
    """Adds up the bytes read in one stage; `sizes` are the expected sizes of its parts, by path.

    Threads of an engine may read parts at the same time. `tell`, which is given to an engine as its
    `on_progress`, reports their counts in the thread that created this object.
    """

    def __init__(self, on_progress: OnProgress, sizes: Mapping[str, int], *, stage: str = "") -> None:
        self._on_progress, self._sizes, self._stage = on_progress, sizes, stage
        self._done, self._total = 0, sum(sizes.values())
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._untold: deque[tuple[str, int]] = deque()

    @contextmanager
    def part(self, path: str, words: str) -> Iterator[CountRead]:
        """Yields a function that counts the bytes read of one part. A part without a size counts as 0."""
        size, read = self._sizes.get(path, 0), 0

        def count(more: int) -> None:
            nonlocal read
            with self._lock:
                self._done += min(more, size - read)
                read = min(read + more, size)
                self._untold.append((words, self._done))
            if threading.get_ident() == self._owner:
                self.tell()

        yield count
        if size:
            count(size)

    def tell(self, _progress: Progress | None = None) -> None:
        """Report what was counted since the last call."""
        while self._untold:
            part, done = self._untold.popleft()
            self._on_progress(
                Progress(stage=self._stage, part=part, bytes_done=done, bytes_total=self._total)
            )


def logs_size(disk: DiskReader, directory: str) -> int:
    """The bytes of all .log files of a partition, from its directory listing."""
    return sum(
        entry.size
        for entry in disk.list_directory(directory)
        if entry.kind is EntryKind.FILE and entry.name.endswith(FileKind.LOG.value)
    )
