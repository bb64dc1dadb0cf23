"""Sets of batches against the producer state: duplicates, markers, verification, Kafka's worked example."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import InvalidProducerEpochError, InvalidTxnStateError
from stratalog.files.disk import Disk
from stratalog.log.append import analyze
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.analysis import ProducerChanges, analyze_producers, apply_changes
from stratalog.log.producers.entry import CompletedTxn
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.verification import NO_GUARD, VerificationGuard
from stratalog.records.batch import BatchHeader, set_base_offset, write_crc
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.segment.producers import BatchMetadata
from tests.log.model import NOW
from tests.log.producing import CLIENT, COORDINATOR, REPLICATION, marker
from tests.records.golden import EMPTY_BATCH


def batch(
    offset: int,
    *,
    producer_id: int = -1,
    sequence: int = -1,
    epoch: int = 0,
    count: int = 1,
    transactional: bool = False,
) -> bytes:
    options = BatchOptions()
    if producer_id >= 0:
        options = BatchOptions(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
    built = bytearray(build_batch([Record(i, NOW + offset + i, b"k", b"v") for i in range(count)], options))
    set_base_offset(built, offset)
    return bytes(built)


def analyzed(
    state: ProducerStateManager,
    data: bytes,
    origin: AppendOrigin,
    *,
    version: int = 0,
    start: OffsetMetadata | None = None,
    guard: VerificationGuard = NO_GUARD,
) -> ProducerChanges:
    info = analyze(data, origin=REPLICATION, max_message_bytes=None, leader_epoch=2**31 - 1)
    return analyze_producers(
        state,
        info.data,
        info.batches,
        origin=origin,
        start=start,
        transaction_version=version,
        guard=guard,
    )


def append(
    state: ProducerStateManager, data: bytes, origin: AppendOrigin = CLIENT, version: int = 0
) -> ProducerChanges:
    changes = analyzed(state, data, origin, version=version)
    apply_changes(state, changes)
    for completed in changes.completed:
        state.complete_txn(completed)
    return changes


def test_a_batch_that_comes_again_is_a_duplicate(state: ProducerStateManager) -> None:
    for number in range(6):
        append(state, batch(2 * number, producer_id=1, sequence=2 * number, count=2))

    again = analyzed(state, batch(12, producer_id=1, sequence=4, count=2), CLIENT)

    assert again.duplicate == BatchMetadata(5, 5, 1, NOW + 5)
    assert again.duplicate.first_offset == 4
    assert again.updated == {}


def test_only_a_client_can_repeat_itself(state: ProducerStateManager) -> None:
    append(state, batch(0, producer_id=1, sequence=0))

    assert analyzed(state, batch(1, producer_id=1, sequence=0), REPLICATION).duplicate is None


def test_without_producer_ids_there_is_nothing_to_change(state: ProducerStateManager) -> None:
    assert analyzed(state, batch(0) + batch(1), REPLICATION) == ProducerChanges({}, [])
    assert analyzed(state, b"", REPLICATION) == ProducerChanges({}, [])


def test_the_transaction_index_gets_kafkas_numbers(state: ProducerStateManager) -> None:
    """The worked example of Kafka's own UnifiedLogTest.testTransactionIndexUpdated."""
    sequences = dict.fromkeys(range(1, 5), 0)
    offset = 0
    entries = []

    def write(producer_id: int, count: int) -> None:
        nonlocal offset
        sequence = sequences.get(producer_id, -1)
        data = batch(
            offset, producer_id=producer_id, sequence=sequence, count=count, transactional=producer_id > 0
        )
        if producer_id > 0:
            sequences[producer_id] += count
        append(state, data)
        offset += count

    def end(producer_id: int, *, abort: bool) -> None:
        nonlocal offset
        data = marker(offset, producer_id=producer_id, abort=abort)
        changes = analyzed(state, data, COORDINATOR)
        apply_changes(state, changes)
        for completed in changes.completed:
            stable = state.last_stable_offset(completed)
            if completed.is_aborted:
                entries.append((producer_id, completed.first_offset, completed.last_offset, stable))
            state.complete_txn(completed)
        offset += 1

    for producer_id, count in ((1, 5), (-1, 3), (2, 2), (1, 4), (3, 3), (-1, 2), (1, 10)):
        write(producer_id, count)
    end(1, abort=True)
    for producer_id, count in ((2, 6), (4, 3), (-1, 10), (3, 9)):
        write(producer_id, count)
    end(3, abort=False)
    for producer_id, count in ((4, 8), (2, 7)):
        write(producer_id, count)
    end(2, abort=True)
    for producer_id, count in ((-1, 10), (4, 4)):
        write(producer_id, count)
    end(4, abort=False)

    assert entries == [(1, 0, 29, 8), (2, 8, 74, 36)]
    assert offset == 90


def test_the_place_of_a_transaction_follows_from_the_place_of_the_set(state: ProducerStateManager) -> None:
    first = batch(10, count=3)
    data = first + batch(13, producer_id=1, sequence=0, transactional=True)

    apply_changes(state, analyzed(state, data, REPLICATION, start=OffsetMetadata(10, 4, 1000)))

    assert state.first_unstable_offset == OffsetMetadata(13, 4, 1000 + len(first))


def test_a_set_can_hold_whole_transactions(state: ProducerStateManager) -> None:
    data = (
        batch(0, producer_id=1, sequence=0, transactional=True)
        + batch(1, producer_id=2, sequence=0, transactional=True)
        + marker(2, producer_id=1)
        + batch(3, producer_id=1, sequence=1, transactional=True)
        + marker(4, producer_id=1, abort=True)
    )

    changes = append(state, data, REPLICATION, version=-1)

    assert changes.completed == [
        CompletedTxn(1, 0, 2, is_aborted=False),
        CompletedTxn(1, 3, 4, is_aborted=True),
    ]
    assert state.first_undecided_offset == 1


@pytest.mark.parametrize("transactional", [False, True])
def test_a_long_set_of_one_producer_ends_as_if_it_came_batch_by_batch(
    tmp_path: Path, transactional: bool
) -> None:
    batches = [
        batch(3 * n, producer_id=1, sequence=3 * n, count=3, transactional=transactional) for n in range(12)
    ]
    whole = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW)
    one_by_one = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW)

    append(whole, b"".join(batches), REPLICATION, version=-1)
    for each in batches:
        append(one_by_one, each, REPLICATION, version=-1)

    assert whole.producers == one_by_one.producers
    assert whole.first_unstable_offset == one_by_one.first_unstable_offset
    assert [kept.last_offset for kept in whole.producers[1].batches] == [23, 26, 29, 32, 35]


def test_a_long_set_of_two_epochs_is_looked_at_as_a_whole(state: ProducerStateManager) -> None:
    data = b"".join(
        batch(n, producer_id=1, sequence=n if n < 9 else n - 9, epoch=int(n >= 9)) for n in range(12)
    )

    append(state, data, REPLICATION, version=-1)

    assert [kept.last_offset for kept in state.producers[1].batches] == [9, 10, 11]


def test_a_control_batch_that_compaction_emptied_changes_nothing(state: ProducerStateManager) -> None:
    append(state, batch(0, producer_id=7, sequence=0, transactional=True))
    empty = bytearray(EMPTY_BATCH)
    empty[:61] = BatchHeader.unpack(empty)._replace(attributes=0x30).pack()
    write_crc(empty, 0, len(empty))

    changes = append(state, bytes(empty), REPLICATION, version=-1)

    assert changes.completed == []
    assert state.producers[7].current_txn_first_offset == 0


def test_a_stale_producer_cannot_begin_a_transaction(state: ProducerStateManager) -> None:
    append(state, batch(0, producer_id=1, sequence=0, epoch=5))

    with pytest.raises(InvalidProducerEpochError):
        analyzed(state, batch(1, producer_id=1, sequence=0, epoch=4, transactional=True), CLIENT)
    with pytest.raises(InvalidProducerEpochError):
        analyzed(state, marker(1, producer_id=1, epoch=4), COORDINATOR, version=2)


def test_with_verification_a_transaction_begins_only_behind_its_guard(tmp_path: Path) -> None:
    state = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW, verify_transactions=True)
    first = batch(0, producer_id=1, sequence=0, transactional=True)
    with pytest.raises(InvalidTxnStateError, match="no verified transaction"):
        analyzed(state, first, CLIENT)
    verification = state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)
    with pytest.raises(InvalidTxnStateError):
        analyzed(state, first, CLIENT, guard=VerificationGuard())

    changes = analyzed(state, first, CLIENT, guard=verification.guard)
    assert state.verification(1) is verification  # until it is in the log, it may be tried again
    apply_changes(state, changes)

    assert state.has_ongoing_transaction(1, 0)
    assert not state.has_ongoing_transaction(1, 1)
    assert state.verification(1) is None
    second = batch(1, producer_id=1, sequence=1, transactional=True)
    assert analyzed(state, second, CLIENT).duplicate is None


def test_a_marker_needs_no_guard_and_clears_it(tmp_path: Path) -> None:
    state = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW, verify_transactions=True)
    state.start_verification(1, sequence=0, epoch=0, supports_epoch_bump=False)

    append(state, marker(0, producer_id=1), COORDINATOR)

    assert state.verification(1) is None
    assert analyzed(state, batch(1, producer_id=2, sequence=0), CLIENT).updated.keys() == {2}
