"""A log manager before its first checkpoint: flushes, deletions and truncations survive a power cut."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from stratalog.files.disk import Path as DiskPath
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from stratalog.manager.manager import LogManager
from tests.log.model import batch
from tests.manager.running import values
from tests.manager.test_manager_crashes import manager_on as any_manager_on
from tests.manager.test_manager_crashes import new_disk

if TYPE_CHECKING:
    from stratalog.files.disk import Data

ORDERS = TopicPartition("orders", 0)
SETTINGS = {"internal.segment.bytes": 300, "segment.index.bytes": 120}


def manager_on(disk: SimulatedDisk) -> LogManager:
    return any_manager_on(disk, settings=SETTINGS, high_watermark_follows_end=True)


def started() -> tuple[SimulatedDisk, LogManager, Log]:
    disk = new_disk()
    manager = manager_on(disk)
    manager.startup()
    return disk, manager, manager.get_or_create_log(ORDERS, is_new=True)


def fill(log: Log, end: int, life: str = "old") -> None:
    while log.log_end_offset < end:
        log.append_as_leader(batch(value_of(log.log_end_offset, life)), leader_epoch=0)


def value_of(offset: int, life: str = "old") -> bytes:
    return f"{life} {offset:04d} ".encode() * 4


def found_after(disk: SimulatedDisk) -> list[tuple[int, int, list[bytes]]]:
    """Where the log starts and ends, and what is in it, on each disk that a power cut now may leave."""
    found = []
    for image in disk.crash(300):
        manager = manager_on(image)
        manager.startup()
        log = manager.get_log(ORDERS)
        assert log is not None
        found.append((log.log_start_offset, log.log_end_offset, values(log)))
        manager.shutdown()
    return found


def test_flushed_records_and_the_start_are_there_before_the_first_checkpoint() -> None:
    disk, _, log = started()
    fill(log, 14)
    log.delete_records(13)
    log.flush()

    found = found_after(disk)

    assert found == [(13, 14, [value_of(13)])] * len(found)


@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_a_truncation_lowers_the_recovery_point_before_it_cuts(is_checkpointed: bool) -> None:
    disk, manager, log = started()
    fill(log, 14)
    log.flush()
    if is_checkpointed:
        manager.checkpoint_log_recovery_offsets()
        manager.checkpoint_high_watermarks()
    log.truncate_to(5)
    fill(log, 6, "new")
    log.flush()

    found = found_after(disk)

    assert found == [(0, 6, [*map(value_of, range(5)), value_of(5, "new")])] * len(found)


class WaitingDisk(SimulatedDisk):
    """Which lets one writing of a checkpoint, by default of the recovery points, wait in the middle."""

    def __init__(self, awaited: str = "recovery-point") -> None:
        super().__init__()
        self.is_armed = False
        self._awaited = awaited
        self.started, self.go_on = threading.Event(), threading.Event()

    def write_at(self, path: DiskPath, data: Data, position: int) -> None:
        if self.is_armed and self._awaited in str(path):
            self.is_armed = False
            self.started.set()
            assert self.go_on.wait(10)
        super().write_at(path, data, position)


def test_a_recovery_point_that_was_read_before_a_truncation_is_not_written_after_it() -> None:
    """The checkpoint on schedule and the truncation are in two threads."""
    disk = WaitingDisk()
    disk.make_directories("/data")
    manager = manager_on(disk)
    manager.startup()
    log = manager.get_or_create_log(ORDERS, is_new=True)
    fill(log, 14)
    log.flush()
    manager.checkpoint_log_recovery_offsets()
    disk.is_armed = True
    writing = threading.Thread(target=manager.checkpoint_log_recovery_offsets)
    writing.start()
    assert disk.started.wait(10)
    truncating = threading.Thread(target=log.truncate_to, args=(4,))
    truncating.start()
    truncating.join(0.05)

    disk.go_on.set()
    writing.join()
    truncating.join()

    (directory,) = manager.directories
    assert directory.checkpoints.recovery_points.read() == {ORDERS: 4}


def test_the_start_of_a_log_is_kept_until_the_old_names_are_gone_from_the_device() -> None:
    disk, manager, log = started()
    fill(log, 14)
    log.flush()
    log.delete_records(10)
    log.delete_old_segments()
    manager.checkpoint_log_start_offsets()

    found = found_after(disk)

    assert found == [(10, 14, [value_of(offset) for offset in range(10, 14)])] * len(found)


def test_a_start_that_another_thread_is_storing_is_acknowledged_only_when_it_is_stored() -> None:
    disk = WaitingDisk("log-start-offset")
    disk.make_directories("/data")
    disk.sync_everything()
    manager = manager_on(disk)
    manager.startup()
    log = manager.get_or_create_log(ORDERS, is_new=True)
    fill(log, 14)
    log.flush()
    disk.is_armed = True
    acknowledged: list[tuple[int, list[SimulatedDisk]]] = []
    first = threading.Thread(target=log.delete_records, args=(10,))
    first.start()
    assert disk.started.wait(10)
    second = threading.Thread(target=lambda: acknowledged.append((log.delete_records(9), disk.crash(300))))
    second.start()
    second.join(0.2)

    disk.go_on.set()
    first.join()
    second.join()

    ((start, images),) = acknowledged
    assert start == 10
    assert {found[0] for image in images for found in found_after(image)} == {10}
