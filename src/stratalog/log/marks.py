"""The marks on a log: its end, the high watermark, the last stable offset.

log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
"""

from __future__ import annotations

from stratalog.errors import OffsetOutOfRangeError, UsageError
from stratalog.limits import INT64_MAX
from stratalog.log.offsets import OffsetMetadata, OffsetSnapshot
from stratalog.log.reading import read
from stratalog.log.state import LogState


class LogMarks(LogState):
    """How far a log goes, and up to where its records count."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._end.offset

    @property
    def high_watermark(self) -> int:
        """Below it every record is known to all replicas that count."""
        return self._high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction is decided."""
        return self._last_stable().offset

    def offset_snapshot(self) -> OffsetSnapshot:
        """All marks of one moment, with their places."""
        with self._lock:
            self._resolve_high_watermark()
            return OffsetSnapshot(self.log_start_offset, self._last_stable(), self._high_watermark, self._end)

    def update_high_watermark(self, offset: int) -> int:
        """Set it, within the log, forwards or backwards; returns what it is now."""
        with self._lock:
            if offset < 0:
                raise UsageError(f"a high watermark of {offset}: it is not negative.")
            if offset >= self._end.offset:
                self._set_high_watermark(self._end)
            else:
                self._set_high_watermark(OffsetMetadata(max(offset, self.log_start_offset)))
            return self._high_watermark.offset

    def increment_high_watermark(self, offset: int) -> bool:
        """Move it forwards to an offset within the log; True if it moved."""
        with self._lock:
            if offset > self._end.offset:
                raise UsageError(f"a high watermark of {offset}: the log ends at {self._end.offset}.")
            self._resolve_high_watermark()
            if offset <= self._high_watermark.offset:
                return False
            self._set_high_watermark(self._end if offset == self._end.offset else OffsetMetadata(offset))
            return True

    def take_lowest_end(self) -> int:
        """The lowest offset that the log was truncated to since this was asked last, or a larger one.

        A copy that had more has records that the log has given up, though the log may be longer again.
        """
        with self._lock:
            lowest, self._lowest_end = self._lowest_end, INT64_MAX
            return lowest

    def _set_end(self, end: OffsetMetadata) -> None:
        self._end = end
        self._lowest_end = min(self._lowest_end, end.offset)
        self.recovery_point = min(self.recovery_point, end.offset)
        if self._high_watermark.offset >= end.offset:
            self._set_high_watermark(end)

    @property
    def _high_watermark(self) -> OffsetMetadata:
        return self._marks[0]

    def _set_high_watermark(self, mark: OffsetMetadata) -> None:
        self.producers.on_high_watermark_updated(mark.offset)
        self._marks = (mark, self._find_first_unstable())

    def _resolve_high_watermark(self) -> None:
        """Find its place in the log, once; it moves to the first offset of a batch, as in Kafka since 4.0."""
        if not self._high_watermark.is_resolved:
            with self._lock:
                self._set_high_watermark(self._placed(self._high_watermark.offset))

    def _last_stable(self) -> OffsetMetadata:
        mark, unstable = self._marks
        return unstable if unstable is not None and unstable.offset < mark.offset else mark

    def _update_first_unstable(self) -> None:
        self._marks = (self._high_watermark, self._find_first_unstable())

    def _find_first_unstable(self) -> OffsetMetadata | None:
        unstable = self.producers.first_unstable_offset
        if unstable is not None and (not unstable.is_resolved or unstable.offset < self.log_start_offset):
            unstable = self._placed(max(unstable.offset, self.log_start_offset))
        return unstable

    def _placed(self, offset: int) -> OffsetMetadata:
        """The offset with its place: that of the batch that holds it, or of the first one behind it.

        A batch that the log's start lies in begins before it, and a mark in it falls behind the start, as in
        Kafka.
        """
        try:
            found = read(
                self.segments,
                offset,
                1,
                log_start_offset=self.log_start_offset,
                end=self._end,
                limit=self._end,
            )
        except OffsetOutOfRangeError:
            return OffsetMetadata(offset)
        return found.offset
