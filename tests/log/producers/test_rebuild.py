"""What is known of producers, from snapshots and the batches after them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stratalog.files.disk import Disk
from stratalog.log.append import analyze
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.analysis import replay_batches
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.snapshot import build_snapshot, parse_snapshot
from stratalog.records.build import BatchOptions, Record, build_batch, encode_batch
from stratalog.records.reader import read_batches
from tests.fixtures.catalog import Partition, partitions
from tests.log.model import NOW, Machine, batch, produced, read_all
from tests.log.producing import last_sequence

WRITTEN_AFTER = 1_750_000_000_000  # the clocks of the brokers that wrote the fixtures were past this
# Where compaction or deletion has taken batches away, a replay cannot find what the snapshot still knows.
REPLAYABLE = [
    partition
    for partition in partitions(state="clean")
    if not re.search("compacted|trimmed|short|__", partition.name)
]


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


@pytest.mark.parametrize("partition", REPLAYABLE, ids=str)
def test_replaying_a_brokers_log_gives_the_snapshot_it_left(partition: Partition, tmp_path: Path) -> None:
    state = ProducerStateManager(Disk(), tmp_path, clock=lambda: NOW)
    for log in partition.logs:
        info = analyze(
            log.read_bytes(), origin=AppendOrigin.REPLICATION, max_message_bytes=None, leader_epoch=2**31 - 1
        )
        base_offset = int(log.stem)
        snapshot = partition.path / f"{base_offset:020d}.snapshot"
        if snapshot.exists():
            assert _stored(state, snapshot) == _by_id(snapshot)
        replay_batches(state, info.data, info.batches)
    last = max(partition.path.glob("*.snapshot"))

    assert _stored(state, last) == _by_id(last)


def _stored(state: ProducerStateManager, theirs: Path) -> dict[int, ProducerStateEntry]:
    """The state as a snapshot keeps it, without those that the broker had forgotten when it wrote its own.

    Some records of the fixtures carry timestamps of years ago, and a broker forgets a producer after a day.
    """
    kept = _by_id(theirs)
    return {
        entry.producer_id: entry
        for entry in parse_snapshot(build_snapshot(state.producers.values()))
        if entry.producer_id in kept or entry.last_timestamp > WRITTEN_AFTER
    }


def _by_id(path: Path) -> dict[int, ProducerStateEntry]:
    return {entry.producer_id: entry for entry in parse_snapshot(path.read_bytes())}
