"""Chooses topics and partitions by name, and where to start in each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from stratalog.clock import system_clock
from stratalog.directory.kind import Kind, kind_of
from stratalog.directory.node import find_node
from stratalog.directory.partitions import FoundPartition
from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition, check_one_meaning
from stratalog.files.reading import DiskReader
from stratalog.files.storage import reader_for
from stratalog.jobs.reading.arguments import option_texts
from stratalog.jobs.reading.catalog import all_partitions, find_partitions
from stratalog.jobs.reading.ends import Ends, ends_of
from stratalog.jobs.reading.options import EARLIEST, LATEST, ReadBound, ReadOptions, listed
from stratalog.jobs.reading.plan import looking_at
from stratalog.limits import INT64_MAX
from stratalog.records.internal_topics import CLUSTER_METADATA, is_internal

# Words in the messages of a read, and what the command line says instead.
COMMAND_WORDS = {
    "set isolation=read_uncommitted and onCorruption=skip": "leave out --committed, and give --skip-damage",
    "set onCorruption=skip": "give --skip-damage",
    "onCorruption=skip": "--skip-damage",
    "subscribe names ": "the command names ",
    "assign names ": "the command names ",
    "startingTimestamp": "--since",
    "endingTimestamp": "--until",
    "Load the directories": "Name the directories",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where to start in each partition: at an offset, `from_end` offsets before the end, or at a time.

    `offset` can be EARLIEST or LATEST. `until_ms` is where to stop, which kcat's -o can set as well.
    """

    offset: int | None = None
    from_end: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None


def parse_start(text: str) -> Start:
    """The meaning of a value of kcat's -o; UsageError for any other text."""
    if text in ("beginning", "earliest"):
        return Start(offset=EARLIEST)
    if text in ("end", "latest"):
        return Start(offset=LATEST)
    match = re.fullmatch(r"(-|s@|e@|)(\d{1,19})", text)
    if text == "stored":
        raise UsageError("-o stored is for a consumer group: `stratalog groups` prints what groups stored.")
    if match is None or int(match[2]) > INT64_MAX:
        raise UsageError(
            f"-o {text} is not an offset: write 17, or -10 for ten from the end, beginning, end, "
            "s@1767225600000 to start at a time, or e@1767225600000 to stop before one."
        )
    number = int(match[2])
    match match[1]:
        case "-":
            return Start(from_end=number)
        case "s@":
            return Start(since_ms=number)
        case "e@":
            return Start(until_ms=number)
    return Start(offset=number)


def chosen(paths: Sequence[str], names: Sequence[str], options: Mapping[str, str]) -> ReadOptions:
    """A read of these topics and partitions; without names, of all topics that are not Kafka's own.

    UsageError for a name that is both a topic and a partition of another topic. For a name that is not there,
    the read itself raises it. NotALogDirectoryError as in `check_places`.
    """
    parsed = ReadOptions.parse(option_texts(paths) | dict(options))
    check_places(reader_for(*parsed.paths), paths)
    if not names:
        return parsed
    there = [found.topic_partition for found in all_partitions(reader_for(*parsed.paths), parsed)]
    topics, partitions = {each.topic for each in there}, {str(each): each for each in there}
    for name in names:
        check_one_meaning(name, {each.topic for each in there if name in (each.topic, str(each))})
    if topics.isdisjoint(names) and all(name in partitions for name in names):
        return replace(parsed, assigned=tuple(partitions[name] for name in names))
    if partitions.keys().isdisjoint({*names} - topics):
        return replace(parsed, topics=tuple(names))  # the read itself reports a name that does not exist
    wanted = {each for each in there if each.topic in names or str(each) in names}
    missing = [name for name in names if name not in topics and name not in partitions]
    if missing:
        return replace(parsed, topics=tuple(missing))
    return replace(parsed, assigned=tuple(sorted(wanted)))


def check_places(disk: DiskReader, paths: Sequence[str]) -> None:
    """NotALogDirectoryError for a path that is neither a log directory nor the directory of a partition.

    Folders of other programs can have names like those of partitions: `apache-2` in /etc, for example.
    """
    for path in paths:
        found = kind_of(disk, path)
        if not found.is_log_directory and found.kind is not Kind.PARTITION:
            raise found.refusal()


def by_kind(disk: DiskReader, options: ReadOptions) -> list[tuple[str | None, ReadOptions]]:
    """The read in parts: (None, ordinary topics), then each internal topic with its name."""
    found = [each.topic_partition for each in find_partitions(disk, options)]
    internal = sorted({each.topic for each in found if is_internal(each.topic)})
    if not internal:
        return [(None, options)]
    parts: list[tuple[str | None, ReadOptions]] = []
    for topic in (None, *internal):
        own = [each for each in found if (each.topic if is_internal(each.topic) else None) == topic]
        if own:
            parts.append((topic, _only(options, own)))
    return parts


def _only(options: ReadOptions, partitions: list[TopicPartition]) -> ReadOptions:
    wanted = {*partitions}

    def kept(bound: ReadBound) -> ReadBound:
        if bound.offsets is None:
            return bound
        return replace(bound, offsets={each: at for each, at in bound.offsets.items() if each in wanted})

    return replace(
        options,
        topics=None,
        assigned=tuple(partitions),
        starting=kept(options.starting),
        ending=kept(options.ending),
    )


def starting_at(options: ReadOptions, starts: Iterable[Start]) -> tuple[ReadOptions, list[str]]:
    """The read with these starts, and sentences about partitions that do not have the offset."""
    disk, notes = reader_for(*options.paths), list[str]()
    for start in starts:
        if start.until_ms is not None:
            options = replace(options, ending=ReadBound(timestamp=start.until_ms, option="-o"))
        elif start.since_ms is not None:
            bound = ReadBound(timestamp=start.since_ms, option="-o")
            options = replace(options, starting=bound, start_late_if_no_match=True)
        elif start.offset in (EARLIEST, LATEST):
            options = replace(options, starting=ReadBound(mark=start.offset, option="-o"))
        else:
            bound = ReadBound(offsets=_offsets(disk, options, start, notes), option="-o")
            options = replace(options, starting=bound)
    return options, notes


def _offsets(
    disk: DiskReader, options: ReadOptions, start: Start, notes: list[str]
) -> dict[TopicPartition, int]:
    found = {}
    for partition in find_partitions(disk, options):
        ends: Ends = looking_at(
            disk,
            system_clock,
            partition,
            lambda view: ends_of(view, read_committed=options.read_committed),
        )
        first, end = ends.start_offset, ends.end_offset
        wanted = end - start.from_end if start.from_end is not None else start.offset or 0
        found[partition.topic_partition] = min(max(wanted, first), end)
        if start.from_end is None and not first <= wanted <= end:
            notes.append(
                f"{partition.topic_partition} has no offset {wanted}: its offsets begin at {first} and end "
                f"before {end}."
            )
    return found


def named_partitions(disk: DiskReader, paths: Sequence[str], names: Sequence[str]) -> list[FoundPartition]:
    """These topics and partitions, or all but the metadata log, which clients do not see as a topic.

    UsageError for a name that is not there. NotALogDirectoryError as in `check_places`.
    """
    check_places(disk, paths)
    if names:
        return find_partitions(disk, chosen(paths, names, {}))
    there = all_partitions(disk, ReadOptions.parse(option_texts(paths)))
    return [found for found in there if found.topic_partition.topic != CLUSTER_METADATA]


def parts_elsewhere(disk: DiskReader, paths: Sequence[str], topic: str, numbers: Sequence[int]) -> str | None:
    """Says that the topic has other partitions elsewhere, or may have some; None if nothing suggests that.

    The cluster's metadata knows all partitions. Without it, only missing partitions below the highest number
    here are noticed.
    """
    node = find_node(disk, paths, is_damaged=True)
    known = None if node.metadata is None else node.metadata.topics.get(topic)
    missing = sorted({*(range(max(numbers)) if known is None else known.replicas)} - {*numbers})
    if missing:
        return f"{topic} has partitions on other brokers or disks ({listed(missing)})"
    if known is None and node.is_kraft:
        return f"The cluster's metadata is not here, so {topic} may have partitions on other disks"
    return None
