"""How far a command is that reads logs: how many bytes, of about how many.

How often a log is read is not known before it is looked at, and one that a broker writes to grows meanwhile.
So each part of the work has a size that it is thought to have, and counts for that in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from stratalog.files.entries import EntryKind
from stratalog.files.names import FileKind
from stratalog.files.reading import DiskReader

OnRead = Callable[[str, int, int], object]
"""Is told what is read (a topic, a partition), how many bytes are done, and of about how many."""
CountRead = Callable[[int], object]
"""Is told how many bytes were read just now."""


def nobody(words: str, done: int, total: int) -> None:
    """An OnRead where nobody watches."""


class ReadProgress:
    """Adds up the parts of one run, whose sizes are given by their paths, and tells of it."""

    def __init__(self, on_read: OnRead, sizes: Mapping[str, int]) -> None:
        self._on_read, self._sizes = on_read, sizes
        self._done, self._total = 0, sum(sizes.values())

    @contextmanager
    def part(self, path: str, words: str) -> Iterator[CountRead]:
        """What is given counts the bytes of one part. One without a size counts for nothing."""
        size, read = self._sizes.get(path, 0), 0

        def count(more: int) -> None:
            nonlocal read
            read = min(read + more, size)
            self._on_read(words, self._done + read, self._total)

        yield count
        self._done += size
        if size:
            self._on_read(words, self._done, self._total)


def logs_size(disk: DiskReader, directory: str) -> int:
    """Bytes of the .log files of a partition, by its listing."""
    return sum(
        entry.size
        for entry in disk.list_directory(directory)
        if entry.kind is EntryKind.FILE and entry.name.endswith(FileKind.LOG.value)
    )
