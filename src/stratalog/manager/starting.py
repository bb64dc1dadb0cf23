"""The first half of a manager's start: opens the session and checks that its directories fit together.

Before any file is changed, it checks that no directory is in use, that all belong to one node, and that no
partition is there twice. Missing directories are created before the checks. The checks are repeated after a
recovery, which may have finished a write.

Kafka: LogManager, MetaPropertiesEnsemble
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from stratalog.config import ServerConfig
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import find_duplicates
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.node import Node, find_node
from stratalog.directory.pending_move import PendingMove, read_pending_move
from stratalog.directory.session import Session
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk


class Starting(NamedTuple):
    """The arguments of a start, apart from the directories."""

    disk: Disk
    server: ServerConfig
    topics: TopicConfigs | None
    metadata: ClusterMetadata | None


def open_directories(starting: Starting, session: Session) -> tuple[TopicConfigs, ClusterMetadata | None]:
    """Open the session; returns the topics' settings, and the metadata if there is any.

    A directory whose disk fails goes offline. NotALogDirectoryError if one is something else,
    LogDirLockedError if one is in use, TwoNodesError if they belong to different nodes, UsageError if a
    partition is there twice, DiskError if none is left.
    """

    def find(moves: Collection[PendingMove] = ()) -> Node:
        check_any_online(session.directories)
        _check_no_duplicates(session.online, moves)
        paths = [directory.path for directory in session.online]
        return find_node(starting.disk, paths, server=starting.server, metadata=starting.metadata)

    def find_before_recovery() -> None:
        # Recovery retires the old log of an interrupted move, so the partition is not there twice.
        moves = (read_pending_move(starting.disk, directory.path) for directory in session.online)
        find([move for move in moves if move is not None])

    session.open(before_recovery=find_before_recovery)
    node = find()
    topics = node.topic_configs(starting.server) if starting.topics is None else starting.topics
    return topics, node.metadata


def check_any_online(directories: Sequence[LogDirectory]) -> None:
    """DiskError if no directory is online, in which case a broker halts."""
    if not any(directory.is_online for directory in directories):
        first = directories[0].failure
        raise DiskError(directories[0].path, f"no log directory can be used: {first}") from first


def _check_no_duplicates(directories: Sequence[LogDirectory], moves: Collection[PendingMove]) -> None:
    """UsageError if a partition is there twice, unless one of these moves will remove one of the two."""
    problems = find_duplicates(
        (directory.path, entry)
        for directory in directories
        for entry in directory.layout.partitions
        if PendingMove(entry.topic_partition, directory.path) not in moves
    )
    if problems:
        raise UsageError(f"{problems[0].name}: {problems[0].words}; move one of them away.")
