"""Lists the partitions of a log directory for readers.

No lock is taken and nothing is changed; a broker may run meanwhile. Besides a partition's name, only the
facts that its log directory keeps are known: the offset at which its log starts, its recovery point and
high watermark, and the clean-shutdown file for all partitions. A lone log keeps its own start and
clean-shutdown file, until a log directory takes it over (`lone_files.py`).

As in recovery, a checkpoint that cannot be read is treated as empty, with a warning. Then the log starts with
its first segment, and nothing of it is known to be on the device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from stratalog.directory.checkpoints import Checkpoint, DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.kind import keeps_its_partitions
from stratalog.directory.layout import PartitionEntry
from stratalog.errors import DiskError, InvalidNameError, UsageError
from stratalog.files.entries import DirectoryEntry, EntryKind
from stratalog.files.names import (
    DirectoryState,
    FileKind,
    TopicPartition,
    parse_partition_directory,
    parse_segment_file,
)
from stratalog.files.paths import join_path, last_name, parent_path
from stratalog.files.reading import DiskReader
from stratalog.log.log_end import NOT_CLOSED, Left

logger = logging.getLogger(__name__)

LIVE = (DirectoryState.LIVE,)
# The checkpoints of a directory have offsets for logs in these states, but not for deleted or stray ones.
_OWN_MARKS = (DirectoryState.LIVE, DirectoryState.FUTURE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    """A partition's directory, and the facts that its log directory stores for it."""

    topic_partition: TopicPartition
    directory: str
    state: DirectoryState = DirectoryState.LIVE
    log_start_offset: int = 0
    left: Left = NOT_CLOSED
    is_named: bool = False  # the caller named the partition's own path

    @property
    def entry(self) -> PartitionEntry:
        """Its entry in a listing of the log directory."""
        name = last_name(self.directory)
        return PartitionEntry(name, self.topic_partition, self.state)


def partition_entries(
    entries: Iterable[DirectoryEntry], states: Collection[DirectoryState] = LIVE
) -> Iterator[PartitionEntry]:
    """The partitions among the entries of a log directory, including the log of the cluster's metadata.

    An entry whose name no broker gives to a partition is skipped: readers do not need it.
    """
    for entry in entries:
        if entry.kind is not EntryKind.DIRECTORY:
            continue
        try:
            found = parse_partition_directory(entry.name)
        except InvalidNameError:
            continue
        if found.state in states:
            yield PartitionEntry(entry.name, found.topic_partition, found.state)


def list_partitions(
    disk: DiskReader,
    directory: str,
    states: Collection[DirectoryState] = LIVE,
    *,
    on_unreadable: Callable[[DiskError], object] | None = None,
) -> list[FoundPartition]:
    """The partitions of a log directory that are in these states, sorted by name.

    DiskError if the system refuses to read a checkpoint; or `on_unreadable` is called with it, and the file
    is treated as empty.
    """
    entries = list(partition_entries(disk.list_directory(directory), states))
    if not entries:
        return []
    marks = _marks_in(disk, directory, on_unreadable)
    was_closed = CleanShutdownFile(disk, directory).exists()
    are_lone = not keeps_its_partitions(disk, directory)
    partitions = []
    for entry in entries:
        key, path = entry.topic_partition, join_path(directory, entry.name)
        start = marks.starts.get(key, 0)
        if key not in marks.recovery_points:
            start = max(start, _own_start(disk, path, key))
        is_closed = was_closed or (are_lone and CleanShutdownFile(disk, path).exists())
        partitions.append(
            FoundPartition(
                topic_partition=key,
                directory=path,
                state=entry.state,
                log_start_offset=max(start, 0),
                left=marks.left(key, is_closed) if entry.state in _OWN_MARKS else Left(is_closed),
            )
        )
    return partitions


def partition_at(disk: DiskReader, path: str) -> FoundPartition | None:
    """The partition whose own directory this is; None if it is something else.

    A log directory may be named kafka-1 and contain a server.log: only segments show that it is a partition.
    """
    try:
        found = parse_partition_directory(last_name(path))
    except InvalidNameError:
        return None
    if found.state is not DirectoryState.LIVE:
        return None
    if not any(_is_segment(entry.name) for entry in disk.list_directory(path)):
        return None
    key, parent = found.topic_partition, parent_path(path)
    marks = _marks_in(disk, parent)
    is_closed = any(CleanShutdownFile(disk, home).exists() for home in (parent, path))
    return FoundPartition(
        topic_partition=key,
        directory=path,
        log_start_offset=marks.starts.get(key) or _own_start(disk, path, key),
        left=marks.left(key, is_closed),
        is_named=True,
    )


class _Marks(NamedTuple):
    """The checkpoints of a log directory, and whether a broker is running in it."""

    starts: Mapping[TopicPartition, int]
    recovery_points: Mapping[TopicPartition, int]
    high_watermarks: Mapping[TopicPartition, int]
    is_in_use: bool

    def left(self, key: TopicPartition, was_closed: bool) -> Left:
        points, watermarks = self.recovery_points.get(key, 0), self.high_watermarks.get(key, 0)
        return Left(was_closed, points, watermarks, self.is_in_use)


def _marks_in(
    disk: DiskReader, directory: str, on_unreadable: Callable[[DiskError], object] | None = None
) -> _Marks:
    """Call it before the logs are read: a log in use is then at least as long as its checkpoints say."""
    checkpoints = DirectoryCheckpoints(disk, directory)
    is_in_use = True  # assumed, until the lock shows the opposite
    with suppress(DiskError, UsageError):
        is_in_use = disk.is_in_use(directory)
    return _Marks(
        _read(checkpoints.log_start_offsets, on_unreadable),
        _read(checkpoints.recovery_points, on_unreadable),
        _read(checkpoints.high_watermarks, on_unreadable),
        is_in_use,
    )


def _own_start(disk: DiskReader, path: str, key: TopicPartition) -> int:
    return _read(DirectoryCheckpoints(disk, path).log_start_offsets).get(key, 0)


def _read(
    checkpoint: Checkpoint, on_unreadable: Callable[[DiskError], object] | None = None
) -> dict[TopicPartition, int]:
    try:
        offsets = checkpoint.read()
    except DiskError as error:
        if on_unreadable is None:
            raise
        on_unreadable(error)
        return {}
    if checkpoint.problem is not None:
        logger.warning("%s, %s; the file is treated as empty.", checkpoint.path, checkpoint.problem.words)
    return offsets


def _is_segment(name: str) -> bool:
    try:
        file = parse_segment_file(name)
    except InvalidNameError:
        return False
    return file is not None and file.kind is FileKind.LOG
