"""Segments that go: renamed at once, deleted later, with their snapshots and epochs."""

from __future__ import annotations

from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.retention import Rule
from tests.log.model import Machine, batch, produced
from tests.log.segmented import SET_SIZE, fill, filled, machine, rules, with_a_producer


def test_segments_are_renamed_at_once_and_deleted_after_the_delay(machine: Machine) -> None:
    log = filled(machine)
    machine.scheduler.run_due()

    log.truncate_to(2)
    assert f"{5:020d}.log.deleted" in machine.files()
    assert f"{5:020d}.snapshot.deleted" in machine.files()
    machine.clock.sleep(999)
    machine.scheduler.run_due()
    assert len(machine.files(".deleted")) == 4
    machine.clock.sleep(1)
    machine.scheduler.run_due()

    assert machine.files(".deleted") == []


def test_files_are_renamed_and_deleted_after_their_delay() -> None:
    own = machine(retention_ms=0)
    log = fill(own.open(), 12, timestamp=10)

    log.delete_old_segments()
    assert len(own.files(".log.deleted")) == 3
    own.clock.sleep(999)
    own.scheduler.run_due()
    assert own.files(".log.deleted")

    own.clock.sleep(1)
    own.scheduler.run_due()

    assert own.files(".deleted") == []
    assert own.files(".log") == [f"{12:020d}.log"]


def test_snapshots_go_with_their_segments() -> None:
    own = machine(retention_ms=0)
    log = own.open()
    for number in range(11):
        log.append_as_leader(produced(1, number, b"%04d" % number, timestamp=10), leader_epoch=0)
    assert own.files(".snapshot") == [f"{base:020d}.snapshot" for base in (5, 10)]

    log.delete_old_segments()
    own.clock.sleep(1000)
    own.scheduler.run_due()

    assert own.files(".snapshot") == [f"{11:020d}.snapshot"]
    assert list(log.producers.producers) == [1]


def test_snapshots_below_a_start_that_moved_go_with_their_segments() -> None:
    own = machine()
    log = own.open()
    for number in range(11):
        log.append_as_leader(produced(1, number, b"%04d" % number), leader_epoch=0)
    log.delete_records(7)

    assert rules(log) == [Rule.LOG_START]
    log.delete_records(10)
    log.delete_old_segments()
    own.clock.sleep(1000)
    own.scheduler.run_due()

    assert own.files(".snapshot") == [f"{10:020d}.snapshot"]


def test_epochs_of_deleted_segments_are_forgotten() -> None:
    log = machine(retention_bytes=5 * SET_SIZE).open()
    for number in range(15):
        log.append_as_leader(batch(b"%04d" % number), leader_epoch=number // 5)

    log.delete_old_segments()

    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(2, 10)]


def test_compaction_keeps_the_snapshot_at_the_base_of_a_segment_that_it_writes() -> None:
    own = machine()
    log = with_a_producer(own)
    before = len(log.segments)

    pair = {"internal.segment.bytes": 2 * log.segments.first.size}  # two become one
    log.config = log.config.with_overrides(pair)
    log.clean(0, log.segments.active.base_offset, OffsetMap(10_000))
    own.clock.sleep(1000)
    own.scheduler.run_due()

    bases = [segment.base_offset for segment in log.segments]
    assert 2 < len(bases) < before
    assert own.files(".snapshot") == [f"{base:020d}.snapshot" for base in bases[1:]]


def test_compaction_keeps_the_snapshots_of_segments_that_are_there() -> None:
    own = machine()
    log = with_a_producer(own)

    log.config = log.config.with_overrides({"internal.segment.bytes": 10_000})  # all fits into one now
    log.clean(0, log.segments.active.base_offset, OffsetMap(10_000))
    own.clock.sleep(1000)
    own.scheduler.run_due()

    assert own.files(".snapshot") == [f"{log.segments.active.base_offset:020d}.snapshot"]
    assert len(log.segments) == 2
