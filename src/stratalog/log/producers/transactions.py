"""Transactions of one partition in the order in which they began."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from stratalog.log.producers.entry import TxnMetadata


class Transactions:
    """Transactions sorted by first offset, which is not always the order in which they are added.

    `first` is the transaction with the lowest first offset, or None. It is stored, because nearly every
    append needs it.
    """

    __slots__ = ("_by_offset", "_offsets", "first")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._by_offset: dict[int, TxnMetadata] = {}
        self.first: TxnMetadata | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    def ascending(self) -> Iterable[TxnMetadata]:
        return (self._by_offset[offset] for offset in self._offsets)

    def put(self, transaction: TxnMetadata) -> None:
        offset = transaction.first_offset.offset
        if offset not in self._by_offset:
            insort(self._offsets, offset)
        self._by_offset[offset] = transaction
        self._note_first()

    def pop(self, offset: int) -> TxnMetadata | None:
        transaction = self._by_offset.pop(offset, None)
        if transaction is not None:
            del self._offsets[bisect_left(self._offsets, offset)]
            self._note_first()
        return transaction

    def drop_ended_before(self, offset: int) -> None:
        for transaction in [*self.ascending()]:
            if transaction.last_offset is not None and transaction.last_offset < offset:
                self.pop(transaction.first_offset.offset)

    def _note_first(self) -> None:
        self.first = self._by_offset[self._offsets[0]] if self._offsets else None
