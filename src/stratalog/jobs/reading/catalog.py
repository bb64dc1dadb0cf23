"""The partitions in log directories: which directory each is in, and which of them a read asks for.

A path is a log directory (one of a broker's log.dirs), a single partition's directory, or a pattern of such.
What a broker is about to delete, copies or does not know any more is left out.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator

from stratalog.directory.partitions import FoundPartition, list_partitions, partition_at
from stratalog.errors import UsageError
from stratalog.files.disk import EntryKind
from stratalog.files.names import (
    TopicPartition,
)
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.options import ReadOptions, listed
from stratalog.records.internal_topics import is_internal

logger = logging.getLogger(__name__)

_WILD = re.compile(r"[*?\[]")


def find_partitions(
    disk: DiskReader, options: ReadOptions, *, may_lack: bool = False
) -> list[FoundPartition]:
    """The partitions that the options select, by topic and number.

    UsageError where a path, topic or partition is not there, or one partition is there twice. With `may_lack`
    a topic or partition need not be there, as for a stream that saw it before and knows what its absence is.
    """
    is_selected = _selection(options)
    found: dict[TopicPartition, FoundPartition] = {}
    for path in expand_paths(disk, options.paths):
        for partition in partitions_in(disk, path, may_be_empty=may_lack):
            known = found.setdefault(partition.topic_partition, partition)
            if known.directory == partition.directory or not is_selected(partition):
                continue
            raise UsageError(
                f"{partition.topic_partition} is in {known.directory} and in {partition.directory}: replicas "
                "of one partition, whose records would be read twice. Load the directories of one broker."
            )
    if not may_lack:
        _check_asked(options, found.keys())
    return [found[each] for each in sorted(found) if is_selected(found[each])]


def expand_paths(disk: DiskReader, paths: Iterable[str]) -> list[str]:
    """Directories for paths and patterns, each once and absolute; UsageError for one that matches nothing."""
    expanded: dict[str, None] = {}
    for path in paths:
        plain = os.path.abspath(local_path(path))  # noqa: PTH100 (text in, text out)
        # A directory may have such a character in its name.
        is_pattern = _WILD.search(plain) is not None and not disk.exists(plain)
        matches = list(_glob(disk, plain)) if is_pattern else [plain]
        if not matches:
            raise UsageError(f"{path} matches no directory.")
        expanded.update(dict.fromkeys(matches))
    return list(expanded)


def partitions_in(disk: DiskReader, path: str, *, may_be_empty: bool = False) -> list[FoundPartition]:
    """The live partitions of a log directory, or the one that the path itself is."""
    status = disk.status(path)
    if status is None:
        raise UsageError(f"{path} is not there. Give the path of a Kafka log directory, one of its log.dirs.")
    if status.kind is not EntryKind.DIRECTORY:
        raise UsageError(f"{path} is not a directory. Give the log directory that it lies in.")
    itself = partition_at(disk, path)
    if itself is not None:
        return [itself]
    found = list_partitions(disk, path)
    if not found and not may_be_empty:
        raise UsageError(
            f"{path} has no partition's directory, such as orders-0, in it. Give a Kafka log directory, one "
            "of a broker's log.dirs."
        )
    return found


def local_path(path: str) -> str:
    """The path without the scheme that Spark's paths may have; UsageError for another one than file:."""
    scheme, separator, rest = path.partition(":")
    if separator and scheme == "file":
        return "/" + rest.lstrip("/")
    if separator and rest.startswith("//"):
        raise UsageError(f"{path}: only directories that this machine's file system shows can be used.")
    return path


def _glob(disk: DiskReader, path: str) -> Iterator[str]:
    """The directories that a pattern matches, level by level."""
    parent, name = os.path.split(path)
    parents = list(_glob(disk, parent)) if _WILD.search(parent) else [parent]
    for each in parents:
        status = disk.status(each)
        if status is None or status.kind is not EntryKind.DIRECTORY:
            continue
        if not _WILD.search(name):
            if disk.exists(os.path.join(each, name)):  # noqa: PTH118
                yield os.path.join(each, name)  # noqa: PTH118
            continue
        for entry in disk.list_directory(each):
            if entry.kind is EntryKind.DIRECTORY and fnmatch.fnmatchcase(entry.name, name):
                yield os.path.join(each, entry.name)  # noqa: PTH118


def _selection(options: ReadOptions) -> Callable[[FoundPartition], bool]:
    """Whether the options select a partition, of which there may be as many as they name."""
    if options.assigned is not None:
        assigned = frozenset(options.assigned)
        return lambda found: found.topic_partition in assigned
    if options.topics is not None:
        topics = frozenset(options.topics)
        return lambda found: found.topic_partition.topic in topics
    pattern = None if options.pattern is None else re.compile(options.pattern)

    def is_selected(found: FoundPartition) -> bool:
        topic = found.topic_partition.topic
        # As a consumer's pattern, which leaves out internal topics too (exclude.internal.topics).
        if is_internal(topic) and not found.is_named:
            return False
        return pattern is None or pattern.fullmatch(topic) is not None

    return is_selected


def _check_asked(options: ReadOptions, found: Iterable[TopicPartition]) -> None:
    """UsageError for a topic or partition that was named and is not there."""
    there = set(found)
    topics = {partition.topic for partition in there}
    theirs = {topic for topic in topics if not is_internal(topic)}
    for partition in options.assigned or ():
        if partition not in there:
            raise UsageError(
                f"assign names {partition}, which is not in {listed(options.paths)}. There are "
                f"{listed(sorted(there))}."
            )
    for topic in options.topics or ():
        if topic not in topics:
            raise UsageError(
                f"subscribe names {topic}, which is not in {listed(options.paths)}. There are the topics "
                f"{listed([*sorted(theirs), *sorted(topics - theirs)])}."
            )
