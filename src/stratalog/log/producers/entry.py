"""What a log remembers about one producer: its epoch, its last batches, its open transaction.

Kafka: ProducerStateEntry, BatchMetadata, TxnMetadata, CompletedTxn
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stratalog.limits import INT32_MAX
from stratalog.log.offsets import OffsetMetadata
from stratalog.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from stratalog.segment.producers import BatchMetadata

# An idempotent producer has at most five requests in flight (max.in.flight.requests.per.connection), so a
# batch older than these cannot be sent again.
BATCHES_TO_RETAIN = 5
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1


def last_sequence_of(base_sequence: int, last_offset_delta: int) -> int:
    """The sequence of a batch's last record; numbers wrap from 2^31 - 1 to 0, and -1 means none."""
    return NO_SEQUENCE if base_sequence == NO_SEQUENCE else (base_sequence + last_offset_delta) & INT32_MAX


class CompletedTxn(NamedTuple):
    """A transaction that a marker has ended; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class TxnMetadata(NamedTuple):
    """A transaction in a log, with the place of its first batch; `last_offset` is its marker's, or None."""

    producer_id: int
    first_offset: OffsetMetadata
    last_offset: int | None = None


class ProducerStateEntry:
    """The state of one producer id. Only appends of that producer change it.

    `batches` has the last five, oldest first, all of the current epoch.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = list(batches)

    def copy(self) -> ProducerStateEntry:
        return ProducerStateEntry(
            self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            last_timestamp=self.last_timestamp,
            current_txn_first_offset=self.current_txn_first_offset,
            batches=self.batches,
        )

    @property
    def is_empty(self) -> bool:
        """Whether no batch is known, as after a marker of another epoch."""
        return not self.batches

    @property
    def first_sequence(self) -> int:
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def first_data_offset(self) -> int:
        return self.batches[0].first_offset if self.batches else NO_OFFSET

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(
        self, producer_epoch: int, base_sequence: int, last_sequence: int
    ) -> BatchMetadata | None:
        """The batch with exactly these sequences, if it is one of those remembered."""
        if producer_epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == base_sequence:
                return batch
        return None

    def without_batches(self) -> ProducerStateEntry:
        """A copy to stage updates in, which starts without batches."""
        staged = self.copy()
        staged.batches.clear()
        return staged

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        self._take_epoch(producer_epoch)
        self._retain(batch)
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Apply a marker: no transaction is open after it."""
        self._take_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = timestamp
        self.current_txn_first_offset = None

    def update(self, staged: ProducerStateEntry) -> None:
        """Apply what was staged in a copy of this entry."""
        self._take_epoch(staged.producer_epoch)
        for batch in staged.batches:
            self._retain(batch)
        self.coordinator_epoch = staged.coordinator_epoch
        self.last_timestamp = staged.last_timestamp
        self.current_txn_first_offset = staged.current_txn_first_offset

    def _take_epoch(self, producer_epoch: int) -> None:
        # Sequences start again with each epoch, so the batches of the previous one are useless.
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def _retain(self, batch: BatchMetadata) -> None:
        if len(self.batches) == BATCHES_TO_RETAIN:
            del self.batches[0]
        self.batches.append(batch)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ProducerStateEntry):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in sorted(self.__slots__))
        return f"ProducerStateEntry({fields})"
