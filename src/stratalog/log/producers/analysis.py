"""Checks a set of batches against the producer state before it is written: what it changes, or repeats.

Kafka: UnifiedLog.analyzeAndValidateProducerState, updateProducers
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from stratalog.errors import InvalidProducerEpochError, InvalidTxnStateError
from stratalog.log.offsets import UNKNOWN, OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.append_info import TV_UNKNOWN, ProducerAppendInfo
from stratalog.log.producers.entry import (
    BATCHES_TO_RETAIN,
    CompletedTxn,
    last_sequence_of,
)
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.markers import read_marker
from stratalog.log.producers.verification import NO_GUARD, VerificationGuard
from stratalog.records.batch import NO_PRODUCER_ID, Attributes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.reader import BatchRow
from stratalog.segment.producers import BatchMetadata

_TRANSACTIONAL, _CONTROL = int(Attributes.TRANSACTIONAL), int(Attributes.CONTROL)


class ProducerChanges(NamedTuple):
    """What a set of batches changes, to be applied when it is in the log; or the batch it repeats."""

    updated: dict[int, ProducerAppendInfo]
    completed: list[CompletedTxn]
    duplicate: BatchMetadata | None = None


NO_CHANGES = ProducerChanges({}, [])  # of a set in which no batch has a producer id


def analyze_producers(
    state: ProducerStateManager,
    data: Any,  # any object with the buffer protocol
    batches: BatchTable,
    *,
    origin: AppendOrigin,
    start: OffsetMetadata | None = None,
    transaction_version: int = TV_UNKNOWN,
    guard: VerificationGuard = NO_GUARD,
) -> ProducerChanges:
    """Check these batches, whose offsets are final, against the state; changes nothing yet.

    `start` is the place of the first batch, which is the log's end. With it, the place of the last stable
    offset is known without a search. If the result has a `duplicate`, the set was written before, and is not
    written again.
    """
    changes = ProducerChanges({}, [])
    if _no_producers(batches):
        return changes
    first_position = int(batches["position"][0])
    for index in _that_matter(batches, origin):
        batch = BatchRow._make(batches[index].item())
        if batch.producer_id <= NO_PRODUCER_ID:
            continue
        if origin is AppendOrigin.CLIENT:
            duplicate = _find_duplicate(state, batch)
            if duplicate is not None:
                return changes._replace(duplicate=duplicate)
        is_transactional = batch.attributes & _TRANSACTIONAL != 0
        if is_transactional and origin.assigns_offsets:
            _check_transaction(state, batch, guard)
        info = changes.updated.get(batch.producer_id)
        if info is None:
            info = changes.updated[batch.producer_id] = state.prepare_update(batch.producer_id, origin)
        if batch.attributes & _CONTROL:
            completed = _stage_marker(info, data, batches[index : index + 1], batch, transaction_version)
            if completed is not None:
                changes.completed.append(completed)
        else:
            position = UNKNOWN if start is None else start.position + batch.position - first_position
            _stage_data(info, batch, UNKNOWN if start is None else start.segment_base, position)
    return changes


def apply_changes(state: ProducerStateManager, changes: ProducerChanges) -> None:
    """Apply the changes of a set that is in the log now.

    `complete_txn` handles the completed transactions, after they are in the transaction index.
    """
    for info in changes.updated.values():
        state.update(info)


def replay_batches(state: ProducerStateManager, data: Any, batches: BatchTable) -> None:
    """Apply batches of the log itself, with a follower's few checks, to rebuild the state.

    Kafka: UnifiedLog.loadProducersFromRecords
    """
    changes = analyze_producers(state, data, batches, origin=AppendOrigin.REPLICATION)
    apply_changes(state, changes)
    for completed in changes.completed:
        state.complete_txn(completed)


def _that_matter(batches: BatchTable, origin: AppendOrigin) -> Iterable[int]:
    """The rows to check. Replicated batches are often all of one producer: then only the last ones matter.

    The first one is checked too, because a transaction may begin with it.
    """
    count = len(batches)
    if origin is not AppendOrigin.REPLICATION or count <= BATCHES_TO_RETAIN + 1:
        return range(count)
    kinds = batches["attributes"] & (_TRANSACTIONAL | _CONTROL)
    is_uniform = not kinds[0] & _CONTROL and all(
        (column == column[0]).all() for column in (batches["producer_id"], batches["producer_epoch"], kinds)
    )
    return (0, *range(count - BATCHES_TO_RETAIN, count)) if is_uniform else range(count)


def _find_duplicate(state: ProducerStateManager, batch: BatchRow) -> BatchMetadata | None:
    entry = state.last_entry(batch.producer_id)
    if entry is None:
        return None
    last_sequence = last_sequence_of(batch.base_sequence, batch.last_offset - batch.base_offset)
    return entry.find_duplicate(batch.producer_epoch, batch.base_sequence, last_sequence)


def _check_transaction(state: ProducerStateManager, batch: BatchRow, guard: VerificationGuard) -> None:
    """If the batch may begin a transaction: check the producer's epoch and the verification."""
    if state.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
        return
    entry = state.last_entry(batch.producer_id)
    if entry is not None and batch.producer_epoch < entry.producer_epoch:
        raise InvalidProducerEpochError(
            f"producer {batch.producer_id} comes with epoch {batch.producer_epoch}, "
            f"but epoch {entry.producer_epoch} was seen already.",
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            current_epoch=entry.producer_epoch,
        )
    if not state.verify_transactions or batch.attributes & _CONTROL:
        return
    verification = state.verification(batch.producer_id)
    if verification is None or not verification.guard.verifies(guard):
        raise InvalidTxnStateError(
            f"producer {batch.producer_id} has no verified transaction on this partition.",
            producer_id=batch.producer_id,
        )


def _stage_marker(
    info: ProducerAppendInfo, data: Any, rows: BatchTable, batch: BatchRow, transaction_version: int
) -> CompletedTxn | None:
    found = read_marker(data, rows)
    if found is None:
        return None
    marker, timestamp = found
    return info.append_marker(
        marker,
        producer_epoch=batch.producer_epoch,
        offset=batch.base_offset,
        timestamp=timestamp,
        transaction_version=transaction_version,
    )


def _stage_data(info: ProducerAppendInfo, batch: BatchRow, segment_base: int, position: int) -> None:
    info.append_data(
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        last_sequence=last_sequence_of(batch.base_sequence, batch.last_offset - batch.base_offset),
        max_timestamp=batch.max_timestamp,
        first_offset=OffsetMetadata(batch.base_offset, segment_base, position),
        last_offset=batch.last_offset,
        is_transactional=batch.attributes & _TRANSACTIONAL != 0,
    )


def _no_producers(batches: BatchTable) -> bool:
    """Whether none of these batches has a producer id; quick, because most replicated batches have none."""
    if len(batches) == 1:
        return int(batches["producer_id"][0]) <= NO_PRODUCER_ID
    return not len(batches) or int(batches["producer_id"].max()) <= NO_PRODUCER_ID
