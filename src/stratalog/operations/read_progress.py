"""The progress of a command that reads logs: bytes read, of about how many.

How often a log is read is not known before it is looked at, and one that a broker writes to grows meanwhile.
So each part of the work has a size that it is thought to have, and counts for that in the end.
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
"""Is told how many bytes were read just now."""


def nobody(progress: Progress) -> None:
    """An OnProgress that does nothing."""


class ReadProgress:
    """Adds up the parts of one stage, whose sizes are given by their paths, and tells of it.

    Parts may be read side by side by the threads of an engine. What they count is told in the thread that
    made this, by `tell`, which is an engine's `on_progress`.
    """

    def __init__(self, on_progress: OnProgress, sizes: Mapping[str, int], *, stage: str = "") -> None:
        self._on_progress, self._sizes, self._stage = on_progress, sizes, stage
        self._done, self._total = 0, sum(sizes.values())
        self._lock = threading.Lock()
        self._owner = threading.get_ident()
        self._untold: deque[tuple[str, int]] = deque()

    @contextmanager
    def part(self, path: str, words: str) -> Iterator[CountRead]:
        """What is given counts the bytes of one part. One without a size counts for nothing."""
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
        """Tell what was counted since the last time."""
        while self._untold:
            part, done = self._untold.popleft()
            self._on_progress(
                Progress(stage=self._stage, part=part, bytes_done=done, bytes_total=self._total)
            )


def logs_size(disk: DiskReader, directory: str) -> int:
    """Bytes of the .log files of a partition, by its listing."""
    return sum(
        entry.size
        for entry in disk.list_directory(directory)
        if entry.kind is EntryKind.FILE and entry.name.endswith(FileKind.LOG.value)
    )
