"""The first half of a start: directories made, recovered where need be, locked, and found to belong together.

Everything that keeps a manager from starting is found here, before a file is changed in a clean directory:
a directory in use, those of two nodes, a partition that is there twice.

Kafka: LogManager, MetaPropertiesEnsemble
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.config import ServerConfig
from stratalog.directory.cluster_metadata import ClusterMetadata, find_cluster_metadata, read_cluster_metadata
from stratalog.directory.layout import find_duplicates
from stratalog.directory.log_directory import LogDirectory, MakeLock
from stratalog.directory.recovery.progress import OnProgress
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError, LogDirLockedError, NotALogDirectoryError, StratalogError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path


class Starting(NamedTuple):
    """What a start needs, beside the directories."""

    disk: Disk
    clock: Clock
    server: ServerConfig
    topics: TopicConfigs | None
    metadata: ClusterMetadata | None
    on_progress: OnProgress | None
    make_lock: MakeLock


def unique_paths(directories: Iterable[Path]) -> list[str]:
    """The absolute paths; UsageError if one is named twice, whatever the spelling."""
    if isinstance(directories, str | bytes | os.PathLike):
        raise UsageError(f"{directories!r} is one directory; give a list of them: [{directories!r}].")
    paths = [os.path.abspath(directory) for directory in directories]  # noqa: PTH100
    twice = [path for number, path in enumerate(paths) if path in paths[:number]]
    if twice:
        raise UsageError(f"{twice[0]} is named twice.")
    if not paths:
        raise UsageError("a log manager needs a log directory.")
    return paths


def open_directories(
    starting: Starting, directories: Sequence[LogDirectory]
) -> tuple[TopicConfigs, ClusterMetadata | None]:
    """Recover and lock the directories; returns the topics' settings, and the metadata if there is any.

    One that the disk refuses goes offline. NotALogDirectoryError if one is something else, LogDirLockedError
    if one is in use, DiskError if none is left.
    """
    for directory in directories:
        guarded(directory, directory.check_kind)
    for directory in _online(directories):
        guarded(directory, directory.make)
    unclean: list[LogDirectory] = []
    for directory in _online(directories):
        if guarded(directory, directory.needs_recovery):
            unclean.append(directory)
    if unclean:
        _recover(starting, unclean)
    open_recovered(_online(directories), lambda late: _recover(starting, late), guarded)
    check_any_online(directories)
    online = _online(directories)
    _check_one_node(online)
    _check_no_duplicates(online)
    return _topics(starting, online)


def open_recovered(
    directories: Sequence[LogDirectory],
    recover: Callable[[Sequence[LogDirectory]], object],
    do: Callable[[LogDirectory, Callable[[], object]], object],
) -> None:
    """Lock the directories, which need no recovery, and read what they say of themselves.

    Only who holds the lock knows that for certain: where somebody was here since, or where a log is found
    that was open by itself before, it is recovered all the same. `do` does something in one directory.
    """
    for directory in directories:
        do(directory, directory.open)
    late = [found for found in _online(directories) if do(found, found.must_be_recovered)]
    if not late:
        return
    for directory in late:
        directory.release()
    recover(late)
    for directory in _online(late):
        do(directory, directory.open)
        if directory.is_online and directory.must_be_recovered():
            raise LogDirLockedError(directory.path, "somebody else uses it just now: run again.")


def check_any_online(directories: Sequence[LogDirectory]) -> None:
    """DiskError if no directory is left, which is when a broker halts."""
    if not _online(directories):
        first = directories[0].failure
        raise DiskError(directories[0].path, f"no log directory can be used: {first}") from first


def guarded(directory: LogDirectory, action: Callable[[], object]) -> object:
    """Do something in one directory, which goes offline if that fails.

    That one is in use, or is no log directory, concerns all of them.
    """
    try:
        return action()
    except (LogDirLockedError, NotALogDirectoryError):
        raise
    except StratalogError as error:
        directory.fail(error)
        return None


def _online(directories: Iterable[LogDirectory]) -> list[LogDirectory]:
    return [directory for directory in directories if directory.is_online]


def _recover(starting: Starting, directories: Sequence[LogDirectory]) -> None:
    """Bring directories that were not closed in order to where a clean shutdown would have left them."""
    from stratalog.directory.recovery.recover import recover_directories  # only for those who need it

    by_path = {directory.path: directory for directory in directories}
    report = recover_directories(
        list(by_path),
        disk=starting.disk,
        clock=starting.clock,
        server=starting.server,
        topics=starting.topics,
        make_lock=starting.make_lock,
        on_progress=starting.on_progress,
    )
    for found in report.directories:
        directory = by_path[found.directory]
        directory.recovered = found
        if found.error is not None:
            directory.fail(DiskError(found.directory, found.error))


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
