"""Transactions at a gap: which were open there, and what is left out because of that.

At a gap it is unknown what of a transaction that was open there is lost. Were it the marker of an abort,
the producer's next commit would commit what was aborted. So such a transaction is left out as a whole: its
batches in this segment, before and behind the gap, up to its producer's next marker. The marker itself
stays; it then ends nothing. But where the transaction began in an earlier segment, which is not rewritten, a
commit would still reach that part: then the marker is left out too, and the next one decides. An abort always
stays: whatever it ends was not to be seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stratalog.log.recovery.ranges import Range
from stratalog.records.kernels.scan import TRANSACTIONAL
from stratalog.records.kernels.walk import CONTROL
from stratalog.segment.headers import ReadInto, walk_file


@dataclass(slots=True)
class OpenTransaction:
    """A transaction without its marker, and its batches in this segment."""

    began_before: bool = False
    is_doubtful: bool = False
    pieces: list[Range] = field(default_factory=list)


class GapTransactions:
    """Which transactions are open at a gap, and what is left out because of that."""

    def __init__(self, open_at_start: dict[int, OpenTransaction]) -> None:
        self._open = open_at_start
        self._left_out: list[Range] = []

    def see_gap(self) -> None:
        for txn in self._open.values():
            txn.is_doubtful = True

    def add_batch(self, producer_id: int, piece: Range) -> None:
        self._open.setdefault(producer_id, OpenTransaction()).pieces.append(piece)

    def end(self, producer_id: int, marker: Range, *, commits: bool) -> None:
        txn = self._open.pop(producer_id, None)
        if txn is None or not txn.is_doubtful:
            return
        self._left_out += txn.pieces
        if commits and txn.began_before:
            self._left_out.append(marker)
            self._open[producer_id] = OpenTransaction(began_before=True, is_doubtful=True)

    def left_out(self) -> list[Range]:
        """In the order of the file, with the batches of those that no marker has ended."""
        unended = [piece for txn in self._open.values() if txn.is_doubtful for piece in txn.pieces]
        return sorted(self._left_out + unended)

    def still_open(self) -> tuple[int, ...]:
        return tuple(sorted(producer_id for producer_id, txn in self._open.items() if txn.is_doubtful))


def open_at(read_into: ReadInto, start: int, first_offsets: Mapping[int, int]) -> dict[int, OpenTransaction]:
    """The transactions that are open at `start`, with their batches before it."""
    found = {producer_id: OpenTransaction(began_before=True) for producer_id in first_offsets}
    if not found:
        return found
    producers = np.array(sorted(found), np.int64)
    for part in walk_file(read_into, 0, start, check_crc=False):
        headers = part.walk.headers
        for row in headers[np.isin(headers["producer_id"], producers)]:
            txn, offset = found[int(row["producer_id"])], int(row["base_offset"])
            first_offset = first_offsets[int(row["producer_id"])]
            if (
                offset >= first_offset
                and row["attributes"] & TRANSACTIONAL
                and not row["attributes"] & CONTROL
            ):
                txn.began_before &= offset != first_offset
                txn.pieces.append((part.position + int(row["position"]), int(row["size"])))
    return found
