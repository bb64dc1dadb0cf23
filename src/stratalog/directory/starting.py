"""The first half of a manager's start: the session is opened, and its directories found to belong together.

Everything that keeps a manager from starting is found here, before a file is changed in a clean directory:
a directory in use, those of two nodes, a partition that is there twice.

Kafka: LogManager, MetaPropertiesEnsemble
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stratalog.config import ServerConfig
from stratalog.directory.cluster_metadata import ClusterMetadata, find_cluster_metadata, read_cluster_metadata
from stratalog.directory.layout import find_duplicates
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.session import Session
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk


class Starting(NamedTuple):
    """What a start needs, beside the directories."""

    disk: Disk
    server: ServerConfig
    topics: TopicConfigs | None
    metadata: ClusterMetadata | None


def open_directories(starting: Starting, session: Session) -> tuple[TopicConfigs, ClusterMetadata | None]:
    """Open the session; returns the topics' settings, and the metadata if there is any.

    A directory that the disk refuses goes offline. NotALogDirectoryError if one is something else,
    LogDirLockedError if one is in use, DiskError if none is left.
    """
    session.open()
    check_any_online(session.directories)
    _check_one_node(session.online)
    _check_no_duplicates(session.online)
    return _topics(starting, session.online)


def check_any_online(directories: Sequence[LogDirectory]) -> None:
    """DiskError if no directory is left, which is when a broker halts."""
    if not any(directory.is_online for directory in directories):
        first = directories[0].failure
        raise DiskError(directories[0].path, f"no log directory can be used: {first}") from first


def _check_one_node(directories: Sequence[LogDirectory]) -> None:
    """Kafka does not start on the directories of two nodes, or of two clusters."""
    known = [(directory.path, directory.meta) for directory in directories if directory.meta is not None]
    for path, meta in known[1:]:
        first_path, first = known[0]
        if (meta.node_id, meta.cluster_id) != (first.node_id, first.cluster_id):
            raise UsageError(
                f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, {first_path} to node "
                f"{first.node_id} of cluster {first.cluster_id}: open them apart."
            )


def _check_no_duplicates(directories: Sequence[LogDirectory]) -> None:
    problems = find_duplicates(
        (directory.path, entry) for directory in directories for entry in directory.layout.partitions
    )
    if problems:
        raise UsageError(f"{problems[0].name}: {problems[0].words}; move one of them away.")


def _topics(
    starting: Starting, directories: Sequence[LogDirectory]
) -> tuple[TopicConfigs, ClusterMetadata | None]:
    metadata = starting.metadata
    if metadata is None:
        found = find_cluster_metadata(starting.disk, [directory.path for directory in directories])
        metadata = None if found is None else read_cluster_metadata(starting.disk, found)
    if starting.topics is not None:
        return starting.topics, metadata
    if metadata is None:
        return TopicConfigs(starting.server.log), None
    node_id = next((found.meta.node_id for found in directories if found.meta is not None), None)
    return TopicConfigs.from_metadata(metadata, server=starting.server, node_id=node_id), metadata
