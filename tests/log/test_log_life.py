"""Opening, flushing, closing and failing: when bytes are on the device, and what a log does without one."""

from __future__ import annotations

import pytest

from stratalog.errors import DiskError, LogClosedError
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from tests.log.model import Machine, batch, read_all


def test_appending_does_not_flush() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    assert (log.recovery_point, log.log_end_offset) == (0, 1)


def test_flushing_moves_the_recovery_point_and_the_time() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    machine.clock.sleep(7)

    log.flush()

    assert (log.recovery_point, log.last_flushed_ms) == (1, machine.clock.now)


def test_every_so_many_records_are_flushed() -> None:
    log = Machine(flush_messages=3).open()
    points = []
    for _ in range(7):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
        points.append(log.recovery_point)

    assert points == [0, 0, 3, 3, 3, 6, 6]


def test_an_empty_segment_has_no_index_until_it_is_forced() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll()

    log.flush()
    assert machine.files(".index") == [f"{0:020d}.index"]
    log.flush(force=True)

    assert machine.files(".index") == [f"{0:020d}.index", f"{1:020d}.index"]


def test_what_is_flushed_survives_a_power_cut() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.flush()
    log.append_as_leader(batch(b"b"), leader_epoch=0)
    disk = machine.disk
    assert isinstance(disk, SimulatedDisk)

    for found in disk.crash():
        data = found.contents()[f"{machine.directory}/{0:020d}.log"]
        assert data.startswith(read_all_bytes(machine)[: len(batch(b"a"))])


def test_a_segment_that_is_flushed_has_its_name_after_a_power_cut() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(b"b"), leader_epoch=0)
    disk = machine.disk
    assert isinstance(disk, SimulatedDisk)

    log.flush()

    second = f"{machine.directory}/{1:020d}.log"
    written = disk.contents()[second]
    assert {found.contents().get(second) for found in disk.crash()} == {written}


def read_all_bytes(machine: Machine) -> bytes:
    return machine.disk.read_at(f"{machine.directory}/{0:020d}.log", 1 << 20, 0)


def append_some(log: Log) -> None:
    for _ in range(5):
        log.append_as_leader(batch(b"b"), leader_epoch=0)


@pytest.mark.parametrize("step", range(1, 4))
def test_a_disk_that_refuses_stops_the_log(step: int) -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    disk = machine.disk
    assert isinstance(disk, SimulatedDisk)
    for number in range(step, step + 200):
        disk.fail_at(disk.steps + number)

    with pytest.raises(DiskError):
        append_some(log)

    with pytest.raises(DiskError, match="has failed before"):
        log.append_as_leader(batch(b"c"), leader_epoch=0)
    with pytest.raises(DiskError, match="has failed before"):
        log.read(0, 100)


def test_a_snapshot_that_is_not_synced_keeps_the_recovery_point_back() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll()
    disk = machine.disk
    assert isinstance(disk, SimulatedDisk)
    disk.fail_at(disk.steps + 2)  # after looking whether the snapshot is there: its sync

    with pytest.raises(DiskError, match="snapshot"):
        machine.scheduler.run_due()

    assert log.recovery_point == 0


def test_closing_twice_is_closing_once() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    log.close()
    log.close()

    with pytest.raises(LogClosedError):
        log.append_as_leader(batch(b"b"), leader_epoch=0)
    with pytest.raises(LogClosedError):
        log.read(0, 100)


def test_letting_go_of_a_log_writes_nothing() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    disk = machine.disk
    assert isinstance(disk, SimulatedDisk)
    before = disk.contents()

    log.close_handlers()
    log.close_handlers()

    assert disk.contents() == before
    with pytest.raises(LogClosedError):
        log.roll()


def test_a_task_that_runs_after_closing_does_nothing() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll()
    log.close()
    assert isinstance(machine.disk, SimulatedDisk)
    steps = machine.disk.steps

    assert "flush-log" in machine.scheduler.run_due()
    assert machine.disk.steps == steps


def test_a_closed_log_is_not_asked_for_silent_producers_any_more() -> None:
    machine = Machine()
    machine.open().close()

    machine.clock.sleep(600_000)

    assert machine.scheduler.run_due() == ["producer expiration"]
    assert machine.scheduler.tasks == []


def test_another_configuration_counts_from_the_next_append_on() -> None:
    machine = Machine(internal_segment_bytes=10_000)
    log = machine.open()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
    assert len(log.segments) == 1

    log.config = machine.config.with_overrides({"internal.segment.bytes": 100})
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    assert log.segments.base_offsets == (0, 3)
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3]


def test_the_metrics_have_kafka_s_names() -> None:
    log = Machine(internal_segment_bytes=100).open()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.delete_records(1)

    assert log.metrics() == {
        "NumLogSegments": 3,
        "LogStartOffset": 1,
        "LogEndOffset": 3,
        "Size": 3 * len(batch(b"a")),
    }
