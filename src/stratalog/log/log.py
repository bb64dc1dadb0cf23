"""One partition's log: a pile of segments with marks on it.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    recovery_point <= log_end_offset

One lock guards every change; reads take none (`reading.py` says why that is safe). An append is decided in
pieces that change nothing (`append.py` and `validation.py` check and give offsets, `roll.py` says whether a
new segment is due, `producer_analysis.py` finds duplicates and fences), and only then written. What the disk
refuses fails the log: nothing more is written, since memory and disk may differ from then on.

Kafka: UnifiedLog, LocalLog
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import Any

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import (
    DiskError,
    IndexFullError,
    LogClosedError,
    OffsetOutOfRangeError,
    PolicyViolationError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT, TopicPartition
from stratalog.log.append import AppendInfo, analyze
from stratalog.log.deletion import delete_segments
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.offsets import OffsetMetadata, OffsetSnapshot
from stratalog.log.origin import AppendOrigin
from stratalog.log.producer_analysis import NO_CHANGES, ProducerChanges, analyze_producers, apply_changes
from stratalog.log.producer_append import TV_UNKNOWN
from stratalog.log.producer_rebuild import rebuild_producer_state
from stratalog.log.producer_verification import NO_GUARD, VerificationGuard
from stratalog.log.producers import ProducerStateManager
from stratalog.log.reading import FetchedData, Isolation, out_of_range, read
from stratalog.log.roll import RollParams, random_jitter_ms, roll_reason
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments
from stratalog.log.timestamps import find_offset, first_not_before
from stratalog.log.validation import validate_and_assign_offsets
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment import LogSegment
from stratalog.segment.txn_index import AbortedTxn

logger = logging.getLogger(__name__)

INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1
EXPIRATION_CHECK_MS = 600_000  # Kafka: producer.id.expiration.check.interval.ms


class Log:
    """One partition. Made by `loader.load`, which brings the parts; closed by `close`, once.

    `high_watermark_follows_end` is for a log without replicas: what is appended can be read at once.
    """

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: LogSegments,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
        log_start_offset: int,
        recovery_point: int,
        end: OffsetMetadata,
        high_watermark_follows_end: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.epochs = epochs
        self.producers = producers
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.last_flushed_ms = clock()
        self._disk, self._clock, self._scheduler = disk, clock, scheduler
        self._directory = directory
        self._end = end
        self._follows_end = high_watermark_follows_end
        high_watermark = end if high_watermark_follows_end else OffsetMetadata(log_start_offset)
        # The high watermark and the first unstable offset, published together: a reader of committed records
        # that saw a new one of the first and an old one of the second would read what is still open.
        self._marks: tuple[OffsetMetadata, OffsetMetadata | None] = (high_watermark, None)
        # Taken before `_lock` by whatever flushes or truncates: a flush counts only for what was there all
        # the time, and two of them never take each other's word for what is on the device.
        self._flush_lock = threading.RLock()
        self._lock = threading.RLock()
        self._failed: DiskError | None = None
        self._closed = False
        self._update_first_unstable()
        if config.flush_ms < INT64_MAX:
            self._repeat("flush by flush.ms", config.flush_ms, self.flush)
        if high_watermark_follows_end:  # else its manager does it, for all logs at once
            self._repeat("producer expiration", EXPIRATION_CHECK_MS, self.remove_expired_producers)

    # What it is

    @property
    def directory(self) -> str:
        return self._directory

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

    @property
    def failure(self) -> DiskError | None:
        """What made the log fail, after which it takes and gives nothing more."""
        return self._failed

    @property
    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.segments)

    def metrics(self) -> dict[str, int]:
        """The gauges of a partition, by Kafka's names (kafka.log:type=Log)."""
        return {
            "NumLogSegments": len(self.segments),
            "LogStartOffset": self.log_start_offset,
            "LogEndOffset": self.log_end_offset,
            "Size": self.size,
        }

    def offset_snapshot(self) -> OffsetSnapshot:
        """All marks of one moment, with their places."""
        with self._lock:
            self._resolve_high_watermark()
            return OffsetSnapshot(self.log_start_offset, self._last_stable(), self._high_watermark, self._end)

    # Append

    def append_as_leader(
        self,
        data: Any,  # whatever offers the buffer protocol
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = TV_UNKNOWN,
        guard: VerificationGuard = NO_GUARD,
    ) -> AppendInfo:
        """Check one batch, give it the next offsets and write it; returns what was written, and where.

        A batch that its producer has sent before is not written again: the offsets returned are those of
        then. With origin RAFT_LEADER the batches bring their offsets.
        """
        info = analyze(
            data,
            origin=origin,
            max_message_bytes=None if origin is AppendOrigin.RAFT_LEADER else self.config.max_message_bytes,
            leader_epoch=leader_epoch,
        )
        return self._append(info, origin, leader_epoch, transaction_version, guard)

    def append_as_follower(self, data: Any, *, leader_epoch: int) -> AppendInfo:
        """Write batches as their leader has them; gaps between offsets are legal."""
        origin = AppendOrigin.REPLICATION
        info = analyze(data, origin=origin, max_message_bytes=None, leader_epoch=leader_epoch)
        return self._append(info, origin, leader_epoch, TV_UNKNOWN, NO_GUARD)

    def _append(
        self,
        info: AppendInfo,
        origin: AppendOrigin,
        leader_epoch: int,
        transaction_version: int,
        guard: VerificationGuard,
    ) -> AppendInfo:
        if not info.size:
            return info
        # What `_changing` and `_writing` do for others, spelt out: generators take as long as the write.
        with self._lock:
            if self._failed is not None or self._closed:
                self._check_usable()
            try:
                info = self._append_locked(info, origin, leader_epoch, transaction_version, guard)
            except DiskError as error:
                self._failed = error
                raise
            is_due = self._end.offset - self.recovery_point >= self.config.flush_messages
        if is_due:
            self.flush()
        return info

    def _append_locked(
        self,
        info: AppendInfo,
        origin: AppendOrigin,
        leader_epoch: int,
        transaction_version: int,
        guard: VerificationGuard,
    ) -> AppendInfo:
        if origin.assigns_offsets:
            info = self._with_offsets(info, origin, leader_epoch)
            self._note_epoch(2, leader_epoch, info.first_offset)
        else:
            if info.first_known_offset < self._end.offset:
                raise UnexpectedAppendOffsetError(
                    f"{self.topic_partition}: a set that begins at {info.first_known_offset} is appended "
                    f"to a log that ends at {self._end.offset}.",
                    first_offset=info.first_known_offset,
                    last_offset=info.last_offset,
                )
            self._note_epochs(info.batches)
        limit = self.config.segment_size
        if info.size > limit:
            raise RecordBatchTooLargeError(
                f"a set of {info.size} bytes; segment.bytes of this topic is {limit}.",
                size=info.size,
                limit=limit,
            )
        segment = self._segment_for(info)
        changes = NO_CHANGES
        while True:
            if info.has_producers:
                changes = self._changes_of_producers(info, segment, origin, transaction_version, guard)
                if changes.duplicate is not None:
                    written = changes.duplicate
                    return info._replace(first_offset=written.first_offset, last_offset=written.last_offset)
            try:
                if self._write(info, segment, changes):
                    return info
                segment = self._roll_for(info)
            except DiskError:
                raise
            except BaseException as error:
                self._fail_over(error)
                raise

    def _write(self, info: AppendInfo, segment: LogSegment, changes: ProducerChanges) -> bool:
        """Put the set into the segment, and all it changes into memory; False if an index is full."""
        try:
            segment.append(info.data, info.batches, info.last_offset)
        except IndexFullError:
            # It filled up inside the set, whose bytes are in the file already. Kafka leaves them.
            segment.truncate_to(self._end.offset)
            if not segment.size:
                raise  # not even an empty index has room
            return False
        # Forwards, so that none of the other marks has to go back with it.
        self._end = OffsetMetadata(info.last_offset + 1, segment.base_offset, segment.size)
        self._take_over(changes, segment, info.last_offset + 1)
        return True

    def _changes_of_producers(
        self,
        info: AppendInfo,
        segment: LogSegment,
        origin: AppendOrigin,
        transaction_version: int,
        guard: VerificationGuard,
    ) -> ProducerChanges:
        return analyze_producers(
            self.producers,
            info.data,
            info.batches,
            origin=origin,
            start=OffsetMetadata(self._end.offset, segment.base_offset, segment.size),
            transaction_version=transaction_version,
            guard=guard,
        )

    def _with_offsets(self, info: AppendInfo, origin: AppendOrigin, leader_epoch: int) -> AppendInfo:
        validated = validate_and_assign_offsets(
            info,
            next_offset=self._end.offset,
            config=self.config,
            now_ms=self._clock(),
            leader_epoch=leader_epoch,
            origin=origin,
        )
        return AppendInfo(
            validated.data,
            validated.batches,
            validated.first_offset,
            validated.last_offset,
            info.last_offset_of_first_batch,
            leader_epoch,
            validated.max_timestamp,
            info.source_codec,
            info.has_producers,
        )

    def _note_epochs(self, batches: BatchTable) -> None:
        """Before the data, so that no record is ever on disk without its epoch."""
        columns = (batches["magic"], batches["partition_leader_epoch"], batches["base_offset"])
        magics, epochs, offsets = (column.tolist() for column in columns)
        for i in range(len(epochs)):
            # Only where the epoch changes: the first batch of each run starts it.
            if i == 0 or epochs[i] != epochs[i - 1] or magics[i] != magics[i - 1]:
                self._note_epoch(magics[i], epochs[i], offsets[i])

    def _note_epoch(self, magic: int, epoch: int, base_offset: int) -> None:
        if magic == 2:
            latest = self.epochs.latest_entry
            if latest is None or latest.epoch != epoch or base_offset < latest.start_offset:
                self.epochs.assign(epoch, base_offset)
        elif self.epochs.entries:
            # Old formats know no epochs, so that nothing can be said of any from here on.
            self.epochs.clear_and_flush()

    def _take_over(self, changes: ProducerChanges, segment: LogSegment, end_offset: int) -> None:
        """What the set has changed of the producers, now that it is in the segment."""
        if changes is not NO_CHANGES:
            apply_changes(self.producers, changes)
            for completed in changes.completed:
                stable = self.producers.last_stable_offset(completed)
                if completed.is_aborted:
                    segment.append_aborted(
                        AbortedTxn(
                            completed.producer_id, completed.first_offset, completed.last_offset, stable
                        )
                    )
                self.producers.complete_txn(completed)
        self.producers.update_map_end_offset(end_offset)
        if self._follows_end:
            self._set_high_watermark(self._end)
        else:
            self._update_first_unstable()

    # Roll

    def _segment_for(self, info: AppendInfo) -> LogSegment:
        """The active segment, a new one if this set does not go into the old one."""
        segment = self.segments.active
        config = self.config
        params = RollParams(
            base_offset=segment.base_offset,
            segment_size=segment.size,
            index_full=segment.is_index_full,
            waited_ms=segment.waited_ms(self._clock(), info.max_timestamp),
            set_size=info.size,
            last_offset=info.last_offset,
        )
        segment_ms = config.max_segment_ms - segment.roll_jitter_ms
        reason = roll_reason(params, segment_bytes=config.segment_size, segment_ms=segment_ms)
        if reason is None:
            return segment
        logger.debug("%s is rolled: %s", segment.log_path, reason.value)
        return self._roll_for(info)

    def _roll_for(self, info: AppendInfo) -> LogSegment:
        """Begin the segment that this set goes into."""
        # A v0 or v1 set does not tell its first offset; this base is as low as its last one allows.
        first_offset = info.first_offset if info.first_offset >= 0 else info.last_offset - INT32_MAX
        return self.roll(max(first_offset, 0))

    def roll(self, expected_base: int = 0) -> LogSegment:
        """Begin a new segment at the log's end, or at `expected_base` if that is above it."""
        with self._changing():
            base_offset = max(expected_base, self._end.offset)
            previous = self.segments.active
            if base_offset in self.segments:
                if base_offset != previous.base_offset or previous.size:
                    raise UsageError(f"{self.topic_partition}: segment {base_offset} has records in it.")
                # An empty one whose indexes count as full can only be cured by making it anew.
                self._delete([previous], "it is empty and rolled again", with_snapshots=False)
            elif base_offset < previous.base_offset:
                raise UsageError(
                    f"{self.topic_partition}: {base_offset} is before the active {previous.base_offset}."
                )
            else:
                previous.on_become_inactive()
            segment = self._create_segment(base_offset)
            self.segments.add(segment)
            self._end = OffsetMetadata(self._end.offset, base_offset, 0)
            self.producers.update_map_end_offset(base_offset)
            snapshot = self.producers.take_snapshot(sync=False)
            if self._high_watermark.offset >= self._end.offset:
                self._set_high_watermark(self._end)
            self._scheduler.schedule("flush-log", lambda: self._flush_rolled(snapshot, base_offset))
            return segment

    def _flush_rolled(self, snapshot: str | None, base_offset: int) -> None:
        """In the background: the snapshot first, so that the recovery point never runs ahead of it."""
        with self._flush_lock, self._failing():
            if self._closed or self._failed is not None:
                return
            if snapshot is not None and self._disk.exists(snapshot):
                self._disk.sync(snapshot)
            self._flush_up_to(base_offset)

    def _create_segment(self, base_offset: int) -> LogSegment:
        return LogSegment.create(
            self._disk,
            self._directory,
            base_offset,
            self.config,
            self._clock,
            size=self.config.initial_file_size,
            roll_jitter_ms=random_jitter_ms(self.config),
        )

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
        self._check_usable()
        end = self._end
        if start_offset < self.log_start_offset:
            raise out_of_range(start_offset, self.log_start_offset, end.offset)  # before any mark is moved
        if isolation is Isolation.LOG_END:
            limit = end
        else:
            self._resolve_high_watermark()
            limit = self._high_watermark if isolation is Isolation.HIGH_WATERMARK else self._last_stable()
        return read(
            self.segments,
            start_offset,
            max_size,
            log_start_offset=self.log_start_offset,
            end=end,
            limit=limit,
            min_one_message=min_one_message,
            include_aborted=isolation is Isolation.TXN_COMMITTED,
        )

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before the timestamp, or one of Kafka's special values (-1 to -6)."""
        self._check_usable()
        return find_offset(self.segments, self.epochs, timestamp, self.log_start_offset, self._end.offset)

    def first_not_before(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before a time, also where Kafka answers that there is none."""
        self._check_usable()
        return first_not_before(self.segments, timestamp, self.log_start_offset)

    # Marks

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

    def increment_log_start_offset(self, offset: int) -> bool:
        """Give up the records below an offset; their files go with retention. True if that was news."""
        with self._changing():
            if offset > self._high_watermark.offset:
                raise out_of_range(offset, self.log_start_offset, self._high_watermark.offset)
            if offset <= self.log_start_offset:
                return False
            self.log_start_offset = offset
            self.recovery_point = max(self.recovery_point, offset)
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
        if before_offset < -1:
            raise out_of_range(before_offset, self.log_start_offset, self.high_watermark)
        self.increment_log_start_offset(self.high_watermark if before_offset == -1 else before_offset)
        return self.log_start_offset

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """A leader's term begins: its epoch is known before its first record."""
        with self._changing():
            self.epochs.assign(epoch, start_offset)

    # Truncate

    def truncate_to(self, offset: int) -> bool:
        """Remove the record at an offset, the others of its batch and all behind; False if there is none."""
        if offset < 0:
            raise UsageError(f"truncation to {offset}: an offset is not negative.")
        with self._flush_lock, self._changing(), self._writing():
            if offset >= self._end.offset:
                self.epochs.truncate_from_end(self._end.offset)
                return False
            if self.segments.first.base_offset > offset:
                self.truncate_fully_and_start_at(offset)
                return True
            dropped = self.segments.above(offset)
            self.segments.remove(dropped)
            self._delete(dropped, "the log is truncated")
            active = self.segments.active
            active.truncate_to(offset)
            self._set_end(OffsetMetadata(offset, active.base_offset, active.size))
            self.epochs.truncate_from_end(offset)
            self.log_start_offset = min(offset, self.log_start_offset)
            self._rebuild_producers(offset)
            return True

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log goes on at an offset."""
        with self._flush_lock, self._changing(), self._writing():
            self._delete(tuple(self.segments), "the log begins anew")
            segment = self._create_segment(offset)
            self.segments.replace([segment])
            self._set_end(OffsetMetadata(offset, segment.base_offset, 0))
            self.epochs.clear_and_flush()
            self.producers.truncate_fully_and_start_at(offset)
            self.log_start_offset = offset if log_start_offset is None else log_start_offset
            self._rebuild_producers(offset)
            self._set_high_watermark(self._end)

    def _delete(self, segments: Sequence[LogSegment], reason: str, *, with_snapshots: bool = True) -> None:
        delete_segments(
            self._disk,
            self._scheduler,
            self.producers if with_snapshots else None,
            segments,
            delay_ms=self.config.file_delete_delay_ms,
            reason=reason,
        )

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

    def rename_directory(self, directory: str) -> None:
        """Give the partition's directory another name, on the device when this returns; reads go on."""
        with self._flush_lock, self._changing(), ExitStack() as held:
            # A reader that finds a file's name gone waits for its segment, and then looks under the new one.
            for segment in self.segments:
                held.enter_context(segment.renaming)
            self._disk.rename(self._directory, directory)
            self._directory = directory
            for segment in self.segments:
                segment.update_directory(directory)
            self.producers.snapshots.move(directory)
            self.epochs.move_to(PurePath(directory, LEADER_EPOCH_CHECKPOINT))
            self._disk.sync_directory(PurePath(directory).parent)
            self.epochs.flush()  # a write that came in between found no directory

    # Producers

    def remove_expired_producers(self) -> None:
        """Forget the producers that were silent for producer.id.expiration.ms."""
        with self._lock:
            self.producers.remove_expired_producers(self._clock())

    # Flush and close

    def flush(self, *, force: bool = False) -> None:
        """Return when all records are on the device; with `force` an empty active segment's files too."""
        with self._flush_lock, self._failing():
            self._check_usable()
            self._flush_up_to(self._end.offset + 1 if force else self._end.offset)

    def _flush_up_to(self, offset: int) -> None:
        """Under the flush lock, so that nothing is truncated meanwhile; appends go on."""
        recovery_point = min(offset, self._end.offset)
        if offset <= self.recovery_point:
            return
        flushed = self.segments.range(self.recovery_point, offset)
        for segment in flushed:
            segment.flush()
        if any(segment.base_offset >= self.recovery_point for segment in flushed):
            self._disk.sync_directory(self._directory)
        with self._lock:
            if recovery_point > self.recovery_point:
                self.recovery_point = recovery_point
                self.last_flushed_ms = self._clock()

    def close(self) -> None:
        """Flush, leave a snapshot at the end, cut the indexes, as a clean shutdown does. Twice is once.

        A log that has failed is let go of as it is, and its failure raised: it was not closed cleanly.
        """
        with self._flush_lock, self._lock:
            if self._closed:
                return
            if self._failed is not None:
                self.close_handlers()
                raise self._failed
            with self._failing():
                self.flush(force=True)
                self.epochs.flush()
                self.producers.take_snapshot()
                for segment in self.segments:
                    segment.close()
                # Whoever writes a mark afterwards vouches for the names in it too.
                self._disk.sync_directory(self._directory)
            self._closed = True
            self._disk.release(self._directory)

    def close_handlers(self) -> None:
        """Let go without writing anything: the disk has failed."""
        with self._lock:
            self._closed = True
            for segment in self.segments:
                segment.close_handlers()
            self._disk.release(self._directory)

    # Helpers

    def _set_end(self, end: OffsetMetadata) -> None:
        self._end = end
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

    def _repeat(self, name: str, every_ms: int, task: Callable[[], object]) -> None:
        """Run a task every so often, for as long as the log is open and well."""

        def run() -> None:
            if not self._closed and self._failed is None:
                task()
                self._scheduler.schedule(name, run, every_ms)

        self._scheduler.schedule(name, run, every_ms)

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

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self._check_usable()
            with self._failing():
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Once files are touched, whatever ends it early, Ctrl-C too, leaves them other than the memory."""
        try:
            yield
        except DiskError:
            raise
        except BaseException as error:
            self._fail_over(error)
            raise

    def _fail_over(self, error: BaseException) -> None:
        reason = f"it was interrupted while it was changed: {type(error).__name__}"
        self._failed = DiskError(self._directory, reason)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            self._failed = error
            raise

    def _check_usable(self) -> None:
        if self._failed is not None:
            raise DiskError(self._directory, f"the log has failed before: {self._failed}", self._failed.errno)
        if self._closed:
            raise LogClosedError(self._directory)
