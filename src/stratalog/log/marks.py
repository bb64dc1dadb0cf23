"""The marks on a log: its start, its end, the high watermark, the last stable offset.

log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from stratalog.errors import OffsetOutOfRangeError, UsageError
from stratalog.log.offsets import Cuts, OffsetMetadata, OffsetSnapshot
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.reading import read
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment


class LogMarks:
    """Where a log starts and ends, and up to which offset its records are replicated and decided.

    start <= last stable <= high watermark <= end, with one exception: if the log starts inside a batch, a
    mark in that batch is placed at the batch's first offset, below the start, as in Kafka.

    The high watermark and the first unstable offset are published together. Otherwise a read_committed reader
    could see a new high watermark with an old first unstable offset, and read records of an open transaction.
    With `follows_end`, for a log without replicas, the high watermark is the end.

    A mark is changed under the log's lock; reading one takes no lock.
    """

    __slots__ = (
        "_is_following",
        "_producers",
        "_published",
        "_segments",
        "cuts",
        "end",
        "follows_end",
        "log_start_offset",
    )

    def __init__(
        self,
        segments: LogSegments[LogSegment],
        producers: ProducerStateManager,
        log_start_offset: int,
        end: OffsetMetadata,
        *,
        follows_end: bool = False,
    ) -> None:
        self.log_start_offset = log_start_offset
        self.end = end
        self.follows_end = self._is_following = follows_end
        self._segments, self._producers = segments.readers, producers
        self.cuts = Cuts()
        high_watermark = end if follows_end else OffsetMetadata(log_start_offset)
        self._published: tuple[OffsetMetadata, OffsetMetadata | None] = (high_watermark, None)
        self.update_first_unstable()

    @property
    def high_watermark(self) -> OffsetMetadata:
        return self._published[0]

    @property
    def last_stable(self) -> OffsetMetadata:
        mark, unstable = self._published
        return unstable if unstable is not None and unstable.offset < mark.offset else mark

    def snapshot(self) -> OffsetSnapshot:
        """All marks at one moment, with their places."""
        self.resolve_high_watermark()
        return OffsetSnapshot(self.log_start_offset, self.last_stable, self.high_watermark, self.end)

    def update_high_watermark(self, offset: int) -> int:
        """Move the mark forwards or backwards, within the log; returns its new value."""
        if offset < 0:
            raise UsageError(f"the high watermark cannot be negative: {offset}.")
        if offset >= self.end.offset:
            self.set_high_watermark(self.end)
        else:
            self.set_high_watermark(OffsetMetadata(max(offset, self.log_start_offset)))
        return self.high_watermark.offset

    def increment_high_watermark(self, offset: int) -> bool:
        """Move the mark forwards to an offset within the log; True if it moved."""
        if offset > self.end.offset:
            raise UsageError(f"the high watermark cannot be {offset}: the log ends at {self.end.offset}.")
        self.resolve_high_watermark()
        if offset <= self.high_watermark.offset:
            return False
        self.set_high_watermark(self.end if offset == self.end.offset else OffsetMetadata(offset))
        return True

    def cut_end(self, end: OffsetMetadata, *, is_emptied: bool = False) -> None:
        """Move the end back, and with it every mark that would be above it.

        If the log was emptied, its new end may also be above the old one.
        """
        self.end = end
        self.cuts = Cuts(self.cuts.cuts_count + 1, 0 if is_emptied else min(self.cuts.lowest_end, end.offset))
        if self.high_watermark.offset >= end.offset:
            self.set_high_watermark(end)

    def forget_cuts(self, seen: Cuts) -> None:
        """Called when a copy has made the same truncations. If the log was truncated since, all are kept."""
        if self.cuts == seen:
            self.cuts = Cuts(seen.cuts_count)

    def follow_end(self) -> None:
        """Called when the end and the producers are updated: the high watermark may follow the end."""
        mark = self.end if self._is_following else self._published[0]
        unstable = None
        if self._producers.has_transactions:
            if self._is_following:
                self._producers.on_high_watermark_updated(mark.offset)
            unstable = self._find_first_unstable()
        self._published = (mark, unstable)

    @contextmanager
    def holding_high_watermark(self) -> Iterator[None]:
        """Inside the block the high watermark does not follow the end, so that readers see no new record."""
        self._is_following = False
        try:
            yield
        finally:
            self._is_following = self.follows_end

    def place_end(self, base_offset: int) -> None:
        """Called when the end is in a new segment; its offset is unchanged."""
        self.end = OffsetMetadata(self.end.offset, base_offset, 0)
        if self.high_watermark.offset >= self.end.offset:
            self.set_high_watermark(self.end)

    def set_high_watermark(self, mark: OffsetMetadata) -> None:
        self._producers.on_high_watermark_updated(mark.offset)
        self._published = (mark, self._find_first_unstable())

    def resolve_high_watermark(self) -> None:
        """Find the high watermark's place, once; it moves to a batch's first offset, as in Kafka since
        4.0."""
        if not self.high_watermark.is_resolved:
            self.set_high_watermark(self._placed(self.high_watermark.offset))

    def update_first_unstable(self) -> None:
        """Called when the producers' transactions or the log's start have changed."""
        self._published = (self._published[0], self._find_first_unstable())

    def _find_first_unstable(self) -> OffsetMetadata | None:
        unstable = self._producers.first_unstable_offset
        if unstable is not None and (not unstable.is_resolved or unstable.offset < self.log_start_offset):
            unstable = self._placed(max(unstable.offset, self.log_start_offset))
        return unstable

    def _placed(self, offset: int) -> OffsetMetadata:
        """The offset with its place: that of the batch that contains it, or of the first batch after it."""
        try:
            found = read(
                self._segments,
                offset,
                1,
                log_start_offset=self.log_start_offset,
                end=self.end,
                limit=self.end,
            )
        except OffsetOutOfRangeError:
            return OffsetMetadata(offset)
        return found.offset
