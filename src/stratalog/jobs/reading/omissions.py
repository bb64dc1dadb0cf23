"""What a read left out, as counts and sentences: skipped damage, lost offsets, what it could not decode.

A read leaves records out only if it was told to (`onCorruption=skip`, `failOnDataLoss=false`); a key or value
that cannot be decoded is null. Each place is an `Omission`, which is small and can be pickled: a task returns
it to the planner of the read. Of damaged bytes, only the range of offsets is known, not the number
of records: compaction may have removed some of them before.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

from stratalog.errors import CorruptRecordError
from stratalog.files.names import TopicPartition

_SHOWN = 5  # places that a summary names


class OmissionKind(Enum):
    """Why something was left out."""

    DAMAGE = "damage"
    LOSS = "loss"
    UNDECODED = "undecoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Omission:
    """Records of one partition that a read did not return: those of [first_offset, end_offset).

    `size` bytes of the file `path` were skipped, from `position` on; lost offsets have no bytes. `end_offset`
    is None if nothing readable follows, so that the last offset is unknown.

    If the kind is UNDECODED, the records were returned, but `count` of them with a null in `column`.
    """

    topic: str
    partition: int
    kind: OmissionKind
    first_offset: int
    end_offset: int | None
    why: str
    size: int = 0
    path: str = ""
    position: int = 0
    column: str = ""
    count: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def offsets_count(self) -> int:
        """How many offsets are missing at most; 0 if that is not known."""
        if self.end_offset is None or self.kind is OmissionKind.UNDECODED:
            return 0
        return self.end_offset - self.first_offset

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Omission:
        return cls(**{**found, "kind": OmissionKind(found["kind"])})

    def __str__(self) -> str:
        if self.kind is OmissionKind.UNDECODED:
            what = _counted(self.count, self.column)
            return f"{self.topic_partition}: {what} at {_offsets(self)}: {self.why}"
        where = f", {self.size} bytes from byte {self.position} of {self.path} on" if self.path else ""
        return f"{self.topic_partition}: {_offsets(self)}{where}: {self.why}"


OnOmission = Callable[[Omission], object]
"""Called for each place that a read leaves out, in the thread that reads."""


def ignore_omission(_: Omission) -> None:
    """For a caller that does not need omissions."""


class OmissionWarning(UserWarning):
    """A read left out records, as its options allow, or could not decode some; `omissions` says which and
    why.
    """

    def __init__(self, omissions: Sequence[Omission]) -> None:
        super().__init__(summary(omissions))
        self.omissions = tuple(omissions)


def warn_of(omissions: Sequence[Omission], *, stacklevel: int = 1) -> None:
    """Warn if anything was left out; a level of 1 names the line that calls this."""
    if omissions:
        warnings.warn(OmissionWarning(omissions), stacklevel=stacklevel + 1)


def joined_up(omissions: Iterable[Omission]) -> list[Omission]:
    """Each place once, by partition and offset: two tasks that share a damaged batch both report it.

    All keys or values of a partition that could not be decoded for the same reason are one place.
    """
    found: dict[tuple[object, ...], Omission] = {}
    for each in dict.fromkeys(omissions):
        is_undecoded = each.kind is OmissionKind.UNDECODED
        place = each.column if is_undecoded else each.path or each.first_offset
        key = (each.topic_partition, each.kind, place, each.position, each.why)
        known = found.get(key)
        if known is None:
            found[key] = each
            continue
        ends = [end for end in (known.end_offset, each.end_offset) if end is not None]
        found[key] = replace(
            known,
            first_offset=min(known.first_offset, each.first_offset),
            end_offset=max(ends) if len(ends) == 2 else None,
            count=known.count + each.count,
        )
    return sorted(found.values(), key=lambda each: (each.topic_partition, each.first_offset, each.position))


def summary(omissions: Sequence[Omission]) -> str:
    """What was left out: one line for everything of a kind, and one for each of the first places."""
    places = joined_up(omissions)
    undecoded = [each for each in places if each.kind is OmissionKind.UNDECODED]
    left_out = [each for each in places if each.kind is not OmissionKind.UNDECODED]
    lines: list[str] = []
    if left_out:
        offsets = sum(each.offsets_count for each in left_out)
        size = sum(each.size for each in left_out)
        lines += [
            f"records were left out: {_counted(offsets, 'offset')} at most and {_counted(size, 'byte')}, at "
            f"{_counted(len(left_out), 'place')} of {_partitions(left_out)}.",
            *_first(left_out),
        ]
    for column in dict.fromkeys(each.column for each in undecoded):
        of_column = [each for each in undecoded if each.column == column]
        count, name = sum(each.count for each in of_column), f"undecoded{column.capitalize()}"
        lines += [
            f"{_counted(count, column)} of {_partitions(of_column)} could not be decoded: null instead. "
            f"{name} has the bytes, {name}Reason the reason.",
            *_first(of_column),
        ]
    return "\n".join(lines)


def _partitions(places: Sequence[Omission]) -> str:
    return _counted(len({each.topic_partition for each in places}), "partition")


def _first(places: Sequence[Omission]) -> list[str]:
    more = [f"  and {len(places) - _SHOWN} more"] if len(places) > _SHOWN else []
    return [*(f"  {each}" for each in places[:_SHOWN]), *more]


class Gaps:
    """The gaps in a read of one range of offsets.

    The end of a gap is known only when the next batch is read, or when the range ends.
    """

    def __init__(self, partition: TopicPartition, start: int, end: int, on_omission: OnOmission) -> None:
        self._partition = partition
        self._bounds = start, end
        self._on_omission = on_omission
        self._open: Omission | None = None

    def skipped(
        self, error: CorruptRecordError, first_offset: int, size: int, *, end_offset: int | None = None
    ) -> None:
        """Record `size` skipped bytes of damage; without `end_offset` the gap reaches to the next batch.

        Damage that directly follows other damage belongs to the same place.
        """
        path, before = str(error.path or ""), self._open
        if before is not None and (before.path, before.position + before.size) == (path, error.position):
            self._open = replace(before, size=before.size + size)
        else:
            self.seen(first_offset)
            self._open = Omission(
                topic=self._partition.topic,
                partition=self._partition.partition,
                kind=OmissionKind.DAMAGE,
                first_offset=first_offset,
                end_offset=None,
                size=size,
                why=error.reason,
                path=path,
                position=error.position,
            )
        if end_offset is not None:
            self.seen(end_offset)

    @property
    def is_open(self) -> bool:
        """Whether damage was skipped, and nothing was read since."""
        return self._open is not None

    def lost(self, first_offset: int, end_offset: int, why: str) -> None:
        """Record planned offsets that are gone."""
        self._tell(
            Omission(
                topic=self._partition.topic,
                partition=self._partition.partition,
                kind=OmissionKind.LOSS,
                first_offset=first_offset,
                end_offset=end_offset,
                why=why,
            ),
            end_offset,
        )

    def seen(self, base_offset: int) -> None:
        """Record that a batch is read: an open gap ends at its base offset."""
        if self._open is not None:
            found, self._open = self._open, None
            self._tell(found, base_offset)

    def close(self) -> None:
        """End the read: an open gap ends with the range."""
        self.seen(self._bounds[1])

    def _tell(self, found: Omission, end_offset: int) -> None:
        start, end = self._bounds
        if end_offset < start or found.first_offset >= end > start:
            return  # these offsets were not requested
        first = min(max(found.first_offset, start), end)
        self._on_omission(replace(found, first_offset=first, end_offset=min(max(end_offset, first), end)))


def _offsets(found: Omission) -> str:
    if found.end_offset is None:
        return f"the offsets from {found.first_offset} on"
    if found.end_offset == found.first_offset:
        return f"no offset is missing before {found.first_offset}"
    last = found.end_offset - 1
    return f"offset {last}" if last == found.first_offset else f"offsets {found.first_offset} to {last}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
