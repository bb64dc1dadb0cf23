"""Tracks the transactions of a scan: whose records were aborted, and whose markers are still needed.

A marker stays as long as a batch of its transaction stays. Without its commit marker, a reader would treat
the transaction as open. Without its abort marker, the next commit marker of the producer would commit it. The
entry of an aborted transaction goes into the cleaned segment's transaction index together with its marker.
Kafka: CleanedTransactionMetadata
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.log.segments import SegmentReaders
from stratalog.records.control import ControlType, parse_control_key
from stratalog.records.kernels.clean import TRANSACTIONAL
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import CONTROL, BatchTable
from stratalog.segment.txn_index import AbortedTxn


class OpenData(NamedTuple):
    """The producers that have records but no marker yet: in transactions that are not aborted, and in aborted
    ones."""

    committed: frozenset[int] = frozenset()
    aborted: frozenset[int] = frozenset()


NO_DATA = OpenData()


class SegmentData(NamedTuple):
    """How one segment changes `OpenData`: the data that it leaves open, and the producers of its markers."""

    left: OpenData
    commits: frozenset[int]
    aborts: frozenset[int]

    def after(self, before: OpenData) -> OpenData:
        """The data that is open after this segment, if `before` is open before it."""
        return OpenData(
            self.left.committed | (before.committed - self.commits),
            self.left.aborted | (before.aborted - self.aborts),
        )


class CleanedTransactions:
    """The state of one scan, from its first segment on. `keep_aborted` is called with transactions to index
    again.

    A scan that begins later in the log is given the data that is open `before` it. The aborted transactions
    that reach its first segment are added for that segment anyway.
    """

    __slots__ = ("_aborted", "_aborts", "_commits", "_committed", "_is_seen", "_ongoing", "keep_aborted")

    def __init__(self, before: OpenData = NO_DATA) -> None:
        self._aborted: list[tuple[int, AbortedTxn]] = []  # a heap, by first offset
        self._ongoing: dict[int, AbortedTxn] = {}
        self._is_seen = {*before.aborted}  # ongoing aborted transactions that have a batch
        self._committed = {*before.committed}
        self._commits: set[int] = set()
        self._aborts: set[int] = set()
        self.keep_aborted: Callable[[AbortedTxn], object] | None = None

    @property
    def data(self) -> SegmentData:
        """The data that is open so far, for a scan that continues elsewhere."""
        left = OpenData(frozenset(self._committed), frozenset(self._is_seen))
        return SegmentData(left, frozenset(self._commits), frozenset(self._aborts))

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions that come later; one may be added again for each segment it reaches."""
        for transaction in transactions:
            heapq.heappush(self._aborted, (transaction.first_offset, transaction))

    def read_batches(
        self, data: Bytes, batches: BatchTable, rows: RecordTable, can_discard: NDArray[np.bool_]
    ) -> None:
        """Process a run; `can_discard` becomes true for aborted data and for markers that are no longer
        needed.

        Only batches of transactions are looked at one by one: all others cost nothing here.
        """
        attributes = batches["attributes"]
        found = np.flatnonzero((attributes & (TRANSACTIONAL | CONTROL) != 0) & (batches["magic"] == 2))
        if not len(found):
            return
        first_rows = np.searchsorted(rows["batch"], found).tolist()
        columns = (attributes[found], batches["last_offset"][found], batches["producer_id"][found])
        facts = zip(found.tolist(), first_rows, *(column.tolist() for column in columns), strict=True)
        for index, row, bits, last_offset, producer_id in facts:
            self._begin_up_to(last_offset)
            if bits & CONTROL:
                has_record = row < len(rows) and rows["batch"][row] == index
                kind = _control_type(data, rows[row]) if has_record else None
                can_discard[index] = self._on_marker(kind, producer_id)
            else:
                can_discard[index] = self._on_data(producer_id)

    def _begin_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            transaction = heapq.heappop(self._aborted)[1]
            self._ongoing.setdefault(transaction.producer_id, transaction)

    def _on_data(self, producer_id: int) -> bool:
        if producer_id in self._ongoing:
            self._is_seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def _on_marker(self, kind: ControlType | int | None, producer_id: int) -> bool:
        if kind is None:
            return True  # compaction emptied this batch, and keeps it only for its producer's epoch
        if kind == ControlType.ABORT:
            self._aborts.add(producer_id)
            transaction = self._ongoing.pop(producer_id, None)
            if transaction is None or producer_id not in self._is_seen:
                return True
            self._is_seen.discard(producer_id)
            if self.keep_aborted is not None:
                self.keep_aborted(transaction)
            return False
        if kind == ControlType.COMMIT:
            self._commits.add(producer_id)
            if producer_id in self._committed:
                self._committed.discard(producer_id)
                return False
            return True
        return False


def _control_type(data: Bytes, row: np.void) -> ControlType | int:
    start, size = int(row["key_position"]), int(row["key_size"])
    _, kind = parse_control_key(None if size < 0 else data[start : start + size].tobytes())
    return kind


def aborted_between(segments: SegmentReaders, start_offset: int, end_offset: int) -> list[AbortedTxn]:
    """The aborted transactions that touch [start_offset, end_offset). Kafka: collectAbortedTransactions"""
    found: list[AbortedTxn] = []
    if segments.floor(start_offset) is None:
        return found
    for segment in segments.from_floor(start_offset):
        entries, is_complete = segment.collect_aborted(start_offset, end_offset)
        found += entries
        if is_complete:
            break
    return found
