"""Idempotent producers in a log: duplicates, gaps, fences, and snapshots along its segments."""

from __future__ import annotations

import pytest

from stratalog.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from stratalog.log.log import Log
from stratalog.records.build import BatchOptions, Record, build_batch, encode_batch
from stratalog.records.reader import read_batches
from tests.log.model import NOW, Machine, batch, produced, read_all

DAY_MS = 86_400_000


def snapshots(machine: Machine) -> list[int]:
    return [int(name.split(".")[0]) for name in machine.files(".snapshot")]


def last_sequence(log: Log, producer_id: int = 1) -> int:
    entry = log.producers.last_entry(producer_id)
    assert entry is not None
    return entry.last_sequence


def compacted(sequence: int, offsets: list[int], kept: list[int]) -> bytes:
    """A producer's batch of which compaction has kept some records."""
    whole = build_batch(
        [Record(offset, NOW, b"k", b"v") for offset in offsets],
        BatchOptions(producer_id=1, producer_epoch=0, base_sequence=sequence, partition_leader_epoch=0),
    )
    (found,) = read_batches(whole)
    return encode_batch(found.header, [record for record in found if record.offset in kept])


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


def test_the_snapshot_offset_follows_plain_records_too() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    assert log.producers.map_end_offset == 1
    log.close()
    assert snapshots(machine) == [1]


def test_each_roll_takes_a_snapshot_and_flushing_removes_none() -> None:
    machine = Machine()
    log = machine.open()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
        log.roll()
    log.flush()

    assert snapshots(machine) == [1, 2, 3]


def test_a_roll_by_an_append_snapshots_what_was_before_it() -> None:
    data = produced(1, 0, b"a")
    machine = Machine(internal_segment_bytes=len(data))
    log = machine.open()
    log.append_as_leader(data, leader_epoch=0)
    log.append_as_leader(produced(1, 1, b"b"), leader_epoch=0)

    assert snapshots(machine) == [1]
    assert [entry.last_sequence for entry in log.producers.snapshots.read(1)] == [0]


def test_truncation_keeps_the_snapshots_up_to_it() -> None:
    machine = Machine()
    log = machine.open()
    for number in range(4):
        log.append_as_leader(produced(1, number, b"a"), leader_epoch=0)
        log.roll()
    assert snapshots(machine) == [1, 2, 3, 4]

    log.truncate_to(3)
    assert (snapshots(machine), last_sequence(log)) == ([1, 2, 3], 2)
    log.truncate_to(2)
    assert (snapshots(machine), last_sequence(log)) == ([1, 2], 1)
    log.truncate_to(0)

    assert (snapshots(machine), log.producers.is_empty) == ([], True)


def test_without_snapshots_truncation_rebuilds_from_the_batches() -> None:
    machine = Machine()
    log = machine.open()
    for number in range(3):
        log.append_as_leader(produced(1, number, b"a"), leader_epoch=0)
        log.roll()
    for offset in list(log.producers.snapshots.offsets):
        log.producers.snapshots.delete(offset)

    log.truncate_to(2)

    assert last_sequence(log) == 1


@pytest.mark.parametrize("kept", [[0, 3], [1], []])
def test_the_last_sequence_of_a_compacted_batch_is_its_header_s(kept: list[int]) -> None:
    log = Machine().open()
    log.append_as_follower(compacted(0, [0, 1, 2, 3], kept), leader_epoch=0)
    log.append_as_follower(batch(b"x", base_offset=4), leader_epoch=0)
    assert last_sequence(log) == 3

    log.truncate_to(4)

    assert last_sequence(log) == 3
    assert [record.offset for record in read_all(log)] == kept


def test_deleting_records_keeps_what_is_known_of_their_producers() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)
    log.append_as_leader(produced(2, 0, b"b"), leader_epoch=0)

    log.delete_records(1)
    assert sorted(log.producers.producers) == [1, 2]
    log = machine.reopen(log)

    assert sorted(log.producers.producers) == [1, 2]


def test_a_producer_that_is_silent_for_a_day_is_forgotten() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)
    log.append_as_leader(produced(2, 0, b"t", transactional=True), leader_epoch=0)

    log.producers.remove_expired_producers(NOW + DAY_MS - 1)
    assert sorted(log.producers.producers) == [1, 2]
    log.producers.remove_expired_producers(NOW + DAY_MS)

    assert sorted(log.producers.producers) == [2]


def test_a_restart_goes_on_where_each_producer_was() -> None:
    machine = Machine()
    log = machine.open()
    sent = [produced(1, number, b"a") for number in range(3)]
    for data in sent:
        log.append_as_leader(data, leader_epoch=0)

    log = machine.reopen(log)

    assert log.append_as_leader(sent[2], leader_epoch=0).first_offset == 2
    assert log.append_as_leader(produced(1, 3, b"b"), leader_epoch=0).first_offset == 3
