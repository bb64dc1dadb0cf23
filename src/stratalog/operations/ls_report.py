"""Topics, partitions and segments of log directories, as tables, sentences and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from stratalog.files.names import DirectoryState
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, size_text, time_text

_STATES = {
    DirectoryState.DELETE: "Waiting for deletion",
    DirectoryState.FUTURE: "On the way to this directory",
    DirectoryState.STRAY: "No longer this broker's",
}
# Columns that are left out on a narrow terminal, least important first. The help of `ls` says so.
DROPPABLE = (
    "epoch",
    "time index entries",
    "index entries",
    "first time",
    "codec",
    "segments",
    "first offset",
    "policy",
    "partitions",
    "clean",
    "last time",
)


class Policy(NamedTuple):
    """The cleanup.policy of a topic; Kafka's default unless it `is_known`. Cluster metadata has none."""

    values: tuple[str, ...]
    is_known: bool

    def __str__(self) -> str:
        words = ",".join(self.values) or "-"
        return words if self.is_known else f"({words})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDirectory:
    """A log directory, with the number of its live partitions."""

    directory: str
    partitions_count: int
    is_clean: bool
    is_in_use: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSegment:
    """A segment. `first_ms` is from its first batch, `last_ms`, codec and epoch from its last; -1: none."""

    base_offset: int
    end_offset: int
    size: int
    first_ms: int
    last_ms: int
    codec: str | None
    leader_epoch: int
    index_entries: int
    time_index_entries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPartition:
    """A partition. Times, codec and epoch are as for a segment. `error` says why nothing is known."""

    name: str
    topic: str
    partition: int
    directory: str
    state: DirectoryState
    is_clean: bool = False
    segments_count: int = 0
    size: int = 0
    start_offset: int = 0
    end_offset: int = 0
    first_ms: int = -1
    last_ms: int = -1
    codec: str | None = None
    leader_epoch: int = -1
    segments: tuple[ShownSegment, ...] = ()
    error: str | None = None

    @property
    def is_live(self) -> bool:
        return self.state is DirectoryState.LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTopic:
    """The live partitions of a topic together; offsets and times are the lowest and the highest of them."""

    topic: str
    policy: Policy
    partitions: tuple[ListedPartition, ...]

    @property
    def readable(self) -> list[ListedPartition]:
        return [found for found in self.partitions if found.error is None]

    @property
    def segments_count(self) -> int:
        return sum(found.segments_count for found in self.partitions)

    @property
    def size(self) -> int:
        return sum(found.size for found in self.partitions)

    @property
    def start_offset(self) -> int:
        return min((found.start_offset for found in self.readable), default=0)

    @property
    def end_offset(self) -> int:
        return max((found.end_offset for found in self.readable), default=0)

    @property
    def first_ms(self) -> int:
        return min((found.first_ms for found in self.readable if found.first_ms >= 0), default=-1)

    @property
    def last_ms(self) -> int:
        return max((found.last_ms for found in self.readable), default=-1)

    @property
    def codecs(self) -> list[str]:
        return sorted({found.codec for found in self.readable if found.codec is not None})

    @property
    def leader_epoch(self) -> int:
        return max((found.leader_epoch for found in self.readable), default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LsReport(Report):
    """What was listed: all topics, or the topics and partitions with these `names`.

    `unreadable` are the checkpoints that could not be read. They count as empty.
    """

    directories: tuple[ListedDirectory, ...]
    partitions: tuple[ListedPartition, ...]
    names: tuple[str, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def topics(self) -> list[ListedTopic]:
        """The topics that have live partitions, by name."""
        by_topic: dict[str, list[ListedPartition]] = {}
        for found in self.partitions:
            if found.is_live:
                by_topic.setdefault(found.topic, []).append(found)
        return [
            ListedTopic(
                topic=topic,
                policy=self.policies[topic],
                partitions=tuple(sorted(by_topic[topic], key=lambda found: found.partition)),
            )
            for topic in sorted(by_topic)
        ]

    @property
    def status(self) -> Status:
        is_failed = self.unreadable or any(found.error is not None for found in self.partitions)
        return Status.FAILED if is_failed else Status.FINE

    @property
    def verdict(self) -> str:
        totals = self.totals()
        counts = ", ".join(
            [
                counted(totals["topics"], "topic"),
                counted(totals["partitions"], "partition"),
                counted(totals["segments"], "segment"),
                size_text(totals["bytes"]),
            ]
        )
        used = [found.directory for found in self.directories if found.is_in_use]
        unclean = [
            found.directory for found in self.directories if not found.is_clean and not found.is_in_use
        ]
        words = f"{counts}."
        if used:
            words += f" A broker or another program is using {', '.join(used)} now."
        if unclean:
            words += f" Not shut down cleanly: {', '.join(unclean)}."
        return words

    def tables(self) -> list[Table]:
        if not self.names:
            return [_directories(self.directories), _topics(self.topics())]
        partitions = [found for found in self.partitions if found.topic in self.names]
        return [
            _partitions(partitions),
            *(_segments(found) for found in self.partitions if _is_asked(found, self.names)),
        ]

    def words(self) -> list[str]:
        return [*self._words(), *self.unreadable, *self.notes]

    def _words(self) -> Iterator[str]:
        for found in self.partitions:
            if found.error is not None:
                yield f"{found.name}: {found.error}"
        if self.names:
            return
        for state, words in _STATES.items():
            names = [found.name for found in self.partitions if found.state is state]
            if names:
                yield f"{words}: {', '.join(names)}."

    def totals(self) -> dict[str, int]:
        live = [found for found in self.partitions if found.is_live]
        return {
            "directories": len(self.directories),
            "topics": len({found.topic for found in live}),
            "partitions": len(live),
            "segments": sum(found.segments_count for found in live),
            "bytes": sum(found.size for found in live),
            "partitions_unreadable": sum(found.error is not None for found in self.partitions),
        }

    def to_document(self) -> dict[str, object]:
        others = [found for found in self.partitions if not found.is_live]
        return {
            "directories": [asdict(found) for found in self.directories],
            "topics": [_topic_document(topic) for topic in self.topics()],
            "other_partitions": [_partition_document(found) for found in others],
            "notes": [*self.unreadable, *self.notes],
        }


def _is_asked(partition: ListedPartition, names: Sequence[str]) -> bool:
    return partition.name in names or f"{partition.topic}-{partition.partition}" in names


def _directories(directories: Sequence[ListedDirectory]) -> Table:
    return Table(
        title="Log directories",
        columns=["directory", ">partitions", "shut down cleanly", "in use"],
        rows=[
            [found.directory, str(found.partitions_count), _yes(found.is_clean), _yes(found.is_in_use)]
            for found in directories
        ],
    )


def _topics(topics: Sequence[ListedTopic]) -> Table:
    return Table(
        title="Topics",
        columns=[
            "topic",
            ">partitions",
            ">segments",
            ">size",
            ">first offset",
            ">end offset",
            "first time",
            "last time",
            "codec",
            "policy",
            ">epoch",
        ],
        rows=[
            [
                topic.topic,
                str(len(topic.partitions)),
                str(topic.segments_count),
                size_text(topic.size),
                str(topic.start_offset),
                str(topic.end_offset),
                time_text(topic.first_ms),
                time_text(topic.last_ms),
                ",".join(topic.codecs) or "-",
                str(topic.policy),
                _epoch(topic.leader_epoch),
            ]
            for topic in topics
        ],
        droppable=DROPPABLE,
    )


def _partitions(partitions: Sequence[ListedPartition]) -> Table:
    """If all are in one directory, its path is in the title, so that the table is not too wide."""
    paths = sorted({found.directory for found in partitions})
    is_one = len(paths) == 1
    columns = [
        "partition",
        ">segments",
        ">size",
        ">first offset",
        ">end offset",
        "first time",
        "last time",
        "codec",
        ">epoch",
        "clean",
    ]
    return Table(
        title=f"Partitions in {paths[0]}" if is_one else "Partitions",
        columns=columns if is_one else [*columns, "directory"],
        rows=[
            [
                found.name,
                str(found.segments_count),
                size_text(found.size),
                str(found.start_offset),
                str(found.end_offset),
                time_text(found.first_ms),
                time_text(found.last_ms),
                found.codec or "-",
                _epoch(found.leader_epoch),
                _yes(found.is_clean),
                *([] if is_one else [found.directory]),
            ]
            for found in sorted(partitions, key=lambda found: (found.topic, found.partition, found.name))
            if found.error is None
        ],
        droppable=DROPPABLE,
    )


def _segments(partition: ListedPartition) -> Table:
    return Table(
        title=f"Segments of {partition.name} in {partition.directory}",
        columns=[
            ">first offset",
            ">end offset",
            ">size",
            "first time",
            "last time",
            "codec",
            ">epoch",
            ">index entries",
            ">time index entries",
        ],
        rows=[
            [
                str(found.base_offset),
                str(found.end_offset),
                size_text(found.size),
                time_text(found.first_ms),
                time_text(found.last_ms),
                found.codec or "-",
                _epoch(found.leader_epoch),
                str(found.index_entries),
                str(found.time_index_entries),
            ]
            for found in partition.segments
        ],
        droppable=[name for name in DROPPABLE if name != "first offset"],
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _epoch(epoch: int) -> str:
    return "-" if epoch < 0 else str(epoch)


def _topic_document(topic: ListedTopic) -> dict[str, object]:
    return {
        "topic": topic.topic,
        "partitions_count": len(topic.partitions),
        "segments_count": topic.segments_count,
        "bytes": topic.size,
        "start_offset": topic.start_offset,
        "end_offset": topic.end_offset,
        "first_timestamp": topic.first_ms,
        "last_timestamp": topic.last_ms,
        "codecs": topic.codecs,
        "cleanup_policy": list(topic.policy.values),
        "is_policy_known": topic.policy.is_known,
        "leader_epoch": topic.leader_epoch,
        "partitions": [_partition_document(found) for found in topic.partitions],
    }


def _partition_document(found: ListedPartition) -> dict[str, object]:
    return {
        "name": found.name,
        "topic": found.topic,
        "partition": found.partition,
        "directory": found.directory,
        "state": found.state.name.lower(),
        "shut_down_cleanly": found.is_clean,
        "segments_count": found.segments_count,
        "bytes": found.size,
        "start_offset": found.start_offset,
        "end_offset": found.end_offset,
        "first_timestamp": found.first_ms,
        "last_timestamp": found.last_ms,
        "codec": found.codec,
        "leader_epoch": found.leader_epoch,
        "segments": [_segment_document(segment) for segment in found.segments],
        "error": found.error,
    }


def _segment_document(segment: ShownSegment) -> dict[str, object]:
    return {
        "base_offset": segment.base_offset,
        "end_offset": segment.end_offset,
        "bytes": segment.size,
        "first_timestamp": segment.first_ms,
        "last_timestamp": segment.last_ms,
        "codec": segment.codec,
        "leader_epoch": segment.leader_epoch,
        "index_entries": segment.index_entries,
        "time_index_entries": segment.time_index_entries,
    }
