"""Producers of a log that somebody else writes: from a snapshot on, by its batches, as far as it was read.

Whoever follows a log asks again and again what became of its transactions. Most of the answer is what it was:
a replay goes on behind the last batch that it took in, if that is still where it was. If it is not, the log
was cut there or compacted, and the replay counts for nothing.
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
from stratalog.log.reading import AbortedTransaction
from stratalog.log.segments import SegmentReaders
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.records.reader import BatchRow
from stratalog.segment.headers import BatchChunk, find_batch
from stratalog.segment.segment_reader import SegmentReader


class ReplayedProducers(ProducerStateManager):
    """Producers that also remember which transactions they saw aborted."""

    def __init__(
        self, disk: DiskReader, directory: str, *, clock: Clock, snapshot_offsets: Iterable[int] | None
    ) -> None:
        super().__init__(disk, directory, clock=clock, snapshot_offsets=snapshot_offsets)
        self.aborted: list[CompletedTxn] = []

    @property
    def undecided(self) -> list[AbortedTransaction]:
        """The transactions that are open: what a reader leaves out who goes past them."""
        return [
            AbortedTransaction(txn.producer_id, txn.first_offset.offset) for txn in self._ongoing.ascending()
        ]

    def complete_txn(self, completed: CompletedTxn) -> None:
        super().complete_txn(completed)
        if completed.is_aborted:
            self.aborted.append(completed)


class Replay:
    """Producers as they are at an offset, `next_offset`, which only ever rises."""

    def __init__(self, producers: ReplayedProducers, start_offset: int) -> None:
        self.producers = producers
        self.next_offset = start_offset
        self._last: _LastBatch | None = None

    def can_go_on(self, segments: SegmentReaders, end_offset: int) -> bool:
        """Whether what was taken in is still what the log has before `next_offset`."""
        return self._last is not None and self.next_offset <= end_offset and self._last.is_in(segments)

    def go_on(self, segments: SegmentReaders, end_offset: int) -> None:
        """Take in what is below an offset. After an error the replay is of no use."""
        for segment in segments.range(self.next_offset, end_offset):
            start = segment.translate_offset(max(self.next_offset, segment.base_offset))
            if start is None:
                continue
            end = segment.translate_offset(end_offset)
            for chunk in segment.batches(start.position, None if end is None else end.position):
                replay_batches(self.producers, chunk.data, chunk.headers)
                self._last = _LastBatch.of(segment, chunk)
        self.next_offset = end_offset


class _LastBatch(NamedTuple):
    """The last batch of a replay, by what no other batch has at its place."""

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
