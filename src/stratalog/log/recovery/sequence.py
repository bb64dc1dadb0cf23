"""The order in which a broker recovers the segments of a log, computed from scans instead of reading the log.

1. Load pass, from the first segment up: a segment without its offset index, or with a transaction index that
   does not match it, is recovered. If it is damaged, it is cut there, and the segments after it stay.
2. Unless the log was closed cleanly: the segment that contains the recovery point, and all after it, are
   recovered. If one is cut, all after it are removed.
3. A log that ends before its start offset is emptied, and continues at its start offset.
4. Epochs outside the log and stray snapshots are removed, and the producer state is brought to the log's end.

To recover a segment means: load the newest snapshot at or below its base, replay the batches between that
snapshot and the base, add the batches of the segment, and write a snapshot. This order determines which
snapshots exist in the end.

The survey runs the same sequence with empty scans, to learn which scans will be needed. Kafka: LogLoader,
UnifiedLog.rebuildProducerState
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from stratalog.log.epochs import EpochEntry, EpochStitch
from stratalog.log.recovery.stitch import ProducerStitch, SnapshotSet
from stratalog.segment.scan import ScanStop, SegmentScan
from stratalog.segment.txn_index import AbortedTxn


@dataclass(slots=True)
class SegmentState:
    """The state of a segment in the sequence.

    `is_protected`: it counts as flushed, so its log is never cut. `size` is the remaining size of the log.
    `aborted` is its transaction index, set when it is recovered.
    """

    base_offset: int
    size: int
    needs_load_pass: bool = False
    is_protected: bool = False
    aborted: list[AbortedTxn] | None = None
    is_emptied: bool = False


class Scans(Protocol):
    """The source of scans: the results of a recovery, or the empty scans of its survey."""

    def whole(self, segment: SegmentState) -> SegmentScan:
        """The scan of a segment that is recovered."""
        ...

    def behind(self, segment: SegmentState, offset: int) -> SegmentScan | None:
        """The scan of a segment from the batch with this offset on; None if the segment ends before it."""
        ...

    def next_offset(self, segment: SegmentState) -> int:
        """The offset after the last record of the log's last segment, when everything is cut off."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSettings:
    """The facts about a log that a broker knows apart from its files."""

    log_start_offset: int
    recovery_point: int
    had_clean_shutdown: bool
    now_ms: int
    producer_id_expiration_ms: int
    keeps_following: bool = False
    """Segments after a cut stay. A broker removes them, but without another copy they are needed."""
    unknown_start: str = ""
    """Why `log_start_offset` is not known."""


class RecoverySequence:
    """The log during its recovery, and the result.

    `segments` stay; `removed` are those after a cut, or all if the log ended before its start, at
    `end_below_start`. `created_base` is the base of a new, empty segment, if none was left.
    `open_transactions` are those at the log's end: their first offsets, by producer.
    """

    def __init__(
        self,
        segments: Iterable[SegmentState],
        *,
        snapshots: SnapshotSet,
        epochs: Iterable[EpochEntry],
        scans: Scans,
        settings: SequenceSettings,
    ) -> None:
        self.segments = list(segments)
        self.snapshots = snapshots
        self.epochs = EpochStitch(epochs)
        self.removed: list[SegmentState] = []
        self.contradictions: list[int] = []
        self.open_transactions: dict[int, int] = {}
        self.log_end_offset = 0
        self.end_below_start: int | None = None
        self.created_base: int | None = None
        self._scans = scans
        self._settings = settings

    def run(self) -> None:
        """Run the whole sequence."""
        for number, segment in enumerate(self.segments):
            if segment.needs_load_pass:
                self._recover(segment, self.segments[:number])
        if not self._settings.had_clean_shutdown:
            self._recover_from_recovery_point()
        state = self._new_state()
        self._find_end(state)
        self._finish(state)

    def open_transactions_at(self, number: int) -> dict[int, int]:
        """The first offsets of the transactions that are open at the start of a segment, by producer."""
        state = self._new_state()
        start = self._settings.log_start_offset
        self._rebuild(state, self.segments[:number], self.segments[number].base_offset, start)
        return _open_transactions(state)

    @property
    def is_below_start(self) -> bool:
        """Whether the log ended before its start."""
        return self.end_below_start is not None

    @property
    def lacks_last_snapshot(self) -> bool:
        """Whether there was no snapshot at the log's end, where a clean shutdown writes one.

        A log without records may lack it: a broker that finds a snapshot at the log's start loads and deletes
        it, and then writes none when it stops, because nothing has changed since that snapshot.
        """
        start = max(self._settings.log_start_offset, self.segments[0].base_offset)
        return self.log_end_offset in self.snapshots.written and self.log_end_offset > start

    def _recover_from_recovery_point(self) -> None:
        first = floor_segment(self.segments, self._settings.recovery_point)
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            size = segment.size
            self._recover(segment, self.segments)
            if segment.size < size and not self._settings.keeps_following:
                self.removed = self.segments[number + 1 :]
                del self.segments[number + 1 :]
                for later in self.removed:
                    self.snapshots.delete(later.base_offset)
                return

    def _recover(self, segment: SegmentState, known: Sequence[SegmentState]) -> None:
        """Add the segment's own batches to the state at its base."""
        state = self._new_state()
        self._rebuild(state, known, segment.base_offset, self._settings.log_start_offset)
        scan = self._scans.whole(segment)
        self.epochs.add(scan.epoch_starts)
        if scan.stop is ScanStop.INVALID_OFFSET and not segment.is_protected:
            # Kafka empties the whole segment: it does not know which of its offsets are wrong.
            segment.is_emptied, segment.size, segment.aborted = True, 0, []
            return
        segment.aborted = state.add(scan)
        self.contradictions += state.contradictions
        if not segment.is_protected:
            segment.size = min(segment.size, scan.valid_size)
        state.take_snapshot()

    def _find_end(self, state: ProducerStitch) -> None:
        start = self._settings.log_start_offset
        if self.segments:
            self.log_end_offset = self._scans.next_offset(self.segments[-1])
            if self.log_end_offset < start:
                self.end_below_start = self.log_end_offset
                self.removed = [*self.segments, *self.removed]
                self.segments.clear()
                self.epochs.clear()
                state.start_at(start)
        if not self.segments:
            self.created_base = self.log_end_offset = start
            self.segments.append(SegmentState(start, 0))

    def _finish(self, state: ProducerStitch) -> None:
        settings = self._settings
        bases = [segment.base_offset for segment in self.segments]
        self.epochs.truncate_from_end(self.log_end_offset)
        self.epochs.truncate_from_start(settings.log_start_offset)
        self.snapshots.remove_strays(bases)
        self._rebuild(
            state,
            self.segments,
            self.log_end_offset,
            max(settings.log_start_offset, bases[0]),
            after_clean_shutdown=settings.had_clean_shutdown,
        )
        self.contradictions += state.contradictions
        self.open_transactions = _open_transactions(state)

    def _rebuild(
        self,
        state: ProducerStitch,
        segments: Sequence[SegmentState],
        end_offset: int,
        log_start_offset: int,
        *,
        after_clean_shutdown: bool = False,
    ) -> None:
        """Bring the state to an offset, from the newest snapshot and the batches after it.

        `log/producers/rebuild.py` does the same with the batches themselves.
        """
        snapshot_offsets = {*(segment.base_offset for segment in segments[-2:]), end_offset}
        if after_clean_shutdown and self.snapshots.latest is None:
            for offset in sorted(snapshot_offsets):
                state.map_end_offset = offset
                state.take_snapshot()
            return
        was_empty = not state.producers and state.map_end_offset >= end_offset
        state.reload(log_start_offset, end_offset)
        if end_offset > state.map_end_offset and not was_empty:
            first = floor_segment(segments, state.map_end_offset)
            for segment in segments[first:]:
                if segment.base_offset >= end_offset:
                    break
                start_offset = max(segment.base_offset, state.map_end_offset, log_start_offset)
                state.map_end_offset = start_offset
                if segment.base_offset in snapshot_offsets:
                    state.take_snapshot()
                scan = self._scans.behind(segment, start_offset)
                if scan is not None:
                    state.add(scan)
                    state.map_end_offset = start_offset
        state.map_end_offset = end_offset
        state.take_snapshot()

    def _new_state(self) -> ProducerStitch:
        return ProducerStitch(
            self.snapshots,
            now_ms=self._settings.now_ms,
            producer_id_expiration_ms=self._settings.producer_id_expiration_ms,
        )


def _open_transactions(state: ProducerStitch) -> dict[int, int]:
    return {
        entry.producer_id: entry.current_txn_first_offset
        for entry in state.producers.values()
        if entry.current_txn_first_offset is not None
    }


def floor_segment(segments: Sequence[SegmentState], offset: int) -> int:
    """The index of the segment that contains an offset; 0 if all begin after it."""
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)
