"""Guards of transactions: what is verified, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import OutOfOrderSequenceError
from stratalog.log.producers.verification import NO_GUARD, VerificationGuard
from tests.log.model import NOW
from tests.log.producing import Producers


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
