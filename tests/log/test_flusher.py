"""The recovery point: what is on the device before it moves. Crashes are in `test_flush_crash.py`."""

from __future__ import annotations

import errno
import threading
from pathlib import PurePath

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Path
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from tests.log.model import Machine, batch
from tests.log.watched import WatchedDisk, watched
from tests.waiting import PATIENCE_S

LOG, SECOND = "00000000000000000000.log", "00000000000000000001.log"


def two_segments() -> tuple[WatchedDisk, Log]:
    """A replica's log, which leaves syncing to the background: segments 0 and 1 with a record each."""
    disk, machine = watched()
    log = machine.open(embedded=False)
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(b"b"), leader_epoch=0)
    disk.done.clear()
    return disk, log


def test_bytes_and_names_are_on_the_device_before_the_point_moves() -> None:
    disk, log = two_segments()

    log._flusher.flush_up_to(2)

    assert disk.of_logs() == [f"sync {LOG}", f"sync {SECOND}", "sync orders-0/"]
    assert log.recovery_point == 2


def test_a_flush_up_to_an_offset_leaves_later_segments_alone() -> None:
    disk, log = two_segments()

    log._flusher.flush_up_to(1)

    assert disk.of_logs() == [f"sync {LOG}", "sync orders-0/"]
    assert log.recovery_point == 1


def test_what_is_flushed_is_not_flushed_again() -> None:
    disk, log = two_segments()
    log._flusher.flush_up_to(2)
    disk.done.clear()

    log._flusher.flush_up_to(2)

    assert disk.done == []


def test_the_point_stays_where_a_sync_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = two_segments()

    def refuse(path: Path) -> None:
        if PurePath(path).name == SECOND:
            raise DiskError(path, "it is broken.", errno.EIO)

    monkeypatch.setattr(disk, "sync", refuse)
    with pytest.raises(DiskError):
        log._flusher.flush_up_to(2)

    assert log.recovery_point == 0


def test_the_point_never_passes_the_end() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    log._flusher.flush_up_to(2)  # with an empty active segment's files

    assert log.recovery_point == 1


def test_lowering_moves_the_point_back_and_never_forwards() -> None:
    log = Machine().open()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.flush()

    log._flusher.lower(2)
    log._flusher.lower(5)

    assert log.recovery_point == 2


def test_a_flush_in_the_background_leaves_a_failed_log_alone() -> None:
    disk, log = two_segments()
    log._guard.failure = DiskError("/logs/orders-0", "it is broken.")

    log._flusher.flush_rolled(1)

    assert (disk.done, log.recovery_point) == ([], 0)


class SlowDisk(SimulatedDisk):
    """A disk whose first sync of a .log waits until it may go on."""

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
