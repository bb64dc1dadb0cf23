"""What one append may change for its producer: sequences, epochs, markers, fences."""

from __future__ import annotations

import pytest

from stratalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from stratalog.log.origin import AppendOrigin
from tests.log.model import NOW, Machine, append_marker, marker, produced
from tests.log.producing import last_sequence
from tests.log.transacting import ABORT, COMMIT, Script

DAY_MS = 86_400_000


def test_a_gap_in_the_sequence_is_refused() -> None:
    log = Machine().open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)

    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(1, 2, b"c"), leader_epoch=0)

    assert log.log_end_offset == 1


def test_the_last_five_batches_are_known_when_they_come_again() -> None:
    log = Machine().open()
    sent = [produced(1, 2 * i, b"a", b"b") for i in range(7)]
    first = [log.append_as_leader(data, leader_epoch=0).first_offset for data in sent]

    for data, offset in list(zip(sent, first, strict=True))[2:]:
        info = log.append_as_leader(data, leader_epoch=0)
        assert (info.first_offset, info.last_offset) == (offset, offset + 1)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(sent[1], leader_epoch=0)
    with pytest.raises(OutOfOrderSequenceError):
        log.append_as_leader(produced(1, 12, b"only one of two"), leader_epoch=0)

    assert log.log_end_offset == 14


def test_a_follower_does_not_look_for_duplicates() -> None:
    log = Machine().open()
    for offset in range(2):
        log.append_as_follower(produced(1, 0, b"a", base_offset=offset), leader_epoch=0)

    assert log.log_end_offset == 2


def test_a_set_of_a_leader_may_have_many_producers_and_duplicates() -> None:
    log = Machine().open()
    sets = [(1, 0), (2, 5), (1, 1), (3, 9), (1, 1), (2, 6)]
    data = b"".join(
        produced(producer_id, sequence, b"x", base_offset=i) for i, (producer_id, sequence) in enumerate(sets)
    )

    log.append_as_follower(data, leader_epoch=0)

    assert [last_sequence(log, producer_id) for producer_id in (1, 2, 3)] == [1, 6, 9]
    assert log.log_end_offset == 6


def test_an_older_epoch_of_a_producer_is_fenced() -> None:
    log = Machine().open()
    log.append_as_leader(produced(1, 0, b"a", epoch=5), leader_epoch=0)

    with pytest.raises(InvalidProducerEpochError):
        log.append_as_leader(produced(1, 0, b"b", epoch=4), leader_epoch=0)


def test_a_producer_that_is_not_known_may_start_anywhere() -> None:
    log = Machine().open()

    log.append_as_leader(produced(1, 17, b"a", epoch=3), leader_epoch=0)

    assert last_sequence(log) == 17


def test_a_producer_that_is_silent_for_a_day_is_forgotten() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)
    log.append_as_leader(produced(2, 0, b"t", transactional=True), leader_epoch=0)

    log.producers.remove_expired_producers(NOW + DAY_MS - 1)
    assert sorted(log.producers.producers) == [1, 2]
    log.producers.remove_expired_producers(NOW + DAY_MS)

    assert sorted(log.producers.producers) == [2]


def test_a_coordinator_that_was_replaced_is_fenced() -> None:
    log = Machine().open()
    script = Script(log)
    script.transact(1, 1)
    append_marker(log, 1, ABORT, coordinator_epoch=1)
    script.transact(1, 1)

    with pytest.raises(TransactionCoordinatorFencedError):
        append_marker(log, 1, ABORT, coordinator_epoch=0)


def test_a_coordinator_is_fenced_also_by_a_transaction_without_records() -> None:
    log = Machine().open()
    append_marker(log, 1, COMMIT, coordinator_epoch=5)

    with pytest.raises(TransactionCoordinatorFencedError):
        append_marker(log, 1, COMMIT, coordinator_epoch=4)


def test_a_marker_of_an_old_producer_epoch_is_refused() -> None:
    log = Machine().open()
    log.append_as_leader(produced(1, 0, b"a", epoch=5, transactional=True), leader_epoch=0)

    with pytest.raises(InvalidProducerEpochError):
        append_marker(log, 1, ABORT, epoch=4)


def test_a_leader_must_know_the_transaction_version_of_a_marker() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    with pytest.raises(UsageError):
        log.append_as_leader(marker(1, COMMIT), leader_epoch=0, origin=AppendOrigin.COORDINATOR)


def test_a_follower_needs_no_transaction_version() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    log.append_as_follower(marker(1, COMMIT, base_offset=1), leader_epoch=0)

    assert log.last_stable_offset == 2


def test_a_marker_of_transactions_v2_brings_the_next_epoch() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    log.append_as_leader(
        marker(1, COMMIT, epoch=1), leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=2
    )

    assert log.last_stable_offset == 2
    entry = log.producers.last_entry(1)
    assert entry is not None
    assert (entry.producer_epoch, entry.last_sequence) == (1, -1)


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused() -> None:
    log = Machine().open()
    Script(log).transact(1, 1)

    with pytest.raises(InvalidTxnStateError):
        log.append_as_leader(produced(1, 1, b"b"), leader_epoch=0)
