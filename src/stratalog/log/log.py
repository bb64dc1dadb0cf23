"""One partition's log: a pile of segments with marks on it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    recovery_point <= log_end_offset

The class is built in layers: `state.py` (its parts, its lock), `marks.py`, `flushing.py` (and closing),
`writing.py` (appending and rolling), and here what is left: reading, truncating, giving up old records.

One lock guards every change; reads take none (`reading.py` says why that is safe). What the disk refuses
fails the log: nothing more is written, since memory and disk may differ from then on.

Kafka: UnifiedLog, LocalLog
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from stratalog.errors import (
    CorruptRecordError,
    DiskError,
    LogChangedError,
    LogClosedError,
    PolicyViolationError,
    SegmentOffsetOverflowError,
    UsageError,
)
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT
from stratalog.limits import INT64_MAX
from stratalog.log.cleaning.replace import replace_segments
from stratalog.log.new_records import to_offset
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.producers.rebuild import rebuild_producer_state
from stratalog.log.reading import FetchedData, Isolation, check_passed_over, out_of_range, read
from stratalog.log.retention import Decision, Marks, Rule, decide, facts_of
from stratalog.log.timestamps import find_offset, first_not_before
from stratalog.log.writing import WrittenLog
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment_files import waiting_in

if TYPE_CHECKING:
    from stratalog.log.cleaning.clean import CleanResult
    from stratalog.log.cleaning.offset_map import OffsetMap
    from stratalog.log.segments import LogSegments
    from stratalog.segment.segment import LogSegment

EXPIRATION_CHECK_MS = 600_000  # Kafka: producer.id.expiration.check.interval.ms

_T = TypeVar("_T")


class Log(WrittenLog):
    """One partition. Made by `loader.load`, which brings the parts; closed by `close`, once.

    `high_watermark_follows_end` is for a log without replicas: what is appended can be read at once.
    """

    def _begin(self) -> None:
        self._update_first_unstable()
        if self.config.flush_ms < INT64_MAX:
            self._repeat("flush by flush.ms", self.config.flush_ms, self.flush)
        if self._follows_end:  # else its manager does it, for all logs at once
            self._repeat("producer expiration", EXPIRATION_CHECK_MS, self.remove_expired_producers)

    def metrics(self) -> dict[str, int]:
        """The gauges of a partition, by Kafka's names (kafka.log:type=Log)."""
        return {
            "NumLogSegments": len(self.segments),
            "LogStartOffset": self.log_start_offset,
            "LogEndOffset": self.log_end_offset,
            "Size": self.size,
        }

    # Read

    def read(
        self,
        start_offset: int,
        max_size: int,
        *,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        min_one_message: bool = True,
    ) -> FetchedData:
        """Whole batches from the one that holds start_offset on; max_size may cut the last of them."""

        def look(segments: LogSegments) -> FetchedData | None:
            end, start = self._end, self.log_start_offset
            if start_offset < start:
                raise out_of_range(start_offset, start, end.offset)  # before any mark is moved
            if isolation is Isolation.LOG_END:
                limit = end
            else:
                self._resolve_high_watermark()
                limit = self._high_watermark if isolation is Isolation.HIGH_WATERMARK else self._last_stable()
            if not self.segments.is_as(segments):
                return None  # the marks may have places in others
            return read(
                segments,
                start_offset,
                max_size,
                log_start_offset=start,
                end=end,
                limit=limit,
                min_one_message=min_one_message,
                include_aborted=isolation is Isolation.TXN_COMMITTED,
            )

        while (found := self._looking(look)) is None:
            pass
        return found

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before the timestamp, or one of Kafka's special values (-1 to -6)."""
        return self._looking(
            lambda segments: find_offset(
                segments, lambda: self.epochs.entries, timestamp, self.log_start_offset, self._end.offset
            )
        )

    def first_not_before(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before a time, also where Kafka answers that there is none."""
        return self._looking(lambda segments: first_not_before(segments, timestamp, self.log_start_offset))

    def check_passed_over(self, offset: int, stop_base: int) -> None:
        """CorruptRecordError if what a read has passed over is no gap (`reading.py`)."""
        self._looking(lambda segments: check_passed_over(segments, offset, stop_base))

    def look_again(self) -> None:
        """Nothing to do, as a log knows what it does; this is for views (`view.py`)."""

    def _looking(self, look: Callable[[LogSegments], _T]) -> _T:
        """What is found in the segments of one moment. They stay readable, whatever is done to the log.

        But only for file.delete.delay.ms: whoever was held up for longer looks at those of now.
        """
        while True:
            self._check_usable()
            segments = self.segments.snapshot()
            try:
                return look(segments)
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
                self._check_usable()
                if self.segments.is_as(segments):
                    raise

    # Where it starts

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up the records below an offset; their files go with retention. True if that was news.

        The start is on the device when this returns, where the log's owner keeps it.
        """
        is_news = self._raise_start(offset)
        if is_news:
            self.keep_start()  # without the lock: appends do not wait for the device
        return is_news

    @property
    def start_to_keep(self) -> int | None:
        """Where the log starts, if the names of the segments on the device do not say so."""
        return self.log_start_offset if self.log_start_offset > self._first_named else None

    def keep_start(self) -> None:
        """Bring the start of the log to the device. That of a tiered topic is kept elsewhere."""
        if self._kept_marks is not None and not self.config.remote_storage_enable:
            with self._failing():
                self._kept_marks.keep_start(lambda: self.start_to_keep)

    def _raise_start(self, offset: int) -> bool:
        with self._changing():
            if offset > self._high_watermark.offset:
                raise out_of_range(offset, self.log_start_offset, self._high_watermark.offset)
            if offset <= self.log_start_offset:
                return False
            self.log_start_offset = offset
            self.epochs.truncate_from_start(offset)
            self.producers.on_log_start_offset_incremented(offset)
            self._update_first_unstable()
            return True

    def delete_records(self, before_offset: int) -> int:
        """Delete the records below an offset, -1 being the high watermark; returns where the log starts."""
        if self.config.compact and not self.config.delete:
            raise PolicyViolationError(
                f"{self.topic_partition}: cleanup.policy is compact without delete; records go by key."
            )
        before_offset = to_offset(before_offset)
        if before_offset < -1:
            raise out_of_range(before_offset, self.log_start_offset, self.high_watermark)
        self.increment_log_start_offset(self.high_watermark if before_offset == -1 else before_offset)
        return self.log_start_offset

    def retention(self) -> tuple[Decision, ...]:
        """What would become of each segment if old ones were deleted now, and why."""
        with self._lock:
            marks = Marks(self.log_start_offset, self._high_watermark.offset, self._end.offset)
            return decide(facts_of(self.segments), marks, self.config, self._clock())

    def delete_old_segments(self) -> tuple[Decision, ...]:
        """Delete the segments that the topic's limits do not keep; returns them, with the rule of each.

        The files are renamed, and deleted after file.delete.delay.ms. Kafka: UnifiedLog.deleteOldSegments

        The start goes first. A reader that comes now is told that these offsets are gone; and after a power
        cut, which may leave any of the old names, nothing below the start counts.
        """
        with self._flush_lock:  # no other segment goes meanwhile
            with self._changing():
                gone = [found for found in self.retention() if found.is_deleted]
                if not gone:
                    return ()
                self._cuts_count += 1
                if len(gone) == len(self.segments):
                    self.roll()  # a log is never without a segment
                segments = tuple(self.segments)
                self._raise_start(segments[len(gone)].base_offset)
            self.keep_start()
            with self._changing(), self._writing():
                self.segments.remove(segments[: len(gone)])
                for rule in Rule:
                    going = [
                        segment for segment, found in zip(segments, gone, strict=False) if found.rule is rule
                    ]
                    self._delete(going, f"by {rule.value}")
            with self._failing():
                self._sync_names(())
            self._first_named = segments[len(gone)].base_offset
            return tuple(gone)

    def clean(
        self,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        offset_map: OffsetMap,
        *,
        check_done: Callable[[], object] = lambda: None,
        throttle: Callable[[int], object] = lambda _: None,
        on_read: Callable[[int], object] = lambda _: None,
    ) -> CleanResult:
        """Compact the log once, as far as the map has room; appends and reads go on meanwhile.

        `check_done` raises what is to stop it, `throttle` is told of bytes read and written, `on_read` of
        those read. A segment whose offsets are too far apart is split first, and its log begun anew.
        LogChangedError if the log is truncated meanwhile, or loses segments to retention.
        """
        from stratalog.log.cleaning.clean import DirtyLog, clean_log, last_records_of

        # First: a record may only go when the one that replaces it is on the device.
        with self._flush_lock, self._failing():
            self._check_usable()
            self._flush_up_to(min(first_uncleanable_offset, self._end.offset))
        with self._lock:
            self._check_changeable()
            last_records = last_records_of(self.producers.producers.values())
            cuts_count = self._cuts_count
        dirty = DirtyLog(
            disk=self._disk,
            segments=self.segments,
            config=self.config,
            first_dirty_offset=first_dirty_offset,
            first_uncleanable_offset=first_uncleanable_offset,
            last_records=last_records,
        )
        with self._failing():
            while True:
                try:
                    return clean_log(
                        dirty,
                        offset_map,
                        now_ms=self._clock(),
                        replace_segments=lambda new, old: self._replace([new], old, cuts_count),
                        check_done=check_done,
                        throttle=throttle,
                        on_read=on_read,
                    )
                except SegmentOffsetOverflowError as error:
                    if not self._split(error.base_offset, cuts_count):
                        raise
                except (CorruptRecordError, DiskError) as error:
                    is_refused = isinstance(error, DiskError) and error.errno != errno.ENOENT
                    if is_refused or self._cuts_count == cuts_count:
                        raise
                    raise LogChangedError(self._directory) from error  # it read what was being cut

    def _split(self, base_offset: int, cuts_count: int) -> bool:
        """Split a segment whose offsets are too far apart; False if they are not."""
        from stratalog.log.cleaning.split import discard, split_segment

        segment = self.segments.get(base_offset)
        pieces = [] if segment is None else split_segment(self._disk, segment)
        if segment is None or len(pieces) == 1:
            discard(pieces)
            return False
        self._replace(pieces, [segment], cuts_count)
        return True

    def _replace(self, new: Sequence[LogSegment], old: Sequence[LogSegment], cuts_count: int) -> None:
        """Put new segments, whose files end in .cleaned, in the place of old ones.

        They were made when the log had been cut so often. If it was cut since, they may have records that are
        gone for good; a look at the old segments would not tell, as one may have been cut, filled and rolled.
        """
        with self._flush_lock, self._changing():
            if self._cuts_count != cuts_count:
                for segment in new:
                    segment.delete()
                raise LogChangedError(self._directory)
            with self._writing():
                replace_segments(
                    self._disk,
                    self.segments,
                    new,
                    old,
                    scheduler=self._scheduler,
                    producers=self.producers,
                    delete_delay_ms=self.config.file_delete_delay_ms,
                )

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """A leader's term begins: its epoch is known before its first record."""
        with self._changing():
            self.epochs.assign(epoch, start_offset)

    # Truncate

    def truncate_to(self, offset: int) -> bool:
        """Remove the record at an offset, the others of its batch and all behind; False if there is none.

        They are gone for good when this returns. A crash meanwhile leaves a beginning of the log that has at
        least all that stays: no mark vouches any more for what goes, and it goes from the end.
        """
        offset = to_offset(offset)
        if offset < 0:
            raise UsageError(f"truncation to {offset}: an offset is not negative.")
        with self._flush_lock, self._changing():
            if offset >= self._end.offset:
                self.epochs.truncate_from_end(self._end.offset)
                return False
            if self.segments.first.base_offset > offset:
                self.truncate_fully_and_start_at(offset)
                return True
            self._lower_marks(offset)
            with self._writing():
                dropped = self.segments.above(offset)
                self.segments.remove(dropped)
                self._drop(dropped, "the log is truncated")
                active = self.segments.active
                active.truncate_to(offset)
                active.sync_log()
                self._set_end(OffsetMetadata(offset, active.base_offset, active.size))
                self.epochs.truncate_from_end(offset)
                self.log_start_offset = min(offset, self.log_start_offset)
                self._rebuild_producers(offset)
                self._settle(offset)
            return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log goes on at an offset. What is gone does not come back, as above."""
        offset = to_offset(offset)
        with self._flush_lock, self._changing():
            self._lower_marks(offset)
            with self._writing():
                self._drop(tuple(self.segments), "the log is emptied")
                self.log_start_offset = offset if log_start_offset is None else log_start_offset
                # With no segment left the note alone says where the log goes on.
                self._first_named = -1
                self.keep_start()
                segment = self._create_segment(offset)
                self.segments.replace([segment])
                self._set_end(OffsetMetadata(offset, segment.base_offset, 0))
                self.epochs.clear()
                self.producers.truncate_fully_and_start_at(offset)
                self._rebuild_producers(offset)
                self._set_high_watermark(self._end)
                self._settle(offset)

    def _lower_marks(self, offset: int) -> None:
        """Before a record is cut off: nothing vouches for it any more, in memory or on the device."""
        self._cuts_count += 1
        self.recovery_point = min(self.recovery_point, offset)
        if self._kept_marks is not None:
            self._kept_marks.lower(offset)

    def _drop(self, segments: Sequence[LogSegment], reason: str) -> None:
        """Give up segments at the end of the log, the last one first.

        Each is gone on the device before the next one goes: else a later one could outlive it, and stand
        behind a hole that nothing tells from a gap that compaction left.
        """
        for segment in reversed(segments):
            self._delete([segment], reason)
            self._sync_names(())

    def _settle(self, offset: int) -> None:
        """Bring to the device what tells of a truncation, before a record can take the place of another."""
        self.epochs.flush()
        self._sync_names([self.segments.active])
        self._first_named = self.segments.first.base_offset
        self.keep_start()
        if self._kept_marks is not None:
            self._kept_marks.lower(offset)  # the high watermark may have been written down meanwhile

    def _rebuild_producers(self, end_offset: int) -> None:
        rebuild_producer_state(
            self.producers,
            self.segments,
            log_start_offset=self.log_start_offset,
            end_offset=end_offset,
            now_ms=self._clock(),
        )
        # Replayed transactions count as unreplicated. Kafka leaves those below the high watermark so until it
        # moves again, and has a last stable offset of before the truncation up to then.
        self.producers.on_high_watermark_updated(self._high_watermark.offset)
        self._update_first_unstable()

    # Where it is

    @contextmanager
    def holding_changes(self) -> Iterator[None]:
        """Let every other thread that would change the log wait meanwhile; reads go on."""
        with self._flush_lock, self._lock:
            self._check_changeable()
            yield

    def retire(self, directory: str, refusal: Callable[[], LogClosedError]) -> None:
        """Rename the directory, as the log is no longer its partition's; changes get `refusal` from now on.

        Reads go on until the files are removed. Whoever waits to append is refused: nothing that was
        acknowledged is only in here. Kafka closes the old log of a move, or lets appends go on in it.
        """
        with self._flush_lock, self._changing():
            self._refusal = refusal
            self._rename_directory(directory)

    def rename_directory(self, directory: str) -> None:
        """Give the partition's directory another name, on the device when this returns; reads go on."""
        with self._flush_lock, self._changing():
            self._rename_directory(directory)

    def _rename_directory(self, directory: str) -> None:
        with ExitStack() as held:
            # A reader that finds a file's name gone waits for its segment, and then looks under the new one.
            segments = [*self.segments, *waiting_in(self._disk, self._directory)]
            for segment in segments:
                held.enter_context(segment.renaming)
            self._disk.rename(self._directory, directory)
            self._directory = directory
            for segment in segments:
                segment.update_directory(directory)
            self.producers.snapshots.move(directory)
            self.epochs.move_to(PurePath(directory, LEADER_EPOCH_CHECKPOINT))
            self._disk.sync_directory(PurePath(directory).parent)
            self.epochs.flush()  # a write that came in between found no directory

    # Producers

    def take_over_producers(self, other: Log) -> None:
        """Know of the producers what another copy of the same records knows. Nobody may change that now."""
        with self._changing(), self._writing():
            self.producers.take_over(other.producers.producers)
            self._update_first_unstable()

    def remove_expired_producers(self) -> None:
        """Forget the producers that were silent for producer.id.expiration.ms."""
        with self._lock:
            self.producers.remove_expired_producers(self._clock())
