"""New segments: what is done to the one before, in which order, and when there is nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog import PartitionLog
from stratalog.errors import DiskError, UsageError
from stratalog.log.folder import LogFolder
from stratalog.log.offsets import OffsetMetadata
from stratalog.segment.segment import LogSegment
from tests import profile
from tests.log.crashing import crashed_at, fill, opened, steps_of, value_of, values
from tests.log.model import DIRECTORY, NOW, Machine, ManualScheduler, batch, produced, read_all
from tests.log.segmented import filled
from tests.log.watched import watched

LOG, SECOND = "00000000000000000000.log", "00000000000000000001.log"


@pytest.mark.parametrize(
    ("embedded", "before"),
    [(True, [f"sync {LOG}", "sync orders-0/", f"create {SECOND}"]), (False, [f"create {SECOND}"])],
)
def test_the_only_copy_is_on_the_device_before_it_goes_on_in_a_new_file(
    embedded: bool, before: list[str]
) -> None:
    disk, machine = watched()
    log = machine.open(embedded=embedded)
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    disk.done.clear()

    log._roller.roll()

    assert disk.of_logs() == before


def test_the_end_of_the_log_is_in_the_new_segment() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    segment = log._roller.roll()

    assert segment is log.segments.active
    assert log._marks.end == OffsetMetadata(1, 1, 0)


def test_a_snapshot_of_the_producers_is_taken_where_a_segment_begins() -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a"), leader_epoch=0)

    log._roller.roll()

    assert machine.files(".snapshot") == ["00000000000000000001.snapshot"]


def test_an_empty_segment_is_not_rolled_again_without_need() -> None:
    log = Machine().open()

    assert log._roller.roll() is log.segments.first
    assert len(log.segments) == 1


def test_a_replica_makes_an_empty_segment_anew_as_kafka_does() -> None:
    log = Machine().open(embedded=False)
    before = log.segments.first

    assert log._roller.roll() is not before
    assert log.segments.base_offsets == (0,)


def test_a_segment_with_records_is_not_begun_again() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log._marks.end = OffsetMetadata(0, 0, 0)

    with pytest.raises(UsageError, match="segment 0 has records in it"):
        log._roller.roll()


def test_a_roll_that_is_interrupted_is_done_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    create = LogFolder.create_segment
    calls: list[int] = []

    def interrupted(folder: LogFolder, base_offset: int) -> LogSegment:
        calls.append(base_offset)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return create(folder, base_offset)

    monkeypatch.setattr(LogFolder, "create_segment", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log._roller.roll()

    assert (log.segments.base_offsets, log.failure, calls) == ((0, 1), None, [1, 1])
    assert machine.disk.exists(f"{DIRECTORY}/{SECOND}")


def test_a_roll_that_is_interrupted_while_it_is_finished_fails_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its new file is there, and no segment in memory: the next roll would stumble over it."""
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(log.segments, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.roll()
    monkeypatch.undo()

    with pytest.raises(DiskError, match="KeyboardInterrupt"):
        log.roll()


def test_a_roll_that_is_refused_does_not_fail_the_log() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll(5)

    with pytest.raises(UsageError):
        log.roll(3)

    log.append_as_follower(batch(b"b", base_offset=5), leader_epoch=0)


def test_the_only_copy_keeps_an_empty_segment_when_it_is_rolled(machine: Machine) -> None:
    log = machine.open()
    active = log.segments.active

    assert log.roll() is active
    assert not machine.files(".deleted")


def test_rolling_an_empty_segment_makes_it_anew(machine: Machine) -> None:
    log = machine.open(embedded=False)
    old = log.segments.active

    new = log.roll()

    assert old is not new
    assert log.segments.base_offsets == (0,)
    assert f"{0:020d}.log.deleted" in machine.files()
    machine.clock.sleep(1000)
    machine.scheduler.run_due()
    log.append_as_leader(batch(b"x"), leader_epoch=0)
    assert [record.offset for record in read_all(log)] == [0]


def test_a_segment_can_be_rolled_to_a_base_above_the_end(machine: Machine) -> None:
    log = filled(machine, 2)

    assert log.roll().base_offset == 2
    assert log.roll(5).base_offset == 5
    assert log.log_end_offset == 2


def test_a_roll_below_the_active_segment_is_refused(machine: Machine) -> None:
    log = filled(machine, 2)
    log.roll(10)

    with pytest.raises(UsageError, match="before the active"):
        log.roll()


def test_a_roll_leaves_a_trimmed_segment_with_its_last_time_entry(machine: Machine) -> None:
    log = filled(machine, 3)

    log.roll()

    segment = log.segments.first
    assert machine.disk.size(segment.reader.offset_index.path) == 2 * 8
    assert tuple(segment.reader.time_index.last_entry) == (NOW + 20, 2)
    assert not machine.disk.exists(log.segments.active.reader.offset_index.path)


def test_what_a_roll_left_is_flushed_in_the_background(machine: Machine) -> None:
    log = filled(machine, 7)
    assert log.recovery_point == 0

    assert "flush-log" in machine.scheduler.run_due()

    assert log.recovery_point == 5


def unflushed(log: PartitionLog, _scheduler: ManualScheduler) -> None:
    """Several segments, none of which was flushed."""
    fill(log, 9)


@pytest.mark.parametrize("part", range(4))
def test_what_a_power_cut_leaves_of_unflushed_segments_is_a_beginning(part: int, tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    steps = steps_of(directory, unflushed) + 1
    chosen = range(1 + part, steps + 1, 4 * max(1, steps // profile.examples(steps, quick=12)))

    for step in chosen:
        for image in crashed_at(directory, unflushed, step).crash(most=20):
            with opened(directory, image) as log:
                found = values(log)
            assert found == {offset: value_of(offset) for offset in range(len(found))}, f"step {step}"
