"""Gathers producers, transactions and leader epochs of a run of batches in one pass.

Nearly every batch of today's producers has a producer id, so a list of these batches would be as long as the
log. Instead there is one row for each producer, with its last five batches; only the starts and ends of
transactions, and batches that may break one, are listed one by one. Kafka: ProducerAppendInfo, as
LogSegment.recover drives it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels.jit import inlined, kernel, rows_of
from stratalog.records.kernels.memory import Bytes, load_i16, load_i32, load_u8
from stratalog.records.kernels.walk import CODEC_MASK, BatchTable

KEPT_BATCHES = 5

# The state of a producer, as far as these batches alone show it; -1 is unknown. `first_epoch` is the epoch of
# its first batch. `epoch_changed` says that another epoch followed, which makes a broker forget the earlier
# batches.
PRODUCER = rows_of(
    [
        ("producer_id", np.int64),
        ("last_timestamp", np.int64),
        ("txn_first_offset", np.int64),
        ("batches_count", np.int64),  # of the last epoch; number n is in place n % KEPT_BATCHES of `recent`
        ("coordinator_epoch", np.int32),
        ("producer_epoch", np.int16),
        ("first_epoch", np.int16),
        ("epoch_changed", np.bool_),
        ("ended_txn", np.bool_),  # a marker was seen: a transaction from before these batches has ended
        ("plain_seen", np.bool_),
    ],
)
# Fields of one of the last batches: rows of `recent`.
LAST_SEQUENCE, LAST_OFFSET, OFFSET_DELTA, TIMESTAMP = 0, 1, 2, 3

# The kinds of events, in the order of their batches.
STARTED = 0  # the producer's first transactional batch, or the first since its last marker
COMMITTED = 1
ABORTED = 2
PLAIN = 3  # a batch outside of transactions while one may be open: a broker refuses that
EVENT = rows_of(
    [
        ("producer_id", np.int64),
        ("offset", np.int64),
        ("timestamp", np.int64),
        ("coordinator_epoch", np.int32),
        ("producer_epoch", np.int16),
        ("kind", np.int8),
    ],
)

# How the gathering ended.
DONE = 0
NEEDS_ROOM = 1  # no room for another producer, event or epoch: grow or empty them and continue
MARKER = 2  # an unusual control batch: the caller reads its record, and calls end_txn if it has one

TRANSACTIONAL, CONTROL, LOG_APPEND_TIME = 1 << 4, 1 << 5, 1 << 3
MARKER_SIZE = 17  # of the record in a marker's batch as every broker writes it
SEQUENCE_MASK = INT32_MAX

ScanTable = NDArray[np.void]


@kernel
def gather(
    data: Bytes,
    headers: BatchTable,
    start: int,
    counts: NDArray[np.int64],
    slots: NDArray[np.int32],
    producers: ScanTable,
    recent: NDArray[np.int64],
    events: ScanTable,
    epochs: NDArray[np.int64],
) -> tuple[int, int]:
    """Process the batches from row `start` on; returns (the first row that is not processed, how it ended).

    `counts` holds how many producers, events and epochs there are, and the latest epoch. `slots` is a hash
    table with open addressing, from a producer's id to its row. Its size is a power of two above the number
    of producers.
    """
    for index in range(start, len(headers)):
        batch: Any = headers[index]
        if batch.magic < 2:
            continue
        if counts[0] == len(producers) or counts[1] + 1 >= len(events) or counts[2] == len(epochs):
            return index, NEEDS_ROOM
        if batch.partition_leader_epoch > counts[3]:
            counts[3] = batch.partition_leader_epoch
            epochs[counts[2], 0] = batch.partition_leader_epoch
            epochs[counts[2], 1] = batch.base_offset
            counts[2] += 1
        if batch.producer_id < 0:
            continue
        if batch.attributes & CONTROL == 0:
            _add_data(batch, counts, slots, producers, recent, events)
            continue
        position = batch.records_position
        if not _is_usual_marker(data, position, batch):
            return index, MARKER
        timestamp = batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else batch.base_timestamp
        commits = load_i16(data, position + 7) == 1
        end_txn(batch, commits, load_i32(data, position + 12), timestamp, counts, slots, producers, events)
    return len(headers), DONE


@inlined
def _is_usual_marker(data: Bytes, position: int, batch: Any) -> bool:
    """One record of 17 bytes: ABORT or COMMIT of version 0, with the batch's own time and offset."""
    return (
        batch.records_count == 1
        and batch.attributes & CODEC_MASK == 0
        and batch.records_end - position == MARKER_SIZE
        and load_u8(data, position) == 0x20
        and load_u8(data, position + 2) == 0
        and load_u8(data, position + 3) == 0
        and load_u8(data, position + 4) == 8
        and load_i16(data, position + 5) == 0
        and (load_i16(data, position + 7) == 0 or load_i16(data, position + 7) == 1)
        and load_u8(data, position + 9) == 12
        and load_i16(data, position + 10) == 0
        and load_u8(data, position + 16) == 0
    )


@inlined
def _add_data(
    batch: Any,
    counts: NDArray[np.int64],
    slots: NDArray[np.int32],
    producers: ScanTable,
    recent: NDArray[np.int64],
    events: ScanTable,
) -> None:
    row_number = _row_of(batch.producer_id, batch.producer_epoch, counts, slots, producers)
    producer: Any = producers[row_number]
    _see_epoch(producer, batch.producer_epoch)
    at = producer.batches_count % KEPT_BATCHES
    delta = batch.last_offset - batch.base_offset
    sequence = batch.base_sequence
    recent[row_number, at, LAST_SEQUENCE] = -1 if sequence == -1 else (sequence + delta) & SEQUENCE_MASK
    recent[row_number, at, LAST_OFFSET] = batch.last_offset
    recent[row_number, at, OFFSET_DELTA] = delta
    recent[row_number, at, TIMESTAMP] = batch.max_timestamp
    producer.batches_count += 1
    producer.last_timestamp = batch.max_timestamp
    if batch.attributes & TRANSACTIONAL:
        if producer.txn_first_offset < 0:
            producer.txn_first_offset = batch.base_offset
            _add_event(events, counts, STARTED, batch, batch.max_timestamp, -1)
    elif producer.txn_first_offset >= 0 or not (producer.ended_txn or producer.plain_seen):
        producer.plain_seen = True
        _add_event(events, counts, PLAIN, batch, batch.max_timestamp, -1)


@kernel(size=lambda *_: 100)
def end_txn(
    batch: Any,
    commits: bool,
    coordinator_epoch: int,
    timestamp: int,
    counts: NDArray[np.int64],
    slots: NDArray[np.int32],
    producers: ScanTable,
    events: ScanTable,
) -> None:
    """Process a marker. There is room for it: `gather` checks that before every batch."""
    producer: Any = producers[_row_of(batch.producer_id, batch.producer_epoch, counts, slots, producers)]
    _see_epoch(producer, batch.producer_epoch)
    producer.coordinator_epoch = coordinator_epoch
    producer.last_timestamp = timestamp
    producer.txn_first_offset = -1
    producer.ended_txn = True
    _add_event(events, counts, COMMITTED if commits else ABORTED, batch, timestamp, coordinator_epoch)


@inlined
def _see_epoch(producer: Any, epoch: int) -> None:
    if epoch != producer.producer_epoch:
        producer.producer_epoch = epoch
        producer.epoch_changed = True
        producer.batches_count = 0


@inlined
def _add_event(
    events: ScanTable,
    counts: NDArray[np.int64],
    kind: int,
    batch: Any,
    timestamp: int,
    coordinator_epoch: int,
) -> None:
    event: Any = events[counts[1]]
    event.kind = kind
    event.producer_id = batch.producer_id
    event.producer_epoch = batch.producer_epoch
    event.offset = batch.base_offset
    event.timestamp = timestamp
    event.coordinator_epoch = coordinator_epoch
    counts[1] += 1


@inlined
def _row_of(
    producer_id: int, epoch: int, counts: NDArray[np.int64], slots: NDArray[np.int32], producers: ScanTable
) -> int:
    """The producer's row, a new one if necessary.

    Brokers assign ids in sequence, so an id is its own hash.
    """
    mask = len(slots) - 1
    slot = producer_id & mask
    while slots[slot] >= 0:
        if producers[slots[slot]].producer_id == producer_id:
            return int(slots[slot])
        slot = (slot + 1) & mask
    row_number = int(counts[0])
    slots[slot] = row_number
    producer: Any = producers[row_number]
    producer.producer_id = producer_id
    producer.producer_epoch = epoch
    producer.first_epoch = epoch
    producer.coordinator_epoch = -1
    producer.txn_first_offset = -1
    producer.last_timestamp = -1
    producer.batches_count = 0
    producer.epoch_changed = False
    producer.ended_txn = False
    producer.plain_seen = False
    counts[0] += 1
    return row_number


@kernel(size=lambda _producers, count, *_: 100 * count)
def fill_slots(producers: ScanTable, count: int, slots: NDArray[np.int32]) -> None:
    """Enter the first `count` producers into new slots."""
    mask = len(slots) - 1
    slots[:] = -1
    for row_number in range(count):
        slot = producers[row_number].producer_id & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = row_number
