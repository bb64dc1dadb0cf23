"""What a scan finds about producers, transactions and leader epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.control import ControlType
from stratalog.segment.producers import BatchMetadata, TxnEvent, TxnEventKind
from stratalog.segment.scan import ScanStop
from tests.segment.making import marker, records
from tests.segment.scanning import scan_of


def test_leader_epochs_are_told_where_they_begin(tmp_path: Path) -> None:
    epochs = [0, 0, 2, 1, 2, 5]
    batches = [
        build_batch([Record(offset, 1)], BatchOptions(partition_leader_epoch=epoch))
        for offset, epoch in enumerate(epochs)
    ]

    assert scan_of(tmp_path, *batches).epoch_starts == ((0, 0), (2, 2), (5, 5))


def data_of(producer_id: int, epoch: int, sequence: int, offset: int, *, txn: bool = False) -> bytes:
    options = BatchOptions(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=txn
    )
    return build_batch([Record(offset, 100 + offset), Record(offset + 1, 90)], options)


def test_a_producer_is_told_with_its_last_five_batches(tmp_path: Path) -> None:
    batches = [data_of(9, 1, 2 * i, 2 * i) for i in range(7)]

    (producer,) = scan_of(tmp_path, *batches).producers

    assert producer.batches == tuple(BatchMetadata(2 * i + 1, 2 * i + 1, 1, 100 + 2 * i) for i in range(2, 7))
    assert (producer.producer_epoch, producer.first_epoch, producer.epoch_changed) == (1, 1, False)
    assert (producer.last_timestamp, producer.txn_first_offset, producer.ended_txn) == (112, None, False)


def test_another_epoch_forgets_the_batches_before(tmp_path: Path) -> None:
    (producer,) = scan_of(tmp_path, data_of(9, 1, 0, 0), data_of(9, 2, 0, 2)).producers

    assert producer.batches == (BatchMetadata(1, 3, 1, 102),)
    assert (producer.producer_epoch, producer.first_epoch, producer.epoch_changed) == (2, 1, True)


def test_sequences_wrap_to_zero(tmp_path: Path) -> None:
    (producer,) = scan_of(tmp_path, data_of(9, 1, 2**31 - 1, 0)).producers

    assert producer.batches[0].last_sequence == 0


def test_starts_and_ends_of_transactions_come_in_order(tmp_path: Path) -> None:
    found = scan_of(
        tmp_path,
        data_of(1, 0, 0, 0, txn=True),
        data_of(2, 0, 0, 2, txn=True),
        data_of(1, 0, 2, 4, txn=True),
        marker(6, 1, ControlType.ABORT, coordinator_epoch=7),
        data_of(1, 0, 4, 7, txn=True),
        marker(9, 2, ControlType.COMMIT, producer_epoch=1),
    )

    kinds = [(event.kind, event.producer_id, event.offset) for event in found.transactions]
    assert kinds == [
        (TxnEventKind.STARTED, 1, 0),
        (TxnEventKind.STARTED, 2, 2),
        (TxnEventKind.ABORTED, 1, 6),
        (TxnEventKind.STARTED, 1, 7),
        (TxnEventKind.COMMITTED, 2, 9),
    ]
    assert found.transactions[2] == TxnEvent(TxnEventKind.ABORTED, 1, 0, 6, 60, 7)
    first, second = found.producers
    assert (first.txn_first_offset, first.ended_txn, first.coordinator_epoch) == (7, True, 7)
    assert (second.txn_first_offset, second.producer_epoch, second.batches) == (None, 1, ())


def test_a_plain_batch_is_told_where_a_transaction_may_be_open(tmp_path: Path) -> None:
    found = scan_of(
        tmp_path,
        data_of(1, 0, 0, 0),
        data_of(1, 0, 2, 2),
        data_of(2, 0, 0, 4, txn=True),
        data_of(2, 0, 2, 6),
        marker(8, 3, ControlType.ABORT),
        data_of(3, 0, 0, 9),
    )

    plain = [
        (event.producer_id, event.offset) for event in found.transactions if event.kind is TxnEventKind.PLAIN
    ]
    assert plain == [(1, 0), (2, 6)]


def test_a_marker_with_a_delete_horizon_is_read_too(tmp_path: Path) -> None:
    options = BatchOptions(
        producer_id=4, producer_epoch=0, is_transactional=True, is_control=True, delete_horizon_ms=10**12
    )
    end = build_batch([Record(5, 77, bytes.fromhex("00000001"), bytes.fromhex("00000000000c"))], options)

    (event,) = scan_of(tmp_path, end).transactions

    assert event == TxnEvent(TxnEventKind.COMMITTED, 4, 0, 5, 77, 12)


@pytest.mark.parametrize("key", [b"\0\0", bytes.fromhex("00000002"), None])
def test_a_control_batch_that_is_no_marker_is_kept_and_ends_the_scan(
    tmp_path: Path, key: bytes | None
) -> None:
    options = BatchOptions(producer_id=4, producer_epoch=0, is_transactional=True, is_control=True)
    bad = build_batch([Record(1, 77, key, bytes(6))], options)
    good = records(0, "a")

    found = scan_of(tmp_path, good, bad, records(2, "b"), records(3, "c"))

    assert (found.stop, found.valid_size, found.next_offset) == (
        ScanStop.INVALID_MARKER,
        len(good) + len(bad),
        2,
    )
    assert len(found.offset_index) == 8


def test_thousands_of_producers_and_transactions_fit(tmp_path: Path) -> None:
    batches = []
    for number in range(1500):
        offset = 3 * number
        batches += [
            data_of(number * 64, 0, 0, offset, txn=True),
            marker(offset + 2, number * 64, ControlType.ABORT),
        ]

    found = scan_of(tmp_path, *batches)

    assert [producer.producer_id for producer in found.producers] == [64 * i for i in range(1500)]
    assert [event.offset for event in found.transactions] == [
        offset for number in range(1500) for offset in (3 * number, 3 * number + 2)
    ]


def test_hundreds_of_leader_epochs_fit(tmp_path: Path) -> None:
    batches = [
        build_batch([Record(epoch, 1)], BatchOptions(partition_leader_epoch=epoch)) for epoch in range(300)
    ]

    assert scan_of(tmp_path, *batches).epoch_starts == tuple((epoch, epoch) for epoch in range(300))
