"""A log as a whole: settings, metrics, work at intervals, and a disk that refuses."""

from __future__ import annotations

import pytest

from stratalog.errors import DiskError
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from tests.log.model import Machine, batch, produced, read_all


def test_time_alone_flushes_where_flush_ms_says_so() -> None:
    machine = Machine(flush_ms=1000)
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    machine.clock.sleep(1000)
    machine.scheduler.run_due()

    assert log.recovery_point == 1


def test_producers_that_are_silent_for_a_day_are_forgotten() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)

    machine.clock.sleep(86_400_000 + 600_000)
    machine.scheduler.run_due()

    assert log.producers.producers == {}


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
