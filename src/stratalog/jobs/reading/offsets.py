"""Where a stream stands: offsets by partition, how far a trigger may go, and what counts as data loss.

{"orders": {"0": 17, "1": 4}, "@topicIds": {"orders": {"0": "CVmmc5E3Svq-PtfZ062cfg", ...}}}

This is what Spark keeps in a checkpoint. The offsets look as those of Spark's own Kafka source do. The ids
are ours: a topic that was deleted and created again has the same name, and may by now have more records than
were read of the first one, so that offsets alone would not show it. No topic can have '@' in its name.

All of this is a function of values: where the stream stands, and where the partitions do. The same two
offsets give the same ranges after a restart, whatever was appended since: that is what makes a stream exactly
once.
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
    """The next offset of each partition that the stream knows, and its topic's id where there is one."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, parsed: Mapping[str, Any]) -> StreamOffset:
        """Out of parsed JSON; UsageError where it was not written by a stream of ours."""
        return cls(
            offsets=_flat({topic: each for topic, each in parsed.items() if topic != TOPIC_IDS}, int),
            topic_ids=_flat(parsed.get(TOPIC_IDS, {}), str),
        )

    def to_json(self) -> dict[str, Any]:
        """For JSON, in one order always: Spark compares the text to know whether there is something new."""
        found: dict[str, Any] = dict(_nested(self.offsets))
        if self.topic_ids:
            found[TOPIC_IDS] = _nested(self.topic_ids)
        return found


class Standing(NamedTuple):
    """What a partition has to read at one moment."""

    start_offset: int
    end_offset: int  # the last stable offset for a reader of committed records
    valid_end_offset: int
    topic_id: str | None = None


class Loss(NamedTuple):
    """Records that were not read and cannot be any more; `valid` are the offsets that are there."""

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
    """From where each partition that is there goes on, and what was lost on the way.

    A partition that came since is read from its beginning, one that is gone is forgotten.
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
    """Where the next trigger ends; `begin` is from where each partition goes on.

    With `at_most` offsets in all, each partition gets its share of them and one at the least: a small one is
    not to wait until the large ones have come to their end. Kafka: KafkaMicroBatchStream.rateLimit.
    """
    # What a reader of all records has read, one of committed records does not give back.
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
    """A stream that stands at these offsets of partitions that are there now."""
    ids = {each: now[each].topic_id or (ids_before or {}).get(each) for each in offsets}
    return StreamOffset(
        offsets=offsets,
        topic_ids={partition: topic_id for partition, topic_id in ids.items() if topic_id is not None},
    )


def count_between(begin: Mapping[TopicPartition, int], now: Mapping[TopicPartition, Standing]) -> int:
    """How many offsets there are to read."""
    return sum(max(0, now[partition].end_offset - offset) for partition, offset in begin.items())


def is_to_wait(count: int, *, at_least: int, waited_ms: int, max_delay_ms: int) -> bool:
    """Whether a trigger waits for more than `count` offsets. Kafka: KafkaMicroBatchStream.delayBatch"""
    return count < at_least and waited_ms < max_delay_ms


def ranges(
    start: StreamOffset, end: StreamOffset, now: Mapping[TopicPartition, Standing]
) -> tuple[list[OffsetRange], list[Loss]]:
    """What a trigger reads from where it began to where it ends, and what of that is not there any more."""
    found: list[OffsetRange] = []
    losses: list[Loss] = []
    for partition, until in sorted(end.offsets.items()):
        standing = now.get(partition)
        begin = start.offsets.get(partition)
        if _differ(start.topic_ids.get(partition), end.topic_ids.get(partition)):
            begin = None
        if standing is None or _differ(end.topic_ids.get(partition), standing.topic_id):
            if begin is None or begin < until:
                reason = "its directory is gone." if standing is None else "the topic was made anew."
                losses.append(Loss(partition, begin or 0, NOWHERE, reason))
            continue
        begin = begin or 0
        if begin >= until:
            continue
        valid = (standing.start_offset, standing.valid_end_offset)
        if begin < valid[0]:
            reason = f"offsets {begin} to {until - 1} are to be read, and the log begins at {valid[0]} now."
            losses.append(Loss(partition, begin, valid, reason))
        if until > valid[1]:
            reason = f"offsets {begin} to {until - 1} are to be read, and the log ends at {valid[1]} now."
            losses.append(Loss(partition, until, valid, reason))
        begin, until = max(begin, valid[0]), min(until, valid[1])
        if begin < until:
            found.append(OffsetRange(partition, begin, until))
    return found, losses


def _goes_on(offset: int | None, topic_id: str | None, standing: Standing) -> tuple[int, str | None]:
    """(from where a partition is read next, what was lost by that)."""
    first, end = standing.start_offset, standing.valid_end_offset
    if offset is None:
        return (
            first,
            f"it came while the stream ran, and begins at offset {first} already." if first else None,
        )
    if _differ(topic_id, standing.topic_id):
        return first, f"the topic was made anew: its id was {topic_id} and is {standing.topic_id} now."
    if offset > end:
        return end, f"offset {offset} is next, and the log ends at {end} now."
    if offset < first:
        return first, f"offset {offset} is next, and the log begins at {first} now."
    return offset, None


def _differ(before: str | None, now: str | None) -> bool:
    """Whether two ids are known and not the same."""
    return before is not None and now is not None and before != now


def _nested(values: Mapping[TopicPartition, _T]) -> dict[str, dict[str, _T]]:
    found: dict[str, dict[str, _T]] = {}
    for partition in sorted(values):
        found.setdefault(partition.topic, {})[str(partition.partition)] = values[partition]
    return found


def _flat(nested: object, kind: type[_T]) -> dict[TopicPartition, _T]:
    wanted = UsageError(
        f'the checkpoint has the offset {nested!r} and not one like {{"orders": {{"0": 17}}}}: it was not '
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
