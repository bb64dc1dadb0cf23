"""Logs whose whole folder is gone: a checkpoint still has a line for them, and no directory has the log.

A broker starts all the same. It creates the partition again, without records, and overwrites the lines. A
line alone proves nothing, because it may be out of date. The rules:

the cluster's metadata is known      the node must be a replica of the partition, so that lines of deleted
                                     topics do not count
the node's directories are known     all of them must be here, because the log may have moved to another one;
                                     their ids are in the metadata since Kafka 3.7
neither, or only the first           the only directory of the node, as far as is known; and only recovery
                                     points count: a broker never rewrites the high watermarks of a directory
                                     that has no partition left

A folder marked -future, -delete or -stray is a log too. Kafka: LogManager.asyncDelete,
ReplicaManager.checkpointHighWatermarks
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from stratalog.directory.checkpoint_table import HIGH_WATERMARKS, RECOVERY_POINTS
from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.layout import Layout, Problem, classify
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.directory.node import Node
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.names import (
    MAX_DIRECTORY_LENGTH,
    DirectoryState,
    FileKind,
    TopicPartition,
    parse_partition_directory,
)
from stratalog.files.reading import DiskReader
from stratalog.records.internal_topics import CLUSTER_METADATA


class GoneLog(NamedTuple):
    """A log that is in no directory, and the checkpoint line that shows it.

    `has_folder`: its folder is there, but without a segment.
    """

    directory: str
    topic_partition: TopicPartition
    checkpoint: str
    offset: int
    has_folder: bool = False

    @property
    def words(self) -> str:
        what = "it has no segment" if self.has_folder else "its folder is gone"
        return f"{what}, although {self.checkpoint} says offset {self.offset}"

    @property
    def problem(self) -> Problem:
        consequence = (
            f"records below offset {self.offset} are missing, at least in this replica; a broker begins the "
            "log again without them"
        )
        return Problem(str(self.topic_partition), self.words, consequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedLogs:
    """One log directory of a node: its listing, its id, and its checkpoints as they were before it."""

    layout: Layout
    directory_id: str | None = None
    recovery_points: Mapping[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: Mapping[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def read(cls, disk: DiskReader, path: str) -> Self:
        """DiskError if something cannot be read."""
        checkpoints = DirectoryCheckpoints(disk, path)
        points, watermarks = checkpoints.recovery_points.read(), checkpoints.high_watermarks.read()
        return cls(
            layout=classify(disk, path),
            directory_id=directory_id_of(disk, path),
            recovery_points=points,
            high_watermarks=watermarks,
        )


def directory_id_of(disk: DiskReader, path: str) -> str | None:
    """The id in its meta.properties; None if there is none, or the file is garbled."""
    with suppress(CorruptCheckpointError):  # a broker refuses to start: see `startup_refusals.py`
        meta = read_meta_properties(disk, path)
        return None if meta is None else meta.directory_id
    return None


def read_gone_logs(disk: DiskReader, paths: Sequence[str], node: Node) -> list[GoneLog]:
    """Like `gone_logs`; nothing is known if one of the directories cannot be read."""
    with suppress(DiskError):
        return gone_logs([PlacedLogs.read(disk, path) for path in paths], node)
    return []


def read_emptied_logs(disk: DiskReader, path: str) -> list[GoneLog]:
    """The logs of a directory whose folder has no segment left; empty if something cannot be read."""
    with suppress(DiskError):
        listed, starts = PlacedLogs.read(disk, path), DirectoryCheckpoints(disk, path).log_start_offsets
        points, watermarks, known = listed.recovery_points, listed.high_watermarks, starts.read()
        gone = []
        for entry in listed.layout.partitions:
            key = entry.topic_partition
            name, offset = highest_line(points.get(key, 0), watermarks.get(key, 0))
            if entry.state is not DirectoryState.LIVE or offset <= known.get(key, 0):
                continue
            names = disk.list_sizes(listed.layout.path(entry), FileKind.LOG.value)
            if not any(each.endswith(FileKind.LOG.value) for each in names):
                gone.append(GoneLog(path, key, name, offset, has_folder=True))
        return gone
    return []


def highest_line(point: int, watermark: int) -> tuple[str, int]:
    """The line that shows the most records: the checkpoint's name, and the offset."""
    return (RECOVERY_POINTS.name, point) if point >= watermark else (HIGH_WATERMARKS.name, watermark)


def gone_logs(directories: Sequence[PlacedLogs], node: Node) -> list[GoneLog]:
    """The logs that are gone from these directories of one node, in the order of directories and names."""
    registered = _registered(node)
    if not registered <= {found.directory_id for found in directories}:
        return []
    is_alone = len(directories) == 1 and (node.metadata is not None or not node.is_kraft)
    if not registered and not is_alone:
        return []
    here = {entry.topic_partition for found in directories for entry in found.layout.partitions}
    marked = [name for each in directories for name in (*each.layout.waiting, *each.layout.strays)]
    gone = []
    for found in directories:
        points, watermarks = found.recovery_points, found.high_watermarks if registered else {}
        for key in sorted({*points, *watermarks} - here):
            name, offset = highest_line(points.get(key, 0), watermarks.get(key, 0))
            if offset > 0 and _is_on(node, key) and not _is_marked(key, marked):
                gone.append(GoneLog(found.layout.directory, key, name, offset))
    return gone


def _registered(node: Node) -> frozenset[str]:
    """The ids of the directories with which the node registered; empty if they are not known."""
    if node.metadata is None or node.node_id is None:
        return frozenset()
    return node.metadata.broker_directories.get(node.node_id, frozenset())


def _is_on(node: Node, key: TopicPartition) -> bool:
    """Whether the node has a replica of the partition, or nothing says that it has not."""
    if key.topic == CLUSTER_METADATA:
        return False
    if node.metadata is None:
        return True
    topic = node.metadata.topics.get(key.topic)
    return topic is not None and node.node_id in topic.replicas.get(key.partition, ())


def _is_marked(key: TopicPartition, names: Sequence[str]) -> bool:
    """Whether a folder marked -delete or -stray has the log. In a long name the topic is cut short."""
    for name in names:
        found = parse_partition_directory(name).topic_partition
        is_cut = len(name) == MAX_DIRECTORY_LENGTH
        if found == key or (
            is_cut and key == (key.topic, found.partition) and key.topic.startswith(found.topic)
        ):
            return True
    return False
