"""Transactions that were open at a gap, and which of their batches are left out.

Nobody knows what an open transaction has lost in a gap. If it has lost its abort marker, the producer's next
commit marker would commit the aborted records. So such a transaction is left out as a whole: all its batches
in this segment, before and after the gap, up to its producer's next marker. That marker stays, and ends
nothing.

If the transaction began in an earlier segment, its batches there stay, because that segment is not rewritten.
A commit marker would commit them. So a commit marker is left out too, and the transaction stays open up to
the producer's next marker, for which the same rule holds. An abort marker always stays: it keeps the earlier
batches hidden. All this also applies in the segments after the gap, damaged or not, until the transaction has
ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from stratalog.errors import CorruptRecordError
from stratalog.log.recovery.ranges import ByteRange
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.scan import TRANSACTIONAL
from stratalog.records.kernels.walk import CONTROL
from stratalog.records.reader import read_batches
from stratalog.segment.headers import ReadInto, walk_file


@dataclass(slots=True)
class OpenTransaction:
    """A transaction without a marker, and its batches in this segment.

    `began_before`: earlier segments have batches of it, which stay.
    """

    began_before: bool = False
    is_doubtful: bool = False
    pieces: list[ByteRange] = field(default_factory=list)


class GapTransactions:
    """Tracks the transactions that are open at a gap, and collects the batches to leave out."""

    def __init__(self, open_before: Mapping[int, OpenTransaction]) -> None:
        self._open = dict(open_before)
        self._left_out: list[ByteRange] = []

    def see_gap(self) -> None:
        for txn in self._open.values():
            txn.is_doubtful = True

    def take(self, batch: np.record, data: Bytes, position: int) -> None:
        """Process a batch of a producer; `data` holds the file from `position` on.

        CorruptRecordError if it is a control batch but not a marker.
        """
        producer_id = int(batch["producer_id"])
        piece = position + int(batch["position"]), int(batch["size"])
        if batch["attributes"] & CONTROL:
            marker = marker_in(data, batch)
            if marker is not None:
                self._end(producer_id, piece, commits=marker is ControlType.COMMIT)
        elif batch["attributes"] & TRANSACTIONAL:
            self._open.setdefault(producer_id, OpenTransaction()).pieces.append(piece)

    def _end(self, producer_id: int, marker: ByteRange, *, commits: bool) -> None:
        txn = self._open.pop(producer_id, None)
        if txn is None or not txn.is_doubtful:
            return
        self._left_out += txn.pieces
        if commits and txn.began_before:
            self._left_out.append(marker)
            self._open[producer_id] = OpenTransaction(began_before=True, is_doubtful=True)

    def left_out(self) -> list[ByteRange]:
        """The ranges to leave out, in the order of the file; transactions without a marker are included."""
        unended = [piece for txn in self._open.values() if txn.is_doubtful for piece in txn.pieces]
        return sorted(self._left_out + unended)

    def in_doubt(self) -> dict[int, bool]:
        """The producers whose transaction is in doubt, and whether a part of it stays in earlier segments."""
        return {producer: txn.began_before for producer, txn in self._open.items() if txn.is_doubtful}


def follow_good(
    read_into: ReadInto, end: int, transactions: GapTransactions, producers: Collection[int]
) -> None:
    """Process the batches of these producers before `end`. All batches before `end` are intact."""
    if not producers:
        return
    ids = np.array(sorted(producers), np.int64)
    for part in walk_file(read_into, 0, end, check_crc=False):
        headers = part.walk.headers
        for batch in headers[np.isin(headers["producer_id"], ids)]:
            with suppress(CorruptRecordError):  # not a marker
                transactions.take(batch, part.data, part.position)


def marker_in(data: Bytes, batch: np.record) -> ControlType | None:
    """The marker in a control batch of a producer; None if compaction has emptied it.

    CorruptRecordError if it is not a transaction marker.
    """
    start = int(batch["position"])
    one = next(read_batches(data, start=start, end=start + int(batch["size"]), check_crc=False))
    record = next(iter(one), None)
    return None if record is None else EndTxnMarker.parse(record.key, record.value).control_type
