"""Producer state of a log that another process writes: from a snapshot and the batches after it.

A reader that follows a log needs the state of its transactions again and again, and most of this state does
not change. So a replay continues after the last batch that it has read, if that batch is still in its place.
If not, the log was truncated or compacted there, and the replay is discarded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.errors import CorruptRecordError
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MIN
from stratalog.log.producers.analysis import replay_batches
from stratalog.log.producers.entry import CompletedTxn
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.reading import AbortedTransaction, check_passed_over
from stratalog.log.segments import SegmentReaders
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.segment.headers import BatchChunk, find_batch
from stratalog.segment.resuming import torn
from stratalog.segment.segment_reader import SegmentReader


class ReplayedProducers(ProducerStateManager):
    """Producer state that also remembers which transactions were aborted."""

    def __init__(
        self, disk: DiskReader, directory: str, *, clock: Clock, snapshot_offsets: Iterable[int] | None
    ) -> None:
        super().__init__(disk, directory, clock=clock, snapshot_offsets=snapshot_offsets)
        self.aborted: list[CompletedTxn] = []

    @property
    def undecided(self) -> list[AbortedTransaction]:
        """The open transactions, for a reader that reads past their first records and must skip them."""
        return [
            AbortedTransaction(txn.producer_id, txn.first_offset.offset) for txn in self._ongoing.ascending()
        ]

    def complete_txn(self, completed: CompletedTxn) -> None:
        super().complete_txn(completed)
        if completed.is_aborted:
            self.aborted.append(completed)


class Replay:
    """Producer state at an offset, `next_offset`, which never goes back."""

    def __init__(self, producers: ReplayedProducers, start_offset: int) -> None:
        self.producers = producers
        self.next_offset = start_offset
        self._last: _LastBatch | None = None

    def can_go_on(self, segments: SegmentReaders, end_offset: int) -> bool:
        """Whether the log before `next_offset` is still the one that was read."""
        return self._last is not None and self.next_offset <= end_offset and self._last.is_in(segments)

    def go_on(self, segments: SegmentReaders, end_offset: int) -> None:
        """Read the batches below an offset. After an error the replay cannot be used any more.

        Damage is a CorruptRecordError, even if it looks like the end of a segment: it may hide markers.
        """
        if self.next_offset >= end_offset:
            return  # as after a clean shutdown: the snapshot has everything, even if the log is damaged
        for segment in segments.range(self.next_offset, end_offset):
            start = segment.translate_offset(max(self.next_offset, segment.base_offset))
            if start is None:
                check_passed_over(segments, self.next_offset, segment.base_offset + 1)
                continue
            found = segment.translate_offset(end_offset)
            reached, end = start.position, segment.size if found is None else found.position
            for chunk in segment.batches(start.position, end):
                replay_batches(self.producers, chunk.data, chunk.headers)
                self._last = _LastBatch.of(segment, chunk)
                reached = chunk.position + int(chunk.headers[-1]["position"]) + int(chunk.headers[-1]["size"])
            if reached < end:
                raise torn(segment.log_path, reached, end)
        self.next_offset = end_offset


class _LastBatch(NamedTuple):
    """The last batch of a replay: fields that would differ in any other batch at its position."""

    segment_base: int
    position: int
    base_offset: int
    crc: int
    leader_epoch: int

    @classmethod
    def of(cls, segment: SegmentReader, chunk: BatchChunk) -> _LastBatch:
        last = BatchRow._make(chunk.headers[-1].item())
        return cls(
            segment.base_offset,
            chunk.position + last.position,
            last.base_offset,
            last.crc,
            last.partition_leader_epoch,
        )

    def is_in(self, segments: SegmentReaders) -> bool:
        segment = segments.get(self.segment_base)
        if segment is None:
            return False
        try:
            found = find_batch(
                segment.read_into,
                self.position,
                segment.size,
                OFFSET_AT_LEAST,
                INT64_MIN,
                path=segment.log_path,
            )
        except CorruptRecordError:
            return False
        facts = found and (found.base_offset, found.crc, found.partition_leader_epoch)
        return facts == (self.base_offset, self.crc, self.leader_epoch)
