"""Finds files in the place of a partition's folder, because of which a broker takes the directory offline.

A broker loads the folders of a log directory and does not look at files. Then it creates the partitions that
the cluster's metadata assigns to it and that it has not found. If a file has the name of such a folder, it
cannot create the folder, and takes the log directory offline. So a file is harmless if the folder is in
another log directory of the node, or if the metadata assigns the partition to another one. A symbolic link
that leads nowhere, as to a disk that is not mounted, is like a file.

Kafka: LogManager.getOrCreateLog, LogManager.createLogDirectory
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import Layout
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.directory.node import Node
from stratalog.directory.refusal import DANGLING, MOUNT, RefusalKind, StartupRefusal
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.entries import DirectoryEntry, EntryKind, is_dangling
from stratalog.files.names import DirectoryState, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader

_RESTORE = (
    "restore its folder from a backup: without it a broker begins an empty partition, or fetches it from its "
    "leader."
)


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
        files = _files(disk, layout.directory) if missing else {}
        for key in missing:
            if str(key) in files and node.metadata.directory_of(key, node.node_id) not in others:
                yield _refusal(layout.directory, files[str(key)])


def _refusal(directory: str, entry: DirectoryEntry) -> StartupRefusal:
    words = "This is not a folder, and a broker creates the folder of a partition there."
    remedy = f"Move it out of the log directory. If the partition had records, {_RESTORE}"
    if is_dangling(entry):
        words = f"{DANGLING} A broker does not find the partition, and cannot create its folder there."
        remedy = f"{MOUNT} If the folder is lost, delete the link and {_RESTORE}"
    return StartupRefusal(RefusalKind.FILE, directory, entry.name, words, remedy, takes_offline=True)


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


def _files(disk: DiskReader, directory: str) -> dict[str, DirectoryEntry]:
    """Files, and links that lead nowhere, by name."""
    try:
        entries = disk.list_directory(directory)
    except DiskError:  # startup_refusals.py reports it
        return {}
    return {entry.name: entry for entry in entries if entry.kind is not EntryKind.DIRECTORY}
