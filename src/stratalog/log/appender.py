"""Appends to a log.

A set of batches is first checked by functions that change nothing, and only then written. `append.py` and
`validation.py` check it and assign offsets, `roll.py` says whether a new segment is due, and
`producers/analysis.py` finds duplicates and fenced producers. Kafka: UnifiedLog.append
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from stratalog.config import LogConfig
from stratalog.errors import (
    DiskError,
    IndexFullError,
    RecordBatchTooLargeError,
    SegmentOffsetOverflowError,
    UnexpectedAppendOffsetError,
)
from stratalog.limits import INT32_MAX, INT64_MAX
from stratalog.log.append import AppendInfo
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.parts import LogParts
from stratalog.log.producers.analysis import NO_CHANGES, ProducerChanges, analyze_producers, apply_changes
from stratalog.log.producers.verification import VerificationGuard
from stratalog.log.ready import ReadyRules, ReadySet
from stratalog.log.roll import roll_reason
from stratalog.log.roller import Roller
from stratalog.log.validation import validate_and_assign_offsets
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.segment import LogSegment
from stratalog.segment.txn_index import AbortedTxn

logger = logging.getLogger(__name__)

AnySet = AppendInfo | ReadySet


class Appender:
    """Decides about a set of batches and writes it, under the log's lock.

    Before the bytes are written, only two things may change: a new leader epoch is stored, because it must be
    on disk before its records, and a new segment is begun. After the write, the end of the log, the producers
    and the marks are updated, in this order. A disk error or Ctrl-C in between fails the log: for Ctrl-C
    that is done here, for a disk error by the caller.
    """

    __slots__ = (
        "_clock",
        "_config",
        "_epochs",
        "_guard",
        "_marks",
        "_max_segment_ms",
        "_producers",
        "_roller",
        "_segment_size",
        "_segments",
        "_topic_partition",
        "flush_messages",
        "ready_rules",
    )

    def __init__(self, parts: LogParts, roller: Roller, config: LogConfig) -> None:
        self.config = config
        self._topic_partition, self._clock = parts.topic_partition, parts.clock
        self._guard, self._marks, self._roller = parts.guard, parts.marks, roller
        self._segments, self._epochs, self._producers = parts.segments, parts.epochs, parts.producers

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        # What every append needs, computed once.
        self.ready_rules = ReadyRules(config)
        self.flush_messages = config.flush_messages
        self._segment_size, self._max_segment_ms = config.segment_size, config.max_segment_ms

    def append_ready(self, ready: ReadySet, leader_epoch: int) -> None:
        """Assign offsets to a ready set of a client, and write it."""
        ready.stamp(self._marks.end.offset, leader_epoch)
        if ready.last_offset >= INT64_MAX:
            raise self._beyond(ready.first_offset, ready.last_offset)
        self._note_epoch(2, leader_epoch, ready.first_offset)
        self._write_somewhere(ready)

    def append(
        self,
        info: AppendInfo,
        origin: AppendOrigin,
        leader_epoch: int,
        transaction_version: int,
        guard: VerificationGuard,
    ) -> AppendInfo:
        """Write a set that `analyze` has checked; returns what was written, and where.

        A batch that its producer has sent before is not written again: the result has the offsets that the
        batch got the first time.
        """
        if origin.assigns_offsets:
            info = self._with_offsets(info, origin, leader_epoch, self._marks.end.offset)
            self._note_epoch(2, leader_epoch, info.first_offset)
        else:
            if info.first_known_offset < self._marks.end.offset:
                raise UnexpectedAppendOffsetError(
                    f"{self._topic_partition}: a set that begins at {info.first_known_offset} is appended "
                    f"to a log that ends at {self._marks.end.offset}.",
                    first_offset=info.first_known_offset,
                    last_offset=info.last_offset,
                )
            if info.last_offset - info.first_known_offset > INT32_MAX:
                # Gaps between offsets may be this wide, but a set must fit into one segment.
                raise SegmentOffsetOverflowError(
                    self._segments.active.log_path, info.first_known_offset, info.last_offset
                )
            if info.last_offset == INT64_MAX:
                raise self._beyond(info.first_known_offset, info.last_offset)
            self._note_epochs(info.batches)
        if not info.has_producers:
            self._write_somewhere(info)
            return info
        if info.size > self._segment_size:
            raise self._too_large(info)
        segment = self._segment_for(info)
        while True:
            changes = self._changes_of_producers(info, segment, origin, transaction_version, guard)
            if changes.duplicate is not None:
                written = changes.duplicate
                return info._replace(first_offset=written.first_offset, last_offset=written.last_offset)
            if self._write_or_fail(info, segment, changes):
                return info
            segment = self._roll_for(info)

    def prepare_all(self, infos: Iterable[AppendInfo], leader_epoch: int) -> list[AppendInfo]:
        """Check sets of a client that are to be written one after the other, and assign their offsets.

        The sets have no producers. Nothing is written here except the leader epoch, and that only if all sets
        are accepted.
        """
        first = next_offset = self._marks.end.offset
        prepared = []
        for info in infos:
            prepared.append(self._with_offsets(info, AppendOrigin.CLIENT, leader_epoch, next_offset))
            next_offset = prepared[-1].last_offset + 1
            if prepared[-1].size > self._segment_size:
                raise self._too_large(prepared[-1])
        self._note_epoch(2, leader_epoch, first)
        return prepared

    def write_prepared(self, info: AppendInfo) -> None:
        """Write the next of the prepared sets."""
        self._write_somewhere(info)

    def _write_somewhere(self, info: AnySet) -> None:
        """Write a set without producers, whose offsets are final, to the active segment or to a new one."""
        if info.size > self._segment_size:
            raise self._too_large(info)
        segment = self._segment_for(info)
        while not self._write_or_fail(info, segment, NO_CHANGES):
            segment = self._roll_for(info)

    def _write_or_fail(self, info: AnySet, segment: LogSegment, changes: ProducerChanges) -> bool:
        """As `_write`, but the log fails if the set may be in the file only in part."""
        try:
            return self._write(info, segment, changes)
        except (DiskError, IndexFullError):
            raise  # after an IndexFullError nothing of the set is left in the file
        except BaseException as error:
            self._guard.fail_over(error)
            raise

    def _too_large(self, info: AnySet) -> RecordBatchTooLargeError:
        limit = self._segment_size
        return RecordBatchTooLargeError(
            f"a set of {info.size} bytes; segment.bytes of this topic is {limit}.",
            size=info.size,
            limit=limit,
        )

    def _write(self, info: AnySet, segment: LogSegment, changes: ProducerChanges) -> bool:
        """Write the set to the segment and update the state in memory; False if an index is full."""
        try:
            if isinstance(info, ReadySet) or len(info.batches) == 1:
                segment.append_batch(info.data, info.last_offset, info.max_timestamp)
            else:
                segment.append(info.data, info.batches, info.last_offset)
        except IndexFullError:
            # The index became full inside the set, whose bytes are in the file already. Kafka leaves them
            # there.
            segment.truncate_to(self._marks.end.offset)
            if not segment.size:
                raise  # not even an empty index has room
            return False
        # The end only moves forwards, so no other mark has to be lowered.
        end_offset = info.last_offset + 1
        self._marks.end = OffsetMetadata(end_offset, segment.base_offset, segment.reader.size)
        if changes is not NO_CHANGES:
            self._take_over(changes, segment)
        self._producers.map_end_offset = end_offset
        self._marks.follow_end()
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
            self._producers,
            info.data,
            info.batches,
            origin=origin,
            start=OffsetMetadata(self._marks.end.offset, segment.base_offset, segment.size),
            transaction_version=transaction_version,
            guard=guard,
        )

    def _with_offsets(
        self, info: AppendInfo, origin: AppendOrigin, leader_epoch: int, next_offset: int
    ) -> AppendInfo:
        validated = validate_and_assign_offsets(
            info,
            next_offset=next_offset,
            config=self.config,
            now_ms=self._clock(),
            leader_epoch=leader_epoch,
            origin=origin,
        )
        # Offsets that are too large wrap around in the kernels, and come out too small.
        if not next_offset <= validated.last_offset < INT64_MAX:
            raise self._beyond(next_offset, INT64_MAX)
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

    def _beyond(self, first_offset: int, last_offset: int) -> UnexpectedAppendOffsetError:
        return UnexpectedAppendOffsetError(
            f"{self._topic_partition}: a set would have the offsets {first_offset} to {last_offset}. The "
            f"last offset of a log is {INT64_MAX - 1}, because a log ends at the one after it.",
            first_offset=first_offset,
            last_offset=last_offset,
        )

    def _note_epochs(self, batches: BatchTable) -> None:
        """Store the epochs that these batches begin.

        Called before the data is written, so that no record is ever on disk without its epoch.
        """
        columns = (batches["magic"], batches["partition_leader_epoch"], batches["base_offset"])
        magics, epochs, offsets = (column.tolist() for column in columns)
        for i in range(len(epochs)):
            # Only batches at which the epoch changes: such a batch begins its epoch.
            if i == 0 or epochs[i] != epochs[i - 1] or magics[i] != magics[i - 1]:
                self._note_epoch(magics[i], epochs[i], offsets[i])

    def _note_epoch(self, magic: int, epoch: int, base_offset: int) -> None:
        if magic == 2:
            latest = self._epochs.latest_entry
            if latest is None or latest.epoch != epoch or base_offset < latest.start_offset:
                self._epochs.assign(epoch, base_offset)
        elif self._epochs.entries:
            # Old formats have no epochs, so the epochs from here on are unknown.
            self._epochs.clear_and_flush()

    def _take_over(self, changes: ProducerChanges, segment: LogSegment) -> None:
        """Update the state of the producers after the set is in the segment."""
        apply_changes(self._producers, changes)
        for completed in changes.completed:
            stable = self._producers.last_stable_offset(completed)
            if completed.is_aborted:
                segment.append_aborted(
                    AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                )
            self._producers.complete_txn(completed)

    def _segment_for(self, info: AnySet) -> LogSegment:
        """The active segment, or a new one if this set must not go into it."""
        segment = self._segments.active
        reason = roll_reason(
            base_offset=segment.base_offset,
            segment_size=segment.reader.size,
            index_full=segment.is_index_full,
            waited_ms=segment.waited_ms(self._clock(), info.max_timestamp),
            set_size=info.size,
            last_offset=info.last_offset,
            segment_bytes=self._segment_size,
            segment_ms=self._max_segment_ms - segment.roll_jitter_ms,
        )
        if reason is None:
            return segment
        logger.debug("%s is rolled: %s", segment.log_path, reason.value)
        return self._roll_for(info)

    def _roll_for(self, info: AnySet) -> LogSegment:
        """Begin the segment that this set goes into."""
        # A v0 or v1 set does not state its first offset; this base is the lowest that its last offset allows.
        first_offset = info.first_offset if info.first_offset >= 0 else info.last_offset - INT32_MAX
        return self._roller.roll(max(first_offset, 0))
