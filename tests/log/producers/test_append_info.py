"""What one append may change for its producer: sequences, epochs, markers, fences."""

from __future__ import annotations

import logging

import pytest

from stratalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.entry import CompletedTxn
from tests.log.model import NOW, Machine, append_marker, marker, produced
from tests.log.producing import Producers, last_sequence
from tests.log.transacting import ABORT, COMMIT, Script

DAY_MS = 86_400_000
LAST = 2**31 - 1
REPLICATION, COORDINATOR = AppendOrigin.REPLICATION, AppendOrigin.COORDINATOR


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


def test_sequences_of_a_producer_follow_each_other(producers: Producers) -> None:
    producers.append(1, 0, 0)
    entry = producers.append(1, 1, 1)

    assert entry.last_sequence == 1
    with pytest.raises(OutOfOrderSequenceError) as caught:
        producers.append(1, 1, 2)
    assert (caught.value.producer_id, caught.value.sequence) == (1, 1)
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 5, 2)


def test_a_new_epoch_starts_at_sequence_zero_and_fences_the_old_one(producers: Producers) -> None:
    producers.append(1, 0, 0)
    with pytest.raises(OutOfOrderSequenceError, match="has to start at 0"):
        producers.append(1, 1, 1, epoch=1)
    entry = producers.append(1, 0, 1, epoch=1)

    assert [batch.last_offset for batch in entry.batches] == [1]
    with pytest.raises(InvalidProducerEpochError) as caught:
        producers.append(1, 1, 2, epoch=0)
    assert (caught.value.producer_epoch, caught.value.current_epoch) == (0, 1)


def test_an_unknown_producer_may_go_on_anywhere(producers: Producers) -> None:
    assert producers.append(1, 99, 0, epoch=5).last_sequence == 99


def test_sequences_wrap_after_the_largest_int(producers: Producers) -> None:
    producers.append(1, LAST, 0)
    entry = producers.append(1, 0, 1)

    assert entry.last_sequence == 0


def test_after_the_largest_int_comes_zero_and_not_one(producers: Producers) -> None:
    producers.append(1, LAST, 0)

    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 1, 1)


def test_what_is_replicated_may_start_anywhere_and_have_gaps(producers: Producers) -> None:
    producers.append(1, 17, 0, epoch=2, origin=REPLICATION)
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 30, 1, epoch=2)
    entry = producers.append(1, 30, 1, epoch=2, origin=REPLICATION)

    assert entry.last_sequence == 30


def test_an_old_epoch_that_is_replicated_is_only_warned_of(
    producers: Producers, caplog: pytest.LogCaptureFixture
) -> None:
    producers.append(1, 0, 0, epoch=5, origin=REPLICATION)
    with caplog.at_level(logging.WARNING, "stratalog"):
        entry = producers.append(1, 0, 1, epoch=4, origin=REPLICATION)

    assert entry.producer_epoch == 4
    assert "comes with epoch 4" in caplog.text


def test_a_coordinator_is_held_to_epochs_but_not_to_sequences(producers: Producers) -> None:
    producers.append(1, -1, 99, epoch=2, transactional=True, origin=COORDINATOR)
    entry = producers.append(1, -1, 100, epoch=2, transactional=True, origin=COORDINATOR)

    assert entry.last_sequence == -1
    with pytest.raises(InvalidProducerEpochError):
        producers.append(1, -1, 101, epoch=1, transactional=True, origin=COORDINATOR)


def test_a_marker_alone_makes_an_entry_and_fences(producers: Producers) -> None:
    producers.end(1, 27, epoch=2, abort=True)

    entry = producers.state.producers[1]
    assert (entry.producer_epoch, entry.is_empty, entry.last_data_offset) == (2, True, -1)
    with pytest.raises(InvalidProducerEpochError):
        producers.append(1, 0, 28, epoch=1)
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 17, 28, epoch=2)
    assert producers.append(1, 0, 28, epoch=2).last_sequence == 0


def test_a_marker_of_a_higher_epoch_forgets_the_batches(producers: Producers) -> None:
    producers.append(1, 0, 0)
    producers.end(1, 1, epoch=1)

    entry = producers.state.producers[1]
    assert (entry.producer_epoch, entry.batches, entry.last_sequence) == (1, [], -1)
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 1, 2, epoch=1)
    assert producers.append(1, 0, 2, epoch=1).last_sequence == 0


def test_a_marker_of_the_same_epoch_keeps_the_sequence(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.end(1, 1)

    assert producers.append(1, 1, 2).last_sequence == 1


def test_a_marker_of_an_old_epoch_is_refused(producers: Producers) -> None:
    producers.append(1, 0, 0, epoch=5, transactional=True)

    with pytest.raises(InvalidProducerEpochError):
        producers.end(1, 1, epoch=4)


def test_a_coordinator_of_an_old_epoch_is_fenced(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.end(1, 1, coordinator_epoch=1)

    assert producers.state.producers[1].coordinator_epoch == 1
    with pytest.raises(TransactionCoordinatorFencedError) as caught:
        producers.end(1, 2, coordinator_epoch=0)
    assert (caught.value.coordinator_epoch, caught.value.current_epoch) == (0, 1)
    assert producers.end(1, 2, coordinator_epoch=0, origin=REPLICATION) is None


def test_with_transaction_version_2_a_marker_needs_a_higher_epoch(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    with pytest.raises(InvalidProducerEpochError):
        producers.end(1, 1, epoch=0, version=2)

    assert producers.end(1, 1, epoch=1, version=2) == CompletedTxn(1, 0, 1, is_aborted=False)


def test_a_repeated_marker_of_version_2_is_taken_again_but_ends_nothing(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    producers.end(1, 1, epoch=1, version=2)

    assert producers.end(1, 2, epoch=1, version=2) is None
    with pytest.raises(InvalidProducerEpochError):
        producers.end(1, 3, epoch=0, version=2)


def test_an_epoch_that_cannot_rise_further_is_taken_as_it_is(producers: Producers) -> None:
    producers.append(1, 0, 0, epoch=32767, transactional=True)

    assert producers.end(1, 1, epoch=32767, version=2) is not None


def test_only_a_replicated_marker_may_leave_its_transaction_version_open(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)
    with pytest.raises(UsageError, match="transaction version"):
        producers.end(1, 1, version=-1)

    assert producers.end(1, 1, version=-1, origin=REPLICATION) is not None


def test_a_write_outside_the_open_transaction_is_refused(producers: Producers) -> None:
    producers.append(1, 0, 0, transactional=True)

    with pytest.raises(InvalidTxnStateError) as caught:
        producers.append(1, 1, 1)
    assert caught.value.producer_id == 1
