"""Producers, transactions and leader epochs of batches made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratalog.records.kernels import scan as kernel
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import walk_batches
from tests.naive import Record, encode_batch

TRANSACTIONAL, CONTROL = 1 << 4, 1 << 5
# A marker's key and value, as every broker writes them: versions 0, the type, the coordinator's epoch.
ABORT, COMMIT = bytes.fromhex("00000000"), bytes.fromhex("00000001")
VALUE_OF_EPOCH_7 = bytes.fromhex("000000000007")


def data(offset: int, sequence: int, *, producer_id: int = 5, epoch: int = 0, leader: int = 0) -> bytes:
    return encode_batch(
        [Record(offset, 100 + offset, b"k", b"v")],
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        partition_leader_epoch=leader,
    )


def marker(offset: int, key: bytes) -> bytes:
    return encode_batch(
        [Record(offset, 100 + offset, key, VALUE_OF_EPOCH_7)],
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=5,
        producer_epoch=0,
        partition_leader_epoch=0,
    )


class Gathered:
    """What the kernel said, and what it wrote into its tables."""

    def __init__(self, *batches: bytes, room: int = 8) -> None:
        array = byte_array(b"".join(batches))
        counts = np.array([0, 0, 0, -1], np.int64)
        slots = np.full(16, -1, np.int32)
        producers, events = np.zeros(room, kernel.PRODUCER), np.zeros(room, kernel.EVENT)
        recent, epochs = np.zeros((room, kernel.KEPT_BATCHES, 4), np.int64), np.zeros((room, 2), np.int64)

        headers = walk_batches(array).headers
        self.came = kernel.gather(array, headers, 0, counts, slots, producers, recent, events, epochs)

        self.producers: Any = producers[: counts[0]]
        self.events = [
            (int(event["kind"]), int(event["offset"]), int(event["coordinator_epoch"]))
            for event in events[: counts[1]]
        ]
        self.epochs = epochs[: counts[2]].tolist()


def test_a_transaction_is_the_start_and_the_end_of_it() -> None:
    found = Gathered(data(0, 0), data(1, 1), marker(2, ABORT), data(3, 2), marker(4, COMMIT))

    assert found.came == (5, kernel.DONE)
    assert [event[:2] for event in found.events] == [
        (kernel.STARTED, 0),
        (kernel.ABORTED, 2),
        (kernel.STARTED, 3),
        (kernel.COMMITTED, 4),
    ]
    assert [event[2] for event in found.events if event[0] in (kernel.ABORTED, kernel.COMMITTED)] == [7, 7]
    assert found.producers["txn_first_offset"].tolist() == [-1]
    assert found.producers["coordinator_epoch"].tolist() == [7]


def test_a_producer_is_one_row_with_its_first_and_last_epoch() -> None:
    found = Gathered(data(0, 0), data(1, 0, producer_id=6), data(2, 0, epoch=1), data(3, 1, epoch=1))

    rows = found.producers
    assert rows["producer_id"].tolist() == [5, 6]
    assert list(zip(rows["first_epoch"], rows["producer_epoch"], rows["batches_count"], strict=True)) == [
        (0, 1, 2),
        (0, 0, 1),
    ]
    assert rows["txn_first_offset"].tolist() == [0, 1]


def test_a_leader_epoch_starts_with_its_first_batch() -> None:
    found = Gathered(data(0, 0, leader=3), data(1, 1, leader=3), data(2, 2, leader=8))

    assert found.epochs == [[3, 0], [8, 2]]


def test_without_room_for_one_more_it_says_where_to_go_on() -> None:
    found = Gathered(*(data(number, 0, producer_id=number) for number in range(4)), room=3)

    assert found.came[1] == kernel.NEEDS_ROOM
    assert found.producers["producer_id"].tolist() == list(range(found.came[0]))


def test_a_control_batch_that_is_not_written_the_usual_way_is_left_to_the_caller() -> None:
    found = Gathered(data(0, 0), marker(1, b"\0\0\0\1more"))

    assert found.came == (1, kernel.MARKER)
