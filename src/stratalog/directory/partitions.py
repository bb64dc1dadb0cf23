"""Lists the partitions of a log directory for readers, and opens a view of one.

No lock is taken and nothing is changed; a broker may run meanwhile. Besides a partition's name, only the
facts that its log directory keeps are known: the offset at which its log starts, its recovery point, and the
clean-shutdown file for all partitions. A lone log keeps its own start and clean-shutdown file, until a log
directory takes it over (`lone_files.py`).

As in recovery, a checkpoint that cannot be read is treated as empty, with a warning. Then the log starts with
its first segment, and nothing of it is known to be on the device.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.checkpoints import Checkpoint, DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.kind import keeps_its_partitions
from stratalog.directory.layout import PartitionEntry
from stratalog.errors import InvalidNameError
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
from stratalog.log.api.view import LogView
from stratalog.log.log_end import NOT_CLOSED, Left

logger = logging.getLogger(__name__)

LIVE = (DirectoryState.LIVE,)


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
    disk: DiskReader, directory: str, states: Collection[DirectoryState] = LIVE
) -> list[FoundPartition]:
    """The partitions of a log directory in these states, by name."""
    entries = list(partition_entries(disk.list_directory(directory), states))
    if not entries:
        return []
    starts, points = _marks(disk, directory)
    was_closed = CleanShutdownFile(disk, directory).exists()
    are_lone = not keeps_its_partitions(disk, directory)
    partitions = []
    for entry in entries:
        key, path = entry.topic_partition, join_path(directory, entry.name)
        start = starts.get(key, 0)
        if key not in points:
            start = max(start, _own_start(disk, path, key))
        partitions.append(
            FoundPartition(
                topic_partition=key,
                directory=path,
                state=entry.state,
                log_start_offset=max(start, 0),
                left=Left(
                    was_closed or (are_lone and CleanShutdownFile(disk, path).exists()), points.get(key, 0)
                ),
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
    starts, points = _marks(disk, parent)
    return FoundPartition(
        topic_partition=key,
        directory=path,
        log_start_offset=starts.get(key) or _own_start(disk, path, key),
        left=Left(any(CleanShutdownFile(disk, home).exists() for home in (parent, path)), points.get(key, 0)),
        is_named=True,
    )


def open_view(
    disk: DiskReader, clock: Clock, found: FoundPartition, config: LogConfig | None = None
) -> LogView:
    """The log of a partition, for reading only."""
    return LogView(
        disk=disk,
        clock=clock,
        directory=found.directory,
        topic_partition=found.topic_partition,
        config=LogConfig() if config is None else config,
        log_start_offset=found.log_start_offset,
        left=found.left,
    )


def _marks(disk: DiskReader, directory: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """(log start offsets, recovery points) of a log directory."""
    checkpoints = DirectoryCheckpoints(disk, directory)
    return _read(checkpoints.log_start_offsets), _read(checkpoints.recovery_points)


def _own_start(disk: DiskReader, path: str, key: TopicPartition) -> int:
    return _read(DirectoryCheckpoints(disk, path).log_start_offsets).get(key, 0)


def _read(checkpoint: Checkpoint) -> dict[TopicPartition, int]:
    offsets = checkpoint.read()
    if checkpoint.problem is not None:
        logger.warning("%s, %s; the file is treated as empty.", checkpoint.path, checkpoint.problem.words)
    return offsets


def _is_segment(name: str) -> bool:
    try:
        file = parse_segment_file(name)
    except InvalidNameError:
        return False
    return file is not None and file.kind is FileKind.LOG
