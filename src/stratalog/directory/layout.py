"""The content of a log directory, and what a broker does with each entry.

name                                    here               a broker
topic-3                                 a partition        loads it
topic-3.<id>-future                     a partition too    loads it: a log that is being moved here
topic-3.<id>-delete                     left alone         loads it; removes it after file.delete.delay.ms
topic-3.<id>-stray                      left alone         loads it; keeps it until someone removes it
__cluster_metadata-0                    left alone         keeps it apart, and always recovers it
remote-log-index-cache                  left alone         a cache of tiered storage
any other directory (lost+found)        a problem          does not start
a file of any name                      left alone         does not look at it

Kafka: LogManager.loadLogs
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from stratalog.directory.kind import check_log_directory
from stratalog.errors import DiskError, InvalidNameError, UsageError
from stratalog.files.entries import EntryKind, FileId, Path
from stratalog.files.names import (
    REMOTE_LOG_INDEX_CACHE,
    DirectoryState,
    TopicPartition,
    parse_partition_directory,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.records.internal_topics import CLUSTER_METADATA

_SEGMENT = re.compile(r"\d{20}\.log", re.ASCII)
# What is loaded here. A broker also loads folders marked -delete and -stray.
LOADED = (DirectoryState.LIVE, DirectoryState.FUTURE)


class PartitionEntry(NamedTuple):
    """A partition's directory: its name in the log directory, its partition, and LIVE or FUTURE."""

    name: str
    topic_partition: TopicPartition
    state: DirectoryState = DirectoryState.LIVE


class Problem(NamedTuple):
    """Something wrong in a log directory: where it is, what is wrong, and what a broker will do.

    `is_repaired`: a recovery has repaired it, or a dry run says that it would; `consequence` says how.
    """

    name: str
    words: str
    consequence: str
    is_repaired: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.words}; {self.consequence}."


class Layout(NamedTuple):
    """The sub-directories of a log directory, sorted by what is done with them; each tuple by name.

    `waiting` are those marked -delete, `strays` those marked -stray; both are in `left_alone` too. `links`
    are the partitions that are links to other places.
    """

    directory: str
    partitions: tuple[PartitionEntry, ...]
    waiting: tuple[str, ...]
    strays: tuple[str, ...]
    left_alone: tuple[str, ...]
    problems: tuple[Problem, ...]
    links: tuple[str, ...] = ()

    def path(self, entry: PartitionEntry) -> str:
        return join_path(self.directory, entry.name)


def classify(disk: DiskReader, directory: Path) -> Layout:
    """Sort the entries of a log directory. Reads only the listing, and changes nothing.

    NotALogDirectoryError for a partition's own directory. If it were treated as a log directory without logs,
    it would get a clean-shutdown file, and its log would look like a lone log that was closed cleanly.
    """
    root = os.fspath(directory)
    partitions: list[PartitionEntry] = []
    marked: dict[DirectoryState, list[str]] = {DirectoryState.DELETE: [], DirectoryState.STRAY: []}
    left_alone: list[str] = []
    problems: list[Problem] = []
    links: list[str] = []
    has_segments = False
    for entry in disk.list_directory(root):
        if entry.kind is not EntryKind.DIRECTORY:
            has_segments = has_segments or _SEGMENT.fullmatch(entry.name) is not None
            continue
        if entry.name == REMOTE_LOG_INDEX_CACHE:
            left_alone.append(entry.name)
            continue
        try:
            found = parse_partition_directory(entry.name)
        except InvalidNameError:
            words = "a directory that does not belong to a partition"
            problems.append(Problem(entry.name, words, "a broker refuses to start until it is moved away"))
            continue
        if found.topic_partition.topic == CLUSTER_METADATA:
            left_alone.append(entry.name)
        elif found.state in LOADED:
            partitions.append(PartitionEntry(entry.name, found.topic_partition, found.state))
            if entry.is_symlink:
                links.append(entry.name)
        else:
            marked[found.state].append(entry.name)
            left_alone.append(entry.name)
    if has_segments and not partitions and not left_alone:
        check_log_directory(disk, root)
    problems += find_duplicates([(root, entry) for entry in partitions])
    return Layout(
        root,
        tuple(partitions),
        tuple(marked[DirectoryState.DELETE]),
        tuple(marked[DirectoryState.STRAY]),
        tuple(left_alone),
        tuple(problems),
        tuple(links),
    )


def find_duplicates(entries: Iterable[tuple[str, PartitionEntry]]) -> list[Problem]:
    """Partitions that are there twice, in one log directory (`orders-1` and `orders-01`) or in two.

    A future log beside its current one is not a duplicate.
    """
    first: dict[tuple[TopicPartition, DirectoryState], str] = {}
    problems = []
    for directory, entry in entries:
        path = join_path(directory, entry.name)
        other = first.setdefault((entry.topic_partition, entry.state), path)
        if other != path:
            words = f"{entry.topic_partition} is also in {other}"
            problems.append(Problem(path, words, "a broker refuses to start until one of them is moved away"))
    return problems


def check_named_once(disk: DiskReader, paths: Sequence[str]) -> None:
    """UsageError if two of these paths are one directory."""
    for path, other in find_same(disk, paths).items():
        raise UsageError(f"{path} and {other} are one directory: name it once.")


def find_same(disk: DiskReader, paths: Sequence[str]) -> dict[str, str]:
    """The paths that, through a link or a mount, are the same directory as an earlier path, each with it."""
    first: dict[FileId, str] = {}
    same = {}
    for path in paths if len(paths) > 1 else ():
        with suppress(DiskError):  # reported by the code that reads it
            status = disk.status(path)
            if status is not None and (other := first.setdefault(status.id, path)) != path:
                same[path] = other
    return same


def find_aliases(disk: DiskReader, entries: Iterable[tuple[str, PartitionEntry]]) -> dict[str, str]:
    """The paths of partitions that, through links, are the same directory as an earlier one, each with that
    one's path.

    If both names were recovered, the second recovery would find files that the first has already changed.
    """
    first: dict[FileId, str] = {}
    aliases = {}
    for directory, entry in entries:
        path = join_path(directory, entry.name)
        status = disk.status(path)
        if status is not None and (other := first.setdefault(status.id, path)) != path:
            aliases[path] = other
    return aliases
