"""Errors of appends that a log refuses."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.errors.root import StratalogError


class RecordError(NamedTuple):
    """What is wrong with one record of a batch; `batch_index` counts from 0 within the batch."""

    batch_index: int
    reason: str


class AppendRefusedError(StratalogError):
    """A log refuses this append: nothing of it was written."""


class InvalidProducerEpochError(AppendRefusedError):
    """A newer instance of the producer has fenced this one. Kafka: InvalidProducerEpochException."""

    def __init__(
        self, reason: str, *, producer_id: int = -1, producer_epoch: int = -1, current_epoch: int = -1
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.current_epoch = current_epoch
        super().__init__(reason)


class InvalidTimestampError(AppendRefusedError, ValueError):
    """Timestamps that the topic does not accept. Kafka: InvalidTimestampException."""

    def __init__(self, reason: str, *, record_errors: tuple[RecordError, ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(reason)


class InvalidTxnStateError(AppendRefusedError):
    """A write that does not fit the state of the producer's transaction. Kafka: InvalidTxnStateException."""

    def __init__(self, reason: str, *, producer_id: int = -1) -> None:
        self.producer_id = producer_id
        super().__init__(reason)


class OffsetsOutOfOrderError(AppendRefusedError):
    """The offsets of a replicated set of batches do not ascend.

    Kafka: OffsetsOutOfOrderException.
    """


class OutOfOrderSequenceError(AppendRefusedError):
    """A batch of this producer is missing before this one. Kafka: OutOfOrderSequenceException."""

    def __init__(self, reason: str, *, producer_id: int = -1, sequence: int = -1) -> None:
        self.producer_id = producer_id
        self.sequence = sequence
        super().__init__(reason)


class RecordBatchTooLargeError(AppendRefusedError, ValueError):
    """A set of batches is larger than a whole segment may be. Kafka: RecordBatchTooLargeException."""

    def __init__(self, reason: str, *, size: int = -1, limit: int = -1) -> None:
        self.size = size
        self.limit = limit
        super().__init__(reason)


class TransactionCoordinatorFencedError(AppendRefusedError):
    """The coordinator that wrote this transaction marker has been replaced by another one."""

    def __init__(
        self, reason: str, *, producer_id: int = -1, coordinator_epoch: int = -1, current_epoch: int = -1
    ) -> None:
        self.producer_id = producer_id
        self.coordinator_epoch = coordinator_epoch
        self.current_epoch = current_epoch
        super().__init__(reason)


class UnexpectedAppendOffsetError(AppendRefusedError):
    """A replicated set of batches starts before the log's end.

    Also raised for a set that would get the largest offset, 2^63 - 1: a log ends one above its last offset.
    """

    def __init__(self, reason: str, *, first_offset: int = -1, last_offset: int = -1) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        super().__init__(reason)


class InvalidBatchError(StratalogError, ValueError):
    """The caller asks to write an invalid batch; the message names the field and its bounds."""
