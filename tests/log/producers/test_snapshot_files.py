"""The snapshots of a partition: when they are written, which are kept, and what becomes of damaged ones."""

from __future__ import annotations

from tests.log.model import Machine, batch, produced
from tests.log.producing import last_sequence, snapshots


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
