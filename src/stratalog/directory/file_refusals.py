"""Finds files in the place of a partition's folder, because of which a broker takes the directory offline.

A broker loads the folders of a log directory and does not look at files. Then it creates the partitions that
the cluster's metadata assigns to it and that it has not found. If a file has the name of such a folder, it
cannot create the folder, and takes the log directory offline. So a file is harmless if the folder is in
another log directory of the node, or if the metadata assigns the partition to another one.

Kafka: LogManager.getOrCreateLog, LogManager.createLogDirectory
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import Layout
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.directory.node import Node
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.entries import EntryKind
from stratalog.files.names import DirectoryState, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader


def of_files(
    disk: DiskReader, layouts: Sequence[Layout], siblings: Sequence[str], node: Node
) -> Iterator[StartupRefusal]:
    """The files in these log directories where a broker would create a partition's folder.

    `siblings` are the node's other log directories.
    """
    if node.metadata is None or node.node_id is None:
        return
    missing = [
        key for key in _missing(layouts, node.metadata, node.node_id) if not _is_in(disk, siblings, key)
    ]
    for layout in layouts:
        others = node.metadata.broker_directories.get(node.node_id, frozenset()) - {_own_id(disk, layout)}
        files = _names_of_files(disk, layout.directory) if missing else set()
        for key in missing:
            if str(key) in files and node.metadata.directory_of(key, node.node_id) not in others:
                yield StartupRefusal(
                    RefusalKind.FILE,
                    layout.directory,
                    str(key),
                    "This is not a folder, and a broker creates the folder of a partition there.",
                    "Move it out of the log directory. If the partition had records, restore its folder from "
                    "a backup: without it a broker begins an empty partition, or fetches it from its leader.",
                    takes_offline=True,
                )


def _own_id(disk: DiskReader, layout: Layout) -> str | None:
    try:
        meta = read_meta_properties(disk, layout.directory)
    except (CorruptCheckpointError, DiskError):  # startup_refusals.py reports it
        return None
    return None if meta is None else meta.directory_id


def _missing(layouts: Sequence[Layout], metadata: ClusterMetadata, node_id: int) -> list[TopicPartition]:
    """The partitions of this node that have no folder in these directories."""
    here = {
        entry.topic_partition
        for layout in layouts
        for entry in layout.partitions
        if entry.state is DirectoryState.LIVE
    }
    return [
        key
        for topic in metadata.topics.values()
        for partition, replicas in topic.replicas.items()
        if node_id in replicas and (key := TopicPartition(topic.name, partition)) not in here
    ]


def _is_in(disk: DiskReader, directories: Sequence[str], key: TopicPartition) -> bool:
    for directory in directories:
        with suppress(DiskError):  # a broker does not find it there either
            status = disk.status(join_path(directory, str(key)))
            if status is not None and status.kind is EntryKind.DIRECTORY:
                return True
    return False


def _names_of_files(disk: DiskReader, directory: str) -> set[str]:
    """Files, and links that lead nowhere."""
    try:
        entries = disk.list_directory(directory)
    except DiskError:  # startup_refusals.py reports it
        return set()
    return {entry.name for entry in entries if entry.kind is not EntryKind.DIRECTORY}
