"""What the batches of one append change for one producer, checked batch by batch before anything is written.

The changes are staged in a copy of the producer's entry: an append that is refused, or fails on the disk,
leaves the state as it was. Kafka: ProducerAppendInfo
"""

from __future__ import annotations

import logging

from stratalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from stratalog.limits import INT16_MAX, INT32_MAX
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.entry import CompletedTxn, ProducerStateEntry, TxnMetadata
from stratalog.log.producers.verification import VerificationEntry
from stratalog.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE
from stratalog.records.control import ControlType, EndTxnMarker
from stratalog.segment.producers import BatchMetadata

logger = logging.getLogger(__name__)

TV_UNKNOWN = -1  # transaction version of a marker that was read from a log, which does not store it
TV_2 = 2  # the producer's epoch is raised with each transaction, and the marker carries the new one


class ProducerAppendInfo:
    """The staged state of one producer: `updated`, and the transactions that it `started`.

    `is_transactional` is set by the first transactional batch or marker.
    """

    __slots__ = (
        "_current",
        "_origin",
        "_verification",
        "is_transactional",
        "producer_id",
        "started",
        "updated",
    )

    def __init__(
        self,
        current: ProducerStateEntry,
        origin: AppendOrigin,
        verification: VerificationEntry | None = None,
    ) -> None:
        self.producer_id = current.producer_id
        self.updated = current.without_batches()
        self.started: list[TxnMetadata] = []
        self.is_transactional = False
        self._current = current
        self._origin = origin
        self._verification = verification

    def append_data(
        self,
        *,
        producer_epoch: int,
        base_sequence: int,
        last_sequence: int,
        max_timestamp: int,
        first_offset: OffsetMetadata,
        last_offset: int,
        is_transactional: bool,
    ) -> None:
        """Stage a batch of records."""
        updated = self.updated
        if producer_epoch < updated.producer_epoch:
            self._stale_epoch(producer_epoch, first_offset.offset)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(producer_epoch, base_sequence, first_offset.offset)
        delta = last_offset - first_offset.offset
        updated.add_batch(producer_epoch, BatchMetadata(last_sequence, last_offset, delta, max_timestamp))
        self.is_transactional |= is_transactional
        if updated.current_txn_first_offset is None:
            if is_transactional:
                updated.current_txn_first_offset = first_offset.offset
                self.started.append(TxnMetadata(self.producer_id, first_offset))
        elif not is_transactional:
            raise InvalidTxnStateError(
                f"producer {self.producer_id} has a transaction open since offset "
                f"{updated.current_txn_first_offset}, and writes outside it at offset {first_offset.offset}.",
                producer_id=self.producer_id,
            )

    def append_marker(
        self,
        marker: EndTxnMarker,
        *,
        producer_epoch: int,
        offset: int,
        timestamp: int,
        transaction_version: int = TV_UNKNOWN,
    ) -> CompletedTxn | None:
        """Stage the end of a transaction; returns the completed transaction, or None if none was open.

        Only a replicated marker may have an unknown transaction version: its leader has checked it.
        """
        if transaction_version == TV_UNKNOWN and self._origin is not AppendOrigin.REPLICATION:
            raise UsageError(
                f"a transaction marker of origin {self._origin.value} needs its transaction version: "
                "0 or 1 if it carries the epoch of the records, 2 if that epoch was raised."
            )
        self._check_marker_epoch(producer_epoch, offset, transaction_version)
        self.is_transactional = True
        updated = self.updated
        if marker.coordinator_epoch < updated.coordinator_epoch:
            self._stale_coordinator(marker, offset)
        first_offset = updated.current_txn_first_offset
        updated.end_transaction(producer_epoch, marker.coordinator_epoch, timestamp)
        if first_offset is None:
            return None
        return CompletedTxn(
            self.producer_id, first_offset, offset, is_aborted=marker.control_type is ControlType.ABORT
        )

    def _check_marker_epoch(self, producer_epoch: int, offset: int, transaction_version: int) -> None:
        current = self.updated.producer_epoch
        if transaction_version < TV_2:
            if producer_epoch < current:
                self._stale_epoch(producer_epoch, offset)
            return
        if producer_epoch > current:
            return
        # The coordinator sends the same marker again, because the response was lost or the coordinator has
        # restarted: the transaction has already ended, and the log accepts the marker a second time. If the
        # epoch is already the highest possible, it cannot be raised: the first marker also has it unchanged.
        ended = self.updated.current_txn_first_offset is None or producer_epoch == INT16_MAX
        if not (producer_epoch == current and ended):
            self._stale_epoch(producer_epoch, offset)

    def _check_sequence(self, producer_epoch: int, sequence: int, offset: int) -> None:
        verification = self._verification
        if verification is not None:
            if verification.supports_epoch_bump and sequence != 0 and self._current.is_empty:
                raise self._out_of_order(
                    sequence, offset, "this producer is unknown here, so it has to start at 0"
                )
            if sequence > verification.lowest_sequence:
                expected = f"sequence {verification.lowest_sequence} has to be written first"
                raise self._out_of_order(sequence, offset, expected)
        updated = self.updated
        if producer_epoch != updated.producer_epoch:
            # A new epoch starts at sequence 0. But a producer of which nothing is known (its records may have
            # been deleted) may continue anywhere.
            if sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                expected = f"epoch {producer_epoch} follows {updated.producer_epoch}, so it has to start at 0"
                raise self._out_of_order(sequence, offset, expected)
            return
        last = NO_SEQUENCE
        if updated.batches:
            last = updated.batches[-1].last_sequence
        elif producer_epoch == self._current.producer_epoch:
            last = self._current.last_sequence
        follows = sequence == last + 1 or (last == INT32_MAX and sequence == 0)
        if not follows and self._current.producer_epoch != NO_PRODUCER_EPOCH:
            raise self._out_of_order(sequence, offset, f"its last one is {last}")

    def _stale_epoch(self, producer_epoch: int, offset: int) -> None:
        reason = (
            f"producer {self.producer_id} comes with epoch {producer_epoch} at offset {offset}, "
            f"but epoch {self.updated.producer_epoch} was seen already."
        )
        if self._origin is AppendOrigin.REPLICATION:
            logger.warning("%s The leader accepted it, so this replica accepts it too.", reason)
            return
        raise InvalidProducerEpochError(
            reason,
            producer_id=self.producer_id,
            producer_epoch=producer_epoch,
            current_epoch=self.updated.producer_epoch,
        )

    def _stale_coordinator(self, marker: EndTxnMarker, offset: int) -> None:
        current = self.updated.coordinator_epoch
        reason = (
            f"a marker for producer {self.producer_id} at offset {offset} comes from coordinator epoch "
            f"{marker.coordinator_epoch}, but epoch {current} was seen already."
        )
        if self._origin is AppendOrigin.REPLICATION:
            logger.info("%s The leader accepted it, so this replica accepts it too.", reason)
            return
        raise TransactionCoordinatorFencedError(
            reason,
            producer_id=self.producer_id,
            coordinator_epoch=marker.coordinator_epoch,
            current_epoch=current,
        )

    def _out_of_order(self, sequence: int, offset: int, expected: str) -> OutOfOrderSequenceError:
        return OutOfOrderSequenceError(
            f"producer {self.producer_id} comes with sequence {sequence} at offset {offset}: {expected}.",
            producer_id=self.producer_id,
            sequence=sequence,
        )
