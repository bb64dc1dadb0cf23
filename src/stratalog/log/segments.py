"""The segments of one log, by base offset.

Readers take no lock: they use a snapshot, and each change replaces it with a new one.
Changes are rare (a roll, a truncation), lookups are not. Kafka: LogSegments.java
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader

NO_TIMESTAMP = -1
S = TypeVar("S", bound=LogSegment | SegmentReader)


class _Made(Sequence[S]):
    """Segments that are made when they are first used: a log may have thousands, and most are not read.

    If two threads make the same segment at the same time, the first object is used. The other is dropped; it
    has not opened a file.
    """

    __slots__ = ("_count", "_found", "_make")

    def __init__(self, count: int, make: Callable[[int], S]) -> None:
        self._count = count
        self._make = make
        self._found: dict[int, S] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> S: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[S, ...]: ...

    def __getitem__(self, index: int | slice) -> S | tuple[S, ...]:
        if isinstance(index, slice):
            return tuple(self[each] for each in range(*index.indices(self._count)))
        at = index + self._count if index < 0 else index
        if not 0 <= at < self._count:
            raise IndexError(index)
        found = self._found.get(at)
        return self._found.setdefault(at, self._make(at)) if found is None else found


class _Snapshot(Generic[S]):
    """The segments at one moment, and their bases; none is added, replaced or removed here."""

    __slots__ = ("bases", "peaks", "segments")

    def __init__(self, bases: tuple[int, ...], segments: Sequence[S], peaks: _Peaks) -> None:
        self.bases, self.segments, self.peaks = bases, segments, peaks


class _Peaks:
    """The largest timestamp up to the end of each segment except the active one, as far as it was needed.

    These timestamps never descend, so the first segment that reaches a time is found by bisection. A closed
    segment does not change; the list is extended by replacing it with a longer one.
    """

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: list[int] = []

    def first_reaching(self, segments: Sequence[LogSegment | SegmentReader], timestamp: int) -> int:
        """The index of the first segment that reaches the time; the active one's, if no other does."""
        known = self.known
        if not known or known[-1] < timestamp:
            known = [*known]
            for segment in segments[len(known) : -1]:
                known.append(max(segment.largest_timestamp, known[-1] if known else NO_TIMESTAMP))
                if known[-1] >= timestamp:
                    break
            self.known = known
        return bisect_left(known, timestamp)


class LogSegments(Generic[S]):
    """An ordered map from base offset to segment; one thread changes it, any may read.

    A log has log segments, and reads through their `readers`; a view has only readers.
    """

    def __init__(self, segments: Iterable[S] = ()) -> None:
        self._readers: SegmentReaders | None = None
        self.replace(segments)

    @classmethod
    def made_when_used(
        cls, bases: Iterable[int], make: Callable[[int], LogSegment]
    ) -> LogSegments[LogSegment]:
        """The segments with these bases; `make` is called with a base when a segment is first used."""
        found: LogSegments[LogSegment] = LogSegments()
        ordered = tuple(sorted(bases))
        found._set(ordered, _Made(len(ordered), lambda at: make(ordered[at])), _Peaks())
        return found

    def replace(self, segments: Iterable[S]) -> None:
        """Replaces all segments."""
        ordered = sorted(segments, key=lambda segment: segment.base_offset)
        self._set(tuple(segment.base_offset for segment in ordered), tuple(ordered), _Peaks())

    @property
    def readers(self: LogSegments[LogSegment]) -> SegmentReaders:
        """The readers of the segments; they follow every change. First used when the log is opened."""
        if self._readers is None:
            # `SegmentReaders()` would take longer than all the rest, and logs are opened by the thousand.
            self._readers = readers = LogSegments.__new__(LogSegments)
            readers._readers = None
            self._follow(readers)
        return self._readers

    def snapshot(self) -> LogSegments[S]:
        """The segments as they are now, for a reader that looks more than once."""
        found: LogSegments[S] = LogSegments.__new__(LogSegments)
        found._now = self._now
        return found

    def is_as(self, snapshot: LogSegments[S]) -> bool:
        """Whether nothing was added, replaced or removed since the snapshot."""
        return self._now is snapshot._now

    def __len__(self) -> int:
        return len(self._now.segments)

    def __iter__(self) -> Iterator[S]:
        return iter(self._now.segments)

    def __contains__(self, base_offset: int) -> bool:
        return self.get(base_offset) is not None

    @property
    def first(self) -> S:
        return self._now.segments[0]

    @property
    def active(self) -> S:
        """The last one, which is appended to."""
        return self._now.segments[-1]

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return self._now.bases

    def get(self, base_offset: int) -> S | None:
        now = self._now
        index = bisect_left(now.bases, base_offset)
        return now.segments[index] if index < len(now.bases) and now.bases[index] == base_offset else None

    def floor(self, offset: int) -> S | None:
        """The segment for this offset: the last one whose base is not above it."""
        now = self._now
        index = bisect_right(now.bases, offset)
        return now.segments[index - 1] if index else None

    def from_floor(self, offset: int) -> Iterator[S]:
        """The floor segment and all after it; all of them if every base is above the offset."""
        now = self._now
        return _from(now.segments, max(0, bisect_right(now.bases, offset) - 1))

    def range(self, start: int, end: int) -> tuple[S, ...]:
        """The segments from the floor of `start` to the last one with a base below `end`."""
        now = self._now
        first = max(0, bisect_right(now.bases, start) - 1)
        return tuple(now.segments[first : max(first, bisect_left(now.bases, end))])

    def above(self, offset: int) -> tuple[S, ...]:
        """The segments with a base above the offset."""
        now = self._now
        return tuple(now.segments[bisect_right(now.bases, offset) :])

    def reaching(self, timestamp: int) -> Iterator[S]:
        """The segments whose largest timestamp is not below the given one, in order."""
        now = self._now
        for segment in _from(now.segments, now.peaks.first_reaching(now.segments, timestamp)):
            if segment.largest_timestamp >= timestamp:
                yield segment

    def first_reaching(self, timestamp: int) -> S | None:
        """The first of `reaching`, which is usually all that is needed; None if there is none."""
        now = self._now
        index = now.peaks.first_reaching(now.segments, timestamp)
        if index < len(now.segments) - 1:
            return now.segments[index]
        return next(self.reaching(timestamp), None)

    def add(self, segment: S) -> None:
        """Add a segment; it replaces one with the same base."""
        now = self._now
        index = bisect_left(now.bases, segment.base_offset)
        behind = index + (index < len(now.bases) and now.bases[index] == segment.base_offset)
        self._set(
            (*now.bases[:index], segment.base_offset, *now.bases[behind:]),
            (*now.segments[:index], segment, *now.segments[behind:]),
            now.peaks if index == len(now.bases) else _Peaks(),  # a new last segment keeps all peaks
        )

    def remove(self, segments: Iterable[S]) -> None:
        gone = {segment.base_offset for segment in segments}
        kept = tuple(segment for segment in self._now.segments if segment.base_offset not in gone)
        self._set(tuple(segment.base_offset for segment in kept), kept, _Peaks())

    def _set(self, bases: tuple[int, ...], segments: Sequence[S], peaks: _Peaks) -> None:
        self._now = _Snapshot(bases, segments, peaks)
        if self._readers is not None:
            self._follow(self._readers)

    def _follow(self, readers: SegmentReaders) -> None:
        now = self._now
        found: Sequence[SegmentReader]
        if isinstance(now.segments, _Made):
            found = _Made(len(now.segments), lambda at: _reader_of(now.segments[at]))
        else:
            found = tuple([_reader_of(segment) for segment in now.segments])
        readers._now = _Snapshot(now.bases, found, now.peaks)


SegmentReaders = LogSegments[SegmentReader]


def _reader_of(segment: LogSegment | SegmentReader) -> SegmentReader:
    assert isinstance(segment, LogSegment), "only the segments of a log have readers"
    return segment.reader


def _from(segments: Sequence[S], first: int) -> Iterator[S]:
    """The segments from an index on, without a copy: usually only the first is needed."""
    for index in range(first, len(segments)):
        yield segments[index]
