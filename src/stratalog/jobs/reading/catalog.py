"""Finds the partitions in log directories, and selects those of a read.

A path is a log directory (one of a broker's log.dirs), a single partition's directory, or a pattern for such
directories. Folders marked -delete, -future or -stray are left out.
"""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from stratalog.directory.layout import check_named_once
from stratalog.directory.partitions import FoundPartition, list_partitions, partition_at
from stratalog.errors import MissingPathError, NotALogDirectoryError, UsageError
from stratalog.files.disk import EntryKind
from stratalog.files.names import TopicPartition, near_name
from stratalog.files.paths import join_path, last_name, parent_path
from stratalog.files.reading import DiskReader
from stratalog.files.storage import readable_path
from stratalog.jobs.reading.options import ReadOptions, listed
from stratalog.records.internal_topics import is_internal

logger = logging.getLogger(__name__)

_WILD = re.compile(r"[*?\[]")


def find_partitions(
    disk: DiskReader, options: ReadOptions, *, may_lack: bool = False
) -> list[FoundPartition]:
    """The partitions that the options select, sorted by topic and number.

    UsageError if a path, topic or partition does not exist, or a partition is found twice. With `may_lack` a
    topic or partition may be missing: a stream that has read from it before handles that itself.
    """
    is_selected = _selection(options)
    found: dict[TopicPartition, FoundPartition] = {}
    for path in expand_paths(disk, options.paths):
        for partition in partitions_in(disk, path, may_be_empty=may_lack):
            known = found.setdefault(partition.topic_partition, partition)
            if known.directory == partition.directory or not is_selected(partition):
                continue
            raise UsageError(
                f"{partition.topic_partition} is in {known.directory} and in {partition.directory}: two "
                "replicas of one partition, so its records would be read twice. Load the directories of one "
                "broker only."
            )
    if not may_lack:
        _check_asked(options, found.keys())
    return [found[each] for each in sorted(found) if is_selected(found[each])]


def all_partitions(disk: DiskReader, options: ReadOptions) -> list[FoundPartition]:
    """Every partition in the paths of the options, internal ones too; UsageError as for `find_partitions`."""
    topics = {
        partition.topic_partition.topic
        for path in expand_paths(disk, options.paths)
        for partition in partitions_in(disk, path)
    }
    return find_partitions(disk, replace(options, topics=tuple(sorted(topics)), pattern=None, assigned=None))


def expand_paths(disk: DiskReader, paths: Iterable[str]) -> list[str]:
    """Directories for paths and patterns, each once and absolute.

    UsageError if a pattern matches nothing, or two paths are one directory.
    """
    expanded: dict[str, None] = {}
    for path in paths:
        plain = readable_path(path)
        # A directory's own name may contain a wildcard character.
        is_pattern = _WILD.search(plain) is not None and not disk.exists(plain)
        matches = list(_glob(disk, plain)) if is_pattern else [plain]
        if not matches:
            raise UsageError(f"{path} matches no directory.")
        expanded.update(dict.fromkeys(matches))
    check_named_once(disk, found := list(expanded))
    return found


def partitions_in(disk: DiskReader, path: str, *, may_be_empty: bool = False) -> list[FoundPartition]:
    """The live partitions of a log directory, or the partition if the path is a partition's directory."""
    status = disk.status(path)
    if status is None:
        raise MissingPathError(path, "Give the path of a Kafka log directory, one of its log.dirs.")
    if status.kind is not EntryKind.DIRECTORY:
        raise UsageError(f"{path} is not a directory. Give the log directory that contains it.")
    itself = partition_at(disk, path)
    if itself is not None:
        return [itself]
    found = list_partitions(disk, path)
    if not found and not may_be_empty:
        raise NotALogDirectoryError(
            path, "it contains no partition directory such as orders-0. Give one of a broker's log.dirs."
        )
    return found


def _glob(disk: DiskReader, path: str) -> Iterator[str]:
    """The directories that a pattern matches, level by level."""
    parent, name = parent_path(path), last_name(path)
    parents = list(_glob(disk, parent)) if _WILD.search(parent) else [parent]
    for each in parents:
        status = disk.status(each)
        if status is None or status.kind is not EntryKind.DIRECTORY:
            continue
        if not _WILD.search(name):
            if disk.exists(join_path(each, name)):
                yield join_path(each, name)
            continue
        for entry in disk.list_directory(each):
            if entry.kind is EntryKind.DIRECTORY and fnmatch.fnmatchcase(entry.name, name):
                yield join_path(each, entry.name)


def _selection(options: ReadOptions) -> Callable[[FoundPartition], bool]:
    """Returns a function that says whether the options select a partition."""
    if options.assigned is not None:
        assigned = frozenset(options.assigned)
        return lambda found: found.topic_partition in assigned
    if options.topics is not None:
        topics = frozenset(options.topics)
        return lambda found: found.topic_partition.topic in topics
    pattern = None if options.pattern is None else re.compile(options.pattern)

    def is_selected(found: FoundPartition) -> bool:
        topic = found.topic_partition.topic
        # A consumer's pattern leaves out internal topics too (exclude.internal.topics).
        if is_internal(topic) and not found.is_named:
            return False
        return pattern is None or pattern.fullmatch(topic) is not None

    return is_selected


def _check_asked(options: ReadOptions, found: Iterable[TopicPartition]) -> None:
    """UsageError for a topic or partition that was named and does not exist."""
    there = set(found)
    topics = {partition.topic for partition in there}
    theirs = {topic for topic in topics if not is_internal(topic)}
    for partition in options.assigned or ():
        if partition not in there:
            raise UsageError(
                f"assign names {partition}, which is not in {listed(options.paths)}"
                f"{near_name(str(partition), there)} The partitions there are {listed(sorted(there))}."
            )
    for topic in options.topics or ():
        if topic not in topics:
            raise UsageError(
                f"subscribe names {topic}, which is not in {listed(options.paths)}{near_name(topic, there)} "
                f"The topics there are {listed([*sorted(theirs), *sorted(topics - theirs)])}."
            )
