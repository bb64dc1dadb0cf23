"""Combines the scans of single segments into producer state and aborted transactions.

A scan knows only its own segment: a transaction that ends in it may have begun before. Here scans are added
one after the other, starting from a snapshot. The result is the same as if every batch were replayed through
a ProducerStateManager, but the time depends only on the number of producers and transactions.

Snapshots are deleted, loaded and written exactly when a broker would do it, but in a `SnapshotSet` instead of
the directory. That order decides which snapshots exist in the end, and which producers have expired in each.
Kafka: ProducerStateManager, LogSegment.recover
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence

from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.snapshot import build_snapshot, parse_snapshot
from stratalog.segment.producers import ScannedProducer, TxnEventKind
from stratalog.segment.scan import SegmentScan
from stratalog.segment.txn_index import AbortedTxn

ReadSnapshot = Callable[[int], list[ProducerStateEntry] | None]
"""The producers in the snapshot file at an offset, or None if it is damaged."""


class SnapshotSet:
    """The snapshots of a partition as they would be: those found, without those deleted, plus those written.

    `written` has the bytes of those written.
    """

    def __init__(self, found: Iterable[int], read: ReadSnapshot) -> None:
        self.offsets = sorted(found)
        self.written: dict[int, bytes] = {}
        self._read = read

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    def load(self, offset: int) -> list[ProducerStateEntry] | None:
        """The producers in a snapshot; None if it is torn or damaged, and then it is deleted.

        The caller may change them: they are copies.
        """
        written = self.written.get(offset)
        entries = self._read(offset) if written is None else parse_snapshot(written)
        if entries is None:
            self.delete(offset)
            return None
        return [entry.copy() for entry in entries]

    def write(self, offset: int, entries: Iterable[ProducerStateEntry]) -> None:
        self.written[offset] = build_snapshot(entries)
        if self._place(offset) is None:
            insort(self.offsets, offset)

    def delete(self, offset: int) -> None:
        self.written.pop(offset, None)
        place = self._place(offset)
        if place is not None:
            del self.offsets[place]

    def keep_between(self, log_start_offset: int, end_offset: int) -> None:
        """Delete snapshots at or below the log's start, and those above an offset."""
        first, end = bisect_right(self.offsets, log_start_offset), bisect_right(self.offsets, end_offset)
        for offset in (*self.offsets[:first], *self.offsets[end:]):
            self.delete(offset)

    def remove_strays(self, bases: Sequence[int]) -> None:
        """Delete snapshots that belong to no segment, except the newest if it is above all bases.

        Kafka: ProducerStateManager.removeStraySnapshots
        """
        known = set(bases)
        strays = [offset for offset in self.offsets if offset not in known]
        if strays and (not bases or strays[-1] > max(bases)):
            strays.pop()
        for offset in strays:
            self.delete(offset)

    def _place(self, offset: int) -> int | None:
        place = bisect_left(self.offsets, offset)
        return place if place < len(self.offsets) and self.offsets[place] == offset else None


class ProducerStitch:
    """The state of all producers at `map_end_offset`, which grows scan by scan.

    `contradictions` are the offsets of batches outside of their producer's open transaction. A broker refuses
    to start because of them.
    """

    def __init__(self, snapshots: SnapshotSet, *, now_ms: int, producer_id_expiration_ms: int) -> None:
        self.producers: dict[int, ProducerStateEntry] = {}
        self.map_end_offset = 0
        self.contradictions: list[int] = []
        self._snapshots = snapshots
        self._last_snapshot_offset = 0
        self._now_ms = now_ms
        self._expiration_ms = producer_id_expiration_ms

    def reload(self, log_start_offset: int, end_offset: int) -> None:
        """Go back to the newest snapshot in (log_start_offset, end_offset]. Kafka: truncateAndReload"""
        snapshots = self._snapshots
        snapshots.keep_between(log_start_offset, end_offset)
        if end_offset == self.map_end_offset:
            self.map_end_offset = max(self.map_end_offset, log_start_offset)
            self._last_snapshot_offset = log_start_offset if snapshots.latest is None else snapshots.latest
            return
        self.producers.clear()
        while (offset := snapshots.latest) is not None:
            entries = snapshots.load(offset)
            if entries is None:
                continue
            self.producers = {entry.producer_id: entry for entry in entries if not self._is_expired(entry)}
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    def start_at(self, offset: int) -> None:
        """Forget everything, snapshots included. Kafka: truncateFullyAndStartAt"""
        self.producers.clear()
        for snapshot in [*self._snapshots.offsets]:
            self._snapshots.delete(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset

    def take_snapshot(self) -> None:
        """Write a snapshot of the state at `map_end_offset`, unless the newest snapshot is as new."""
        if self.map_end_offset > self._last_snapshot_offset:
            self._snapshots.write(self.map_end_offset, self.producers.values())
            self._last_snapshot_offset = self.map_end_offset

    def add(self, scan: SegmentScan) -> list[AbortedTxn]:
        """Add a scan to the state; returns the entries of its transaction index."""
        open_since = {
            entry.producer_id: entry.current_txn_first_offset
            for entry in self.producers.values()
            if entry.current_txn_first_offset is not None
        }
        aborted = self._follow_transactions(scan, open_since)
        for found in scan.producers:
            self._merge(found, open_since.get(found.producer_id))
        for producer_id in scan.emptied_markers:
            # A marker that compaction has emptied only shows that the producer exists.
            self.producers.setdefault(producer_id, ProducerStateEntry(producer_id))
        if scan.batches_count:
            self.map_end_offset = scan.next_offset
        return aborted

    def _follow_transactions(self, scan: SegmentScan, open_since: dict[int, int]) -> list[AbortedTxn]:
        """Update `open_since`, the first offset of each open transaction, to the end of the scan."""
        aborted = []
        for kind, producer_id, _, offset, _, _ in scan.transactions:
            if kind is TxnEventKind.STARTED:
                open_since.setdefault(producer_id, offset)
            elif kind is TxnEventKind.PLAIN:
                if producer_id in open_since:
                    self.contradictions.append(offset)
            else:
                first_offset = open_since.pop(producer_id, None)
                if first_offset is not None and kind is TxnEventKind.ABORTED:
                    stable = min(open_since.values(), default=offset + 1)
                    aborted.append(AbortedTxn(producer_id, first_offset, offset, stable))
        return aborted

    def _merge(self, found: ScannedProducer, open_since: int | None) -> None:
        entry = self.producers.get(found.producer_id)
        if entry is None:
            entry = self.producers[found.producer_id] = ProducerStateEntry(found.producer_id)
        if found.epoch_changed or entry.producer_epoch != found.first_epoch:
            entry.batches.clear()
        entry.producer_epoch = found.producer_epoch
        for batch in found.batches:
            entry.add_batch(found.producer_epoch, batch)
        entry.last_timestamp = found.last_timestamp
        if found.ended_txn:
            entry.coordinator_epoch = found.coordinator_epoch
        entry.current_txn_first_offset = open_since

    def _is_expired(self, entry: ProducerStateEntry) -> bool:
        is_silent = self._now_ms - entry.last_timestamp >= self._expiration_ms
        return is_silent and entry.current_txn_first_offset is None
