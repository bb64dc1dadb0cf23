"""What makes a log grow: appending as leader and as follower, and rolling.

An append is decided in pieces that change nothing (`append.py` and `validation.py` check and give offsets,
`roll.py` says whether a new segment is due, `producers/analysis.py` finds duplicates and fences), and only
then written. Kafka: UnifiedLog.append, roll
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from stratalog.errors import (
    DiskError,
    IndexFullError,
    LogClosedError,
    LogMovedError,
    RecordBatchTooLargeError,
    SegmentOffsetOverflowError,
    UnexpectedAppendOffsetError,
    UsageError,
)
from stratalog.files.names import FileKind, segment_file_name
from stratalog.limits import INT32_MAX
from stratalog.log.append import AppendInfo, analyze
from stratalog.log.deletion import delete_segments
from stratalog.log.flushing import FlushedLog
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.analysis import NO_CHANGES, ProducerChanges, analyze_producers, apply_changes
from stratalog.log.producers.append_info import TV_UNKNOWN
from stratalog.log.producers.verification import NO_GUARD, VerificationGuard
from stratalog.log.roll import RollParams, random_jitter_ms, roll_reason
from stratalog.log.validation import validate_and_assign_offsets
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.segment import LogSegment
from stratalog.segment.txn_index import AbortedTxn

logger = logging.getLogger(__name__)


class WrittenLog(FlushedLog):
    """A log that can be appended to."""

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
            if self._failed is not None or self._closed or self._refusal is not None:
                self._check_changeable()
            try:
                info = self._append_locked(info, origin, leader_epoch, transaction_version, guard)
            except DiskError as error:
                self._failed = error
                raise
            is_due = self._end.offset - self.recovery_point >= self.config.flush_messages
        if is_due:
            try:
                self.flush()
            except LogMovedError:
                pass  # moved in between: what took its place was flushed with this set in it
            except LogClosedError:
                # Closed in between, which flushes; unless it was only let go of.
                if self.recovery_point <= info.last_offset:
                    raise
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
            if info.last_offset - info.first_known_offset > INT32_MAX:
                # Gaps as wide as that are legal, but these batches need segments of their own.
                raise SegmentOffsetOverflowError(
                    self.segments.active.log_path, info.first_known_offset, info.last_offset
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
            except (DiskError, IndexFullError):
                raise  # of the latter nothing is left in the file
            except BaseException as error:
                self._fail_over(error)
                raise
            segment = self._roll_for(info)

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
                if self._follows_end and not previous.is_index_full:
                    # Nothing to do. Kafka makes it anew; a power cut in between takes the name, and with it
                    # the log's end. Replicas know it, but the only copy would give the same offsets again.
                    return previous
            elif base_offset < previous.base_offset:
                raise UsageError(
                    f"{self.topic_partition}: {base_offset} is before the active {previous.base_offset}."
                )
            try:
                return self._begin_segment(base_offset, previous)
            except DiskError:
                raise
            except BaseException as error:
                self._finish_roll(base_offset, previous, error)
                raise

    def advance_to(self, offset: int) -> None:
        """Let the log go on at an offset above its end: of what was between, compaction has left nothing."""
        with self._changing():
            if offset > self._end.offset:
                self.roll(offset)
                self._end = OffsetMetadata(offset, offset, 0)
                if self._follows_end:
                    self._set_high_watermark(self._end)

    def _finish_roll(self, base_offset: int, previous: LogSegment, error: BaseException) -> None:
        """Do to its end what Ctrl-C has interrupted, so that file names and memory agree again.

        How far it came is not known: each step is done again, with nothing believed of files that it has
        changed. The old segment may have lost the room in its indexes already, so there is no way back.
        """
        try:
            if self.segments.active is previous:
                previous.forget_indexes()
                if base_offset != previous.base_offset or previous.suffix:
                    self._disk.delete(
                        f"{self._directory}{os.sep}{segment_file_name(base_offset, FileKind.LOG)}"
                    )
            self._names_count += 1
            self._begin_segment(base_offset, previous)
        except DiskError as refusal:
            self._failed = refusal
        except BaseException:
            self._fail_over(error)
            raise

    def _begin_segment(self, base_offset: int, previous: LogSegment) -> LogSegment:
        segment = self.segments.active
        if segment is previous:  # else this was interrupted when the new one was there already
            if base_offset == previous.base_offset:
                # An empty one whose indexes count as full can only be cured by making it anew.
                if not previous.suffix:
                    self._delete([previous], "it is empty and rolled again", with_snapshots=False)
            else:
                previous.on_become_inactive()
            if self._follows_end:
                # The only copy. A power cut may take the end of it, but a segment that outlived the end of
                # the one before would leave a hole: records are there that came after some that are not. With
                # replicas, as in Kafka, the flush in the background is enough.
                previous.sync_log()
                self._sync_names([previous])
            segment = self._create_segment(base_offset)
            self.segments.add(segment)
        self._end = OffsetMetadata(self._end.offset, base_offset, 0)
        self.producers.update_map_end_offset(base_offset)
        self.producers.take_snapshot(sync=False)
        if self._high_watermark.offset >= self._end.offset:
            self._set_high_watermark(self._end)
        self._scheduler.schedule("flush-log", lambda: self._flush_rolled(base_offset))
        return segment

    def _flush_rolled(self, base_offset: int) -> None:
        """In the background: what else there is of the segment, and the recovery point."""
        with self._flush_lock, self._failing():
            if self._closed or self._failed is not None or self._refusal is not None:
                return
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

    def _delete(self, segments: Sequence[LogSegment], reason: str, *, with_snapshots: bool = True) -> None:
        try:
            self._rename_deleted(segments, reason, with_snapshots=with_snapshots)
        finally:
            self._names_count += 1

    def _rename_deleted(self, segments: Sequence[LogSegment], reason: str, *, with_snapshots: bool) -> None:
        delete_segments(
            self._disk,
            self._scheduler,
            self.producers if with_snapshots else None,
            segments,
            delay_ms=self.config.file_delete_delay_ms,
            reason=reason,
        )
