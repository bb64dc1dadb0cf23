"""Open transactions that their coordinator knows, from segments of `__transaction_state`.

A transaction that has been open for long is hanging only if no coordinator will ever end it. Kafka:
TransactionsCommand.FindHangingTransactionsCommand
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stratalog.errors import CorruptRecordError
from stratalog.operations.audit.deep import runs
from stratalog.records.columns import ColumnReader
from stratalog.records.internal import decode_internal
from stratalog.records.internal_topics import TRANSACTION_STATE
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable

# Ongoing, PrepareCommit, PrepareAbort, PrepareEpochFence. Kafka: TransactionState
_OPEN = frozenset({1, 2, 3, 7})


class CoordinatedTxn(NamedTuple):
    """The last state of a transactional id in a segment; producer -1 if the id was deleted."""

    transactional_id: str
    producer_id: int
    is_open: bool


class TransactionStates:
    """Collects the last state of each transactional id."""

    def __init__(self) -> None:
        self._last: dict[str, CoordinatedTxn] = {}

    def add(self, data: Bytes, rows: BatchTable) -> None:
        """Add the next batches, whose checksums are correct."""
        reader = ColumnReader(columns=["key", "value"], check_crc=False)
        for start, end in runs(rows):
            try:
                for batch in reader.read(data, start=start, end=end):
                    for row in batch.to_pylist():
                        self._add_record(row["key"], row["value"])
            except CorruptRecordError:  # a finding of the deep audit
                continue

    def _add_record(self, key: bytes | None, value: bytes | None) -> None:
        try:
            record = decode_internal(TRANSACTION_STATE, key, value)
        except CorruptRecordError:
            return
        if record.key is None:
            return
        name = str(record.key["transactionalId"])
        found = record.value or {}
        producer_id, status = found.get("producerId", -1), found.get("transactionStatus", 0)
        assert isinstance(producer_id, int)
        self._last[name] = CoordinatedTxn(name, producer_id, status in _OPEN)

    def result(self) -> tuple[CoordinatedTxn, ...]:
        return tuple(self._last.values())


def open_transactions(states: Iterable[CoordinatedTxn]) -> frozenset[int]:
    """The producers whose transaction is open, by the last state of their transactional id."""
    last = {state.transactional_id: state for state in states}
    return frozenset(state.producer_id for state in last.values() if state.is_open)
