"""What is known of producers, from snapshots and the batches after them."""

from __future__ import annotations

import pytest

from stratalog.records.build import BatchOptions, Record, build_batch, encode_batch
from stratalog.records.reader import read_batches
from tests.log.model import NOW, Machine, batch, produced, read_all
from tests.log.producing import last_sequence


def compacted(sequence: int, offsets: list[int], kept: list[int]) -> bytes:
    """A producer's batch of which compaction has kept some records."""
    whole = build_batch(
        [Record(offset, NOW, b"k", b"v") for offset in offsets],
        BatchOptions(producer_id=1, producer_epoch=0, base_sequence=sequence, partition_leader_epoch=0),
    )
    (found,) = read_batches(whole)
    return encode_batch(found.header, [record for record in found if record.offset in kept])


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


def test_a_restart_goes_on_where_each_producer_was() -> None:
    machine = Machine()
    log = machine.open()
    sent = [produced(1, number, b"a") for number in range(3)]
    for data in sent:
        log.append_as_leader(data, leader_epoch=0)

    log = machine.reopen(log)

    assert log.append_as_leader(sent[2], leader_epoch=0).first_offset == 2
    assert log.append_as_leader(produced(1, 3, b"b"), leader_epoch=0).first_offset == 3
