"""The topics and partitions that a request names: which of them the directories have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stratalog.directory.layout import PartitionEntry, classify
from stratalog.errors import DiskError, UsageError
from stratalog.files.names import check_one_meaning, near_name
from stratalog.files.reading import DiskReader
from stratalog.records.internal_topics import CLUSTER_METADATA


def is_named(entry: PartitionEntry, names: Sequence[str]) -> bool:
    """Whether one of the names is the partition's or its topic's."""
    return entry.topic_partition.topic in names or str(entry.topic_partition) in names or entry.name in names


def check_names(disk: DiskReader, directories: Sequence[str], names: Sequence[str]) -> None:
    """UsageError if one of these names is not in the directories, or can mean two topics there."""
    if names:
        entries = [entry for directory in directories for entry in classify(disk, directory).partitions]
        check_known(entries, names, directories)


def names_among(entries: Sequence[PartitionEntry], names: Sequence[str]) -> list[str]:
    """Those of the names that belong to one of these partitions or their topics.

    UsageError if one is both a topic and a partition of another topic.
    """
    found = []
    for name in names:
        topics = {entry.topic_partition.topic for entry in entries if is_named(entry, [name])}
        check_one_meaning(name, topics)
        if topics:
            found.append(name)
    return found


def listed_partitions(
    disk: DiskReader, directories: Sequence[str]
) -> tuple[list[PartitionEntry], dict[str, DiskError]]:
    """The partitions in the directories, and the directories that cannot be read, with the reason."""
    found: list[PartitionEntry] = []
    unreadable: dict[str, DiskError] = {}
    for directory in directories:
        try:
            found += classify(disk, directory).partitions
        except DiskError as error:
            unreadable[directory] = error
    return found, unreadable


def notes_on_names(
    entries: Sequence[PartitionEntry],
    names: Sequence[str],
    directories: Sequence[str],
    unreadable: Collection[str],
) -> list[str]:
    """The same as `check_known`, but a missing name is only noted if an unreadable directory may have it."""
    if not unreadable:
        check_known(entries, names, directories)
    known = names_among(entries, names)
    return [
        f"{name}: no directory that could be read has such a topic or partition."
        for name in names
        if name not in known
    ]


def check_known(entries: Sequence[PartitionEntry], names: Sequence[str], directories: Sequence[str]) -> None:
    """The same as `check_names`, for partitions that are already listed."""
    known = names_among(entries, names)
    for name in names:
        if name not in known:
            if name in (CLUSTER_METADATA, f"{CLUSTER_METADATA}-0"):
                raise UsageError(
                    f"{name}: this command does not work on the log of the cluster's metadata. A broker "
                    "recovers that log, and rebuilds its indexes, at each start."
                )
            near = near_name(name, (entry.topic_partition for entry in entries))
            raise UsageError(f"{name}: there is no such topic or partition in {', '.join(directories)}{near}")
