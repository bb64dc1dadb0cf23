"""Sequences, epochs and fencing. What Kafka's own classes say of the same: tests/kafka/test_validation.py."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stratalog.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
    UsageError,
)
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.append_info import ProducerAppendInfo
from stratalog.log.producers.entry import CompletedTxn, ProducerStateEntry
from stratalog.log.producers.verification import NO_GUARD, VerificationGuard
from stratalog.segment.producers import BatchMetadata
from tests.log.producing import NOW, Producers

LAST = 2**31 - 1
REPLICATION, COORDINATOR = AppendOrigin.REPLICATION, AppendOrigin.COORDINATOR


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path)


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


def test_a_refused_batch_leaves_the_state_as_it_was(producers: Producers) -> None:
    producers.append(1, 0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 7, 1)

    assert producers.append(1, 1, 1).last_data_offset == 1


def test_what_is_staged_is_not_seen_before_it_is_taken_over(producers: Producers) -> None:
    producers.append(1, 0, 0)
    info = producers.state.prepare_update(1, AppendOrigin.CLIENT)
    batch = {"producer_epoch": 0, "max_timestamp": NOW, "is_transactional": False}
    info.append_data(base_sequence=1, last_sequence=3, first_offset=OffsetMetadata(1), last_offset=3, **batch)

    assert producers.state.producers[1].last_sequence == 0
    producers.state.update(info)
    assert producers.state.producers[1].last_sequence == 3


def test_sequences_wrap_after_the_largest_int(producers: Producers) -> None:
    producers.append(1, LAST, 0)
    entry = producers.append(1, 0, 1)

    assert entry.last_sequence == 0


def test_a_batch_across_the_wrap_knows_its_first_sequence(producers: Producers) -> None:
    producers.append(1, LAST - 10, 9990, count=20, origin=REPLICATION)
    entry = producers.append(1, 9, 10010, count=2)

    assert [(batch.first_sequence, batch.last_sequence) for batch in entry.batches] == [
        (LAST - 10, 8),
        (9, 10),
    ]
    assert entry.batches[0].first_offset == 9990
    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 8, 10012)


def test_after_the_largest_int_comes_zero_and_not_one(producers: Producers) -> None:
    producers.append(1, LAST, 0)

    with pytest.raises(OutOfOrderSequenceError):
        producers.append(1, 1, 1)


def test_only_the_last_five_batches_are_kept(producers: Producers) -> None:
    for number in range(7):
        entry = producers.append(1, number, number)

    assert [batch.last_offset for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.find_duplicate(0, 1, 1) is None
    assert entry.find_duplicate(0, 2, 2) == BatchMetadata(2, 2, 0, NOW)
    assert entry.find_duplicate(1, 2, 2) is None
    assert entry.find_duplicate(0, 2, 3) is None


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


def test_no_producer_id_has_no_state(producers: Producers) -> None:
    info = ProducerAppendInfo(ProducerStateEntry(-1), AppendOrigin.CLIENT)

    with pytest.raises(UsageError):
        producers.state.update(info)


def test_a_silent_producer_is_forgotten_and_may_start_anew(tmp_path: Path) -> None:
    producers = Producers(tmp_path, producer_id_expiration_ms=1000)
    producers.append(1, 5, 0)
    producers.state.remove_expired_producers(NOW + 999)
    assert 1 in producers.state.producers

    producers.state.remove_expired_producers(NOW + 1000)

    assert producers.state.is_empty
    assert producers.append(1, 2, 1).last_sequence == 2


def test_a_producer_with_an_open_transaction_is_not_forgotten(tmp_path: Path) -> None:
    producers = Producers(tmp_path, producer_id_expiration_ms=1000)
    producers.append(1, 0, 0, transactional=True)

    producers.state.remove_expired_producers(NOW + 5000)

    assert producers.first_unstable == 0
    assert 1 in producers.state.producers


def test_a_verification_keeps_the_lowest_sequence_of_the_highest_epoch(producers: Producers) -> None:
    def see(sequence: int, epoch: int) -> tuple[int, int]:
        entry = producers.state.start_verification(
            1, sequence=sequence, epoch=epoch, supports_epoch_bump=False
        )
        return entry.lowest_sequence, entry.epoch

    assert [see(3, 0), see(5, 0), see(1, 0), see(8, 1), see(0, 0)] == [(3, 0), (3, 0), (1, 0), (8, 1), (8, 1)]


def test_a_verification_is_the_same_until_it_is_cleared(producers: Producers) -> None:
    first = producers.state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)
    again = producers.state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)
    producers.state.clear_verification(1)

    assert again.guard.verifies(first.guard)
    assert producers.state.verification(1) is None
    later = producers.state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)
    assert not later.guard.verifies(first.guard)


def test_no_guard_verifies_nothing() -> None:
    guard = VerificationGuard()

    assert guard.verifies(guard)
    assert not guard.verifies(VerificationGuard())
    assert not NO_GUARD.verifies(NO_GUARD)
    assert not guard.verifies(NO_GUARD)


def test_a_later_batch_waits_for_the_lowest_one_under_verification(producers: Producers) -> None:
    producers.state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)

    with pytest.raises(OutOfOrderSequenceError, match="sequence 0 has to be written first"):
        producers.append(1, 4, 0, transactional=True)
    assert producers.append(1, 0, 0, transactional=True).last_sequence == 0


def test_an_unknown_producer_of_transactions_v2_starts_at_zero(producers: Producers) -> None:
    producers.state.start_verification(1, sequence=5, epoch=0, supports_epoch_bump=True)

    with pytest.raises(OutOfOrderSequenceError, match="this producer is unknown here"):
        producers.append(1, 5, 0, transactional=True)
    producers.state.start_verification(2, sequence=5, epoch=0, supports_epoch_bump=False)
    assert producers.append(2, 5, 0, transactional=True).last_sequence == 5


def test_a_verification_that_never_ends_is_forgotten(tmp_path: Path) -> None:
    producers = Producers(tmp_path, producer_id_expiration_ms=1000)
    producers.state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)

    producers.state.remove_expired_producers(NOW + 999)
    assert producers.state.verification(1) is not None
    producers.state.remove_expired_producers(NOW + 1000)
    assert producers.state.verification(1) is None
