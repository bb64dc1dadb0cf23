"""Removes records of a log: at its start by retention and delete_records, at its end by truncation.

Kafka: UnifiedLog.deleteOldSegments, maybeIncrementLogStartOffset, truncateTo
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.config import LogConfig
from stratalog.errors import PolicyViolationError
from stratalog.log.flusher import Flusher
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.new_records import to_offset
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.parts import LogParts
from stratalog.log.producers.rebuild import rebuild_producer_state
from stratalog.log.reading import out_of_range
from stratalog.log.retention import Decision, Marks, Rule, decide, facts_of
from stratalog.log.roller import Roller
from stratalog.segment.segment import LogSegment


class Cutter:
    """Removes records so that a crash in between leaves a consistent log.

    No mark on the device includes a removed record. The start is stored before the files below it are
    renamed, and the recovery point is lowered before a record below it is cut off. At the end of a log, the
    last segment is removed first, and each removal is on the device before the next one, so that no hole is
    left.

    `cuts_count` grows with each cut: a thread that read the log meanwhile may have seen removed records.
    Truncation needs both locks of the log; retention takes them itself, because it waits for the device in
    between. A cut that could not be stored, in a signal handler, is refused before it is begun.
    """

    __slots__ = (
        "_clock",
        "_epochs",
        "_flusher",
        "_folder",
        "_guard",
        "_kept_marks",
        "_marks",
        "_producers",
        "_raises_count",
        "_raises_kept_count",
        "_roller",
        "_segments",
        "_topic_partition",
        "cuts_count",
    )

    def __init__(
        self, parts: LogParts, flusher: Flusher, roller: Roller, kept_marks: KeptMarks | None
    ) -> None:
        self.cuts_count = 0
        # How often the start was raised in memory, and how many of these raises the device has.
        self._raises_count = self._raises_kept_count = 0
        self._topic_partition, self._kept_marks = parts.topic_partition, kept_marks
        self._guard, self._folder, self._marks = parts.guard, parts.folder, parts.marks
        self._segments, self._epochs, self._producers = parts.segments, parts.epochs, parts.producers
        self._flusher, self._roller, self._clock = flusher, roller, parts.clock

    # At the start

    def start_after_deletion(self, before_offset: int, config: LogConfig) -> int:
        """Where the log is to start after `delete_records`; an error if the records may not be deleted."""
        if config.compact and not config.delete:
            raise PolicyViolationError(
                f"{self._topic_partition}: cleanup.policy is compact without delete; only compaction removes "
                "its records."
            )
        before_offset, high_watermark = to_offset(before_offset), self._marks.high_watermark.offset
        if before_offset < -1:
            raise out_of_range(before_offset, self._marks.log_start_offset, high_watermark)
        return high_watermark if before_offset == -1 else before_offset

    @property
    def start_to_keep(self) -> int | None:
        """The start of the log, if it is not the base of the first segment on the device; else None."""
        start = self._marks.log_start_offset
        return start if start > self._folder.first_named else None

    def keep_start(self) -> None:
        """Store the start of the log on the device. The start of a tiered topic is stored elsewhere."""
        if self._kept_marks is None or self._folder.config.remote_storage_enable:
            return
        raises_count = 0

        def start() -> int | None:
            nonlocal raises_count
            if self._guard.failure is not None:  # perhaps in a thread that was just storing it
                self._guard.check_usable()
            raises_count = self._raises_count  # read before the start, so that it never counts too many
            return self.start_to_keep

        with self._guard.failing():
            self._kept_marks.keep_start(start)
        self._raises_kept_count = max(self._raises_kept_count, raises_count)

    def keep_raised_start(self) -> None:
        """Return when every raise of the start is on the device: also one that another thread is about to
        store, or whose storing was interrupted.
        """
        if self._raises_kept_count != self._raises_count:
            self.keep_start()

    def raise_start(self, offset: int) -> bool:
        """Move the start in memory, under the log's lock; True if it moved."""
        marks = self._marks
        if offset > marks.high_watermark.offset:
            raise out_of_range(offset, marks.log_start_offset, marks.high_watermark.offset)
        if offset <= marks.log_start_offset:
            return False
        self._check_marks()
        # In one line, so that no interrupt comes in between; the count last, as `keep_start` reads it first.
        marks.log_start_offset, self._raises_count = offset, self._raises_count + 1
        self._epochs.truncate_from_start(offset)
        self._producers.on_log_start_offset_incremented(offset)
        marks.update_first_unstable()
        return True

    def retention(self) -> tuple[Decision, ...]:
        """What retention would do with each segment now, and why. Called under the log's lock."""
        marks = self._marks
        offsets = Marks(marks.log_start_offset, marks.high_watermark.offset, marks.end.offset)
        return decide(facts_of(self._segments.readers), offsets, self._folder.config, self._clock())

    def delete_old_segments(self) -> tuple[Decision, ...]:
        """Delete the segments past the topic's limits; returns them, with the rule for each.

        The start is moved first. So a new reader learns at once that these offsets are gone. After a power
        cut some files may have their old names, but records below the start are not part of the log.
        """
        guard = self._guard
        with guard.flushing() as inside:  # no other segment is removed meanwhile
            with inside.changing():
                self._check_marks()
                gone = [found for found in self.retention() if found.is_deleted]
                if not gone:
                    return ()
                self.cuts_count += 1
                if len(gone) == len(self._segments):
                    self._roller.roll()  # a log is never without a segment
                segments = tuple(self._segments)
                self.raise_start(segments[len(gone)].base_offset)
            self.keep_start()
            with inside.changing(), guard.writing():
                self._segments.remove(segments[: len(gone)])
                for rule in Rule:
                    going = [
                        segment for segment, found in zip(segments, gone, strict=False) if found.rule is rule
                    ]
                    self._folder.delete(going, f"by {rule.value}")
            with guard.failing():
                self._folder.sync_names(())
            self._folder.first_named = segments[len(gone)].base_offset
            return tuple(gone)

    # At the end

    def truncate_to(self, offset: int) -> bool:
        """Remove the batch of an offset, and everything after it; False if the log ends at or before it."""
        if offset >= self._marks.end.offset:
            self._epochs.truncate_from_end(self._marks.end.offset)
            return False
        if self._segments.first.base_offset > offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self._check_marks()
        self._lower_marks(offset)
        with self._guard.writing():
            dropped = self._segments.above(offset)
            self._segments.remove(dropped)
            self._drop(dropped, "the log is truncated")
            active = self._segments.active
            active.truncate_to(offset)
            active.sync_log()
            self._marks.cut_end(OffsetMetadata(offset, active.base_offset, active.size))
            self._epochs.truncate_from_end(offset)
            self._marks.log_start_offset = min(offset, self._marks.log_start_offset)
            self._rebuild_producers(offset)
            self._settle(offset)
        return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log continues at an offset."""
        self._check_marks()
        self._lower_marks(offset)
        with self._guard.writing():
            # Without a segment, only the stored start says where the log continues: first at the old start,
            # which perhaps only the name of the first segment said, and then at the new one.
            self._folder.first_named = -1
            self.keep_start()
            self._drop(tuple(self._segments), "the log is emptied")
            self._marks.log_start_offset = offset if log_start_offset is None else log_start_offset
            self.keep_start()
            segment = self._folder.create_segment(offset)
            self._segments.replace([segment])
            self._marks.cut_end(OffsetMetadata(offset, segment.base_offset, 0), is_emptied=True)
            self._epochs.clear()
            self._producers.truncate_fully_and_start_at(offset)
            self._rebuild_producers(offset)
            self._marks.set_high_watermark(self._marks.end)
            self._settle(offset)

    def _check_marks(self) -> None:
        if self._kept_marks is not None:
            self._kept_marks.check_outside()

    def _lower_marks(self, offset: int) -> None:
        """Before records are cut off: lower the recovery point, and the stored marks that follow the end."""
        self.cuts_count += 1
        self._flusher.lower(offset)
        if self._kept_marks is not None:
            self._kept_marks.lower(offset)

    def _drop(self, segments: Sequence[LogSegment], reason: str) -> None:
        """Remove segments at the end of the log, the last one first.

        Each removal is on the device before the next one. Otherwise, after a crash, a later segment could
        exist although an earlier one is gone, and the hole would look like a gap from compaction.
        """
        for segment in reversed(segments):
            self._folder.delete([segment], reason)
            self._folder.sync_names(())

    def _rebuild_producers(self, end_offset: int) -> None:
        rebuild_producer_state(
            self._producers,
            self._segments.readers,
            log_start_offset=self._marks.log_start_offset,
            end_offset=end_offset,
            now_ms=self._clock(),
        )
        # After the replay, all ended transactions count as not replicated yet. So those below the high
        # watermark are dropped now. Kafka does that only when the high watermark moves again, and keeps the
        # last stable offset from before the truncation until then.
        self._producers.on_high_watermark_updated(self._marks.high_watermark.offset)
        self._marks.update_first_unstable()

    def _settle(self, offset: int) -> None:
        """Sync a truncation to the device before a new record can replace an old one."""
        self._epochs.flush()
        self._folder.sync_names([self._segments.active])
        self._folder.first_named = self._segments.first.base_offset
        self.keep_start()
        if self._kept_marks is not None:
            self._kept_marks.lower(offset)  # the high watermark may have been stored meanwhile
