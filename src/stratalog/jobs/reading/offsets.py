"""The position of a stream: offsets by partition, how far a trigger may go, and what counts as data loss.

{"orders": {"0": 17, "1": 4}, "@topicIds": {"orders": {"0": "CVmmc5E3Svq-PtfZ062cfg", ...}}}

Spark keeps this in a checkpoint. The offsets have the form of Spark's own Kafka source. The topic ids are our
addition: a topic that was deleted and created again has the same name, and it may already have more records
than were read from the old one. So offsets alone would not show the change. No topic can have '@' in its
name.

Everything here is a function of values: the offsets of the stream and those of the partitions. After a
restart, the same start and end of a trigger give the same ranges, whatever was appended since. This makes a
stream exactly-once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition

TOPIC_IDS = "@topicIds"
NOWHERE = (-1, -1)

_T = TypeVar("_T", int, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """The next offset of each partition that the stream knows, and its topic's id if it has one."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, parsed: Mapping[str, Any]) -> StreamOffset:
        """From parsed JSON; UsageError if it was not written by a stream of this source."""
        return cls(
            offsets=_flat({topic: each for topic, each in parsed.items() if topic != TOPIC_IDS}, int),
            topic_ids=_flat(parsed.get(TOPIC_IDS, {}), str),
        )

    def to_json(self) -> dict[str, Any]:
        """For JSON, always in one order: Spark compares the text to see whether there is something new."""
        found: dict[str, Any] = dict(_nested(self.offsets))
        if self.topic_ids:
            found[TOPIC_IDS] = _nested(self.topic_ids)
        return found


class Standing(NamedTuple):
    """The offsets that a partition has at one moment."""

    start_offset: int
    end_offset: int  # the last stable offset for a read_committed reader
    valid_end_offset: int
    topic_id: str | None = None


class Loss(NamedTuple):
    """Records that were not read and no longer can be; `valid` is the range of offsets that exist."""

    topic_partition: TopicPartition
    offset: int
    valid: tuple[int, int]
    reason: str


class OffsetRange(NamedTuple):
    """[start_offset, end_offset) of a partition."""

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int


def begins(
    start: StreamOffset, now: Mapping[TopicPartition, Standing]
) -> tuple[dict[TopicPartition, int], list[Loss]]:
    """The offset from which each existing partition continues, and what was lost.

    A new partition is read from its beginning; a partition that is gone is forgotten.
    """
    found: dict[TopicPartition, int] = {}
    losses: list[Loss] = []
    for partition, standing in sorted(now.items()):
        offset = start.offsets.get(partition)
        found[partition], reason = _goes_on(offset, start.topic_ids.get(partition), standing)
        if reason is not None:
            valid = (standing.start_offset, standing.valid_end_offset)
            losses.append(Loss(partition, offset or 0, valid, reason))
    losses += [
        Loss(partition, offset, NOWHERE, "its directory is gone.")
        for partition, offset in sorted(start.offsets.items())
        if partition not in now
    ]
    return found, losses


def advanced(
    start: StreamOffset,
    begin: Mapping[TopicPartition, int],
    now: Mapping[TopicPartition, Standing],
    *,
    at_most: int | None = None,
) -> StreamOffset:
    """Where the next trigger ends; `begin` is where each partition continues.

    With `at_most` offsets in all, each partition gets its share and at least one: a small partition must not
    wait until the large ones are finished. Spark: KafkaMicroBatchStream.rateLimit.
    """
    # Switching to read_committed never rewinds a reader.
    sizes = {partition: max(0, now[partition].end_offset - offset) for partition, offset in begin.items()}
    total = sum(sizes.values())
    if at_most is not None and total > at_most:
        sizes = {each: min(size, max(1, at_most * size // total)) for each, size in sizes.items()}
    offsets = {partition: offset + sizes[partition] for partition, offset in begin.items()}
    return at_offsets(offsets, now, ids_before=start.topic_ids)


def at_offsets(
    offsets: Mapping[TopicPartition, int],
    now: Mapping[TopicPartition, Standing],
    *,
    ids_before: Mapping[TopicPartition, str] | None = None,
) -> StreamOffset:
    """The stream offset with these offsets of existing partitions."""
    ids = {each: now[each].topic_id or (ids_before or {}).get(each) for each in offsets}
    return StreamOffset(
        offsets=offsets,
        topic_ids={partition: topic_id for partition, topic_id in ids.items() if topic_id is not None},
    )


def count_between(begin: Mapping[TopicPartition, int], now: Mapping[TopicPartition, Standing]) -> int:
    """How many offsets there are to read."""
    return sum(max(0, now[partition].end_offset - offset) for partition, offset in begin.items())


def is_to_wait(count: int, *, at_least: int, waited_ms: int, max_delay_ms: int) -> bool:
    """Whether a trigger that could read `count` offsets waits for more.

    Spark: KafkaMicroBatchStream.delayBatch
    """
    return count < at_least and waited_ms < max_delay_ms


def ranges(
    start: StreamOffset, end: StreamOffset, now: Mapping[TopicPartition, Standing]
) -> tuple[list[OffsetRange], list[Loss]]:
    """The offsets that a trigger reads, from its start to its end, and which of them no longer exist."""
    found: list[OffsetRange] = []
    losses: list[Loss] = []
    for partition, until in sorted(end.offsets.items()):
        standing = now.get(partition)
        begin = start.offsets.get(partition)
        if _differ(start.topic_ids.get(partition), end.topic_ids.get(partition)):
            begin = None
        if standing is None or _differ(end.topic_ids.get(partition), standing.topic_id):
            if begin is None or begin < until:
                reason = (
                    "its directory is gone."
                    if standing is None
                    else "the topic was deleted and created again."
                )
                losses.append(Loss(partition, begin or 0, NOWHERE, reason))
            continue
        begin = begin or 0
        if begin >= until:
            continue
        valid = (standing.start_offset, standing.valid_end_offset)
        if begin < valid[0]:
            reason = f"offsets {begin} to {until - 1} are to be read, but the log now begins at {valid[0]}."
            losses.append(Loss(partition, begin, valid, reason))
        if until > valid[1]:
            reason = f"offsets {begin} to {until - 1} are to be read, but the log now ends at {valid[1]}."
            losses.append(Loss(partition, until, valid, reason))
        begin, until = max(begin, valid[0]), min(until, valid[1])
        if begin < until:
            found.append(OffsetRange(partition, begin, until))
    return found, losses


def _goes_on(offset: int | None, topic_id: str | None, standing: Standing) -> tuple[int, str | None]:
    """(the offset from which a partition is read next, what was lost)."""
    first, end = standing.start_offset, standing.valid_end_offset
    if offset is None:
        return (
            first,
            f"it was created while the stream ran, and already begins at offset {first}." if first else None,
        )
    if _differ(topic_id, standing.topic_id):
        return (
            first,
            f"the topic was deleted and created again: its id was {topic_id} and is now {standing.topic_id}.",
        )
    if offset > end:
        return end, f"offset {offset} is next, but the log now ends at {end}."
    if offset < first:
        return first, f"offset {offset} is next, but the log now begins at {first}."
    return offset, None


def _differ(before: str | None, now: str | None) -> bool:
    """Whether both ids are known and differ."""
    return before is not None and now is not None and before != now


def _nested(values: Mapping[TopicPartition, _T]) -> dict[str, dict[str, _T]]:
    found: dict[str, dict[str, _T]] = {}
    for partition in sorted(values):
        found.setdefault(partition.topic, {})[str(partition.partition)] = values[partition]
    return found


def _flat(nested: object, kind: type[_T]) -> dict[TopicPartition, _T]:
    wanted = UsageError(
        f'the checkpoint has the offset {nested!r} instead of one like {{"orders": {{"0": 17}}}}: it was not '
        "written by a stream of the stratalog source. Start with a new checkpointLocation."
    )
    if not isinstance(nested, Mapping):
        raise wanted
    found: dict[TopicPartition, _T] = {}
    for topic, values in nested.items():
        if not isinstance(values, Mapping):
            raise wanted
        for number, value in values.items():
            if not number.isdecimal() or not isinstance(value, kind):
                raise wanted
            found[TopicPartition(topic, int(number))] = value
    return found
