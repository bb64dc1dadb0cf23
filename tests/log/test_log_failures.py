"""A log whose disk refuses, whose thread is interrupted, or whose flush meets another thread."""

from __future__ import annotations

import errno
import threading

import pytest

from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Path
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.appender import Appender
from stratalog.log.log import Log
from tests.log.model import Machine, batch, produced
from tests.waiting import PATIENCE_S


def history(log: Log) -> None:
    """An append, a roll, a truncation and another append: every kind of change."""
    log.append_as_leader(batch(b"a", b"b"), leader_epoch=0)
    log.append_as_leader(batch(b"c"), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(b"d"), leader_epoch=0)
    log.truncate_to(2)
    log.append_as_leader(batch(b"e"), leader_epoch=0)


def steps_of_history() -> int:
    machine = Machine()
    log = machine.open()
    assert isinstance(machine.disk, SimulatedDisk)
    before = machine.disk.steps
    history(log)
    return machine.disk.steps - before


@pytest.mark.parametrize("step", range(steps_of_history()))
def test_a_log_that_failed_does_not_close_as_if_it_had_not(step: int) -> None:
    machine = Machine()
    log = machine.open()
    assert isinstance(machine.disk, SimulatedDisk)
    machine.disk.fail_at(machine.disk.steps + step + 1, errno.EIO)
    with pytest.raises(DiskError):
        history(log)

    with pytest.raises(DiskError):
        log.close()
    assert log.failure is not None


def test_an_append_that_is_interrupted_fails_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Appender, "_take_over", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.append_as_leader(batch(b"b"), leader_epoch=0)
    monkeypatch.undo()

    with pytest.raises(DiskError, match="KeyboardInterrupt"):
        log.append_as_leader(batch(b"c"), leader_epoch=0)


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


class SlowDisk(SimulatedDisk):
    """Whose first sync of a .log waits to be let go on."""

    def __init__(self) -> None:
        super().__init__()
        self.started, self.go_on = threading.Event(), threading.Event()

    def sync(self, path: Path) -> None:
        if str(path).endswith(".log") and not self.started.is_set():
            self.started.set()
            assert self.go_on.wait(PATIENCE_S)
        super().sync(path)


def slow_log() -> tuple[SlowDisk, Log, threading.Thread]:
    """A log with one record, and a thread that is in the middle of flushing it."""
    disk = SlowDisk()
    disk.make_directories("/logs/orders-0")
    log = Machine(disk, "/logs/orders-0").open()
    log.append_as_leader(batch(b"a", b"b", b"c"), leader_epoch=0)
    thread = threading.Thread(target=log.flush)
    thread.start()
    assert disk.started.wait(PATIENCE_S)
    return disk, log, thread


def test_a_second_flush_waits_for_the_device_too() -> None:
    disk, log, first = slow_log()
    second = threading.Thread(target=log.flush)
    second.start()

    second.join(0.05)
    waited, point = second.is_alive(), log.recovery_point
    disk.go_on.set()
    first.join()
    second.join()

    assert (waited, point, log.recovery_point) == (True, 0, 3)


class RenamingDisk(SlowDisk):
    """Which lets the sync go on when the segment's files have been renamed, and no new one is there yet."""

    flushing: threading.Thread | None = None

    def create(self, path: Path, size: int = 0) -> None:
        if self.flushing is not None:
            self.go_on.set()
            self.flushing.join(0.2)  # it may have to wait for the roll
        super().create(path, size)


def test_a_forced_flush_while_an_empty_segment_is_rolled_again_fails_nothing() -> None:
    disk = RenamingDisk()
    disk.make_directories("/logs/orders-0")
    log = Machine(disk, "/logs/orders-0").open(embedded=False)  # the only copy keeps an empty segment
    flushing = threading.Thread(target=log.flush, kwargs={"force": True})
    flushing.start()
    assert disk.started.wait(PATIENCE_S)

    disk.flushing = flushing
    log.roll()
    flushing.join()

    assert log.failure is None
    log.append_as_leader(batch(b"a"), leader_epoch=0)


def test_records_that_a_close_has_flushed_are_appended_without_complaint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It came between the append and the flush that is due by flush.messages."""
    machine = Machine(flush_messages=1)
    log = machine.open()
    real = log.flush

    def closed_meanwhile() -> None:
        monkeypatch.undo()
        log.close()
        real()

    monkeypatch.setattr(log, "flush", closed_meanwhile)
    info = log.append_as_leader(batch(b"a"), leader_epoch=0)

    assert info.last_offset == 0
    assert machine.open().log_end_offset == 1


def test_a_truncation_waits_for_a_flush_and_the_recovery_point_stays_in_the_log() -> None:
    disk, log, flushing = slow_log()
    truncating = threading.Thread(target=log.truncate_to, args=(0,))
    truncating.start()

    disk.go_on.set()
    flushing.join()
    truncating.join()
    log.append_as_leader(batch(b"d"), leader_epoch=0)

    assert (log.recovery_point, log.log_end_offset, log.failure) == (0, 1, None)


def test_appends_go_on_while_a_flush_waits_for_the_device() -> None:
    disk, log, flushing = slow_log()

    log.append_as_leader(batch(b"d"), leader_epoch=0)
    end = log.log_end_offset
    disk.go_on.set()
    flushing.join()

    assert (end, log.recovery_point) == (4, 3)


def test_no_reader_sees_the_high_watermark_pass_a_transaction_that_just_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    seen: list[int] = []
    real = log.producers.on_high_watermark_updated

    def watched(offset: int) -> None:
        seen.append(log.last_stable_offset)
        real(offset)
        seen.append(log.last_stable_offset)

    monkeypatch.setattr(log.producers, "on_high_watermark_updated", watched)
    log.append_as_leader(produced(1, 0, b"open", transactional=True), leader_epoch=0)

    assert {*seen, log.last_stable_offset} == {1}


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
