"""Flushed records are there after a power cut, whatever was deleted before and however the files began."""

from __future__ import annotations

import errno
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Path as DiskPath
from stratalog.files.names import LOG_START_OFFSET_CHECKPOINT
from stratalog.files.simulated import SimulatedDisk
from stratalog.records.control import ControlType
from tests.log.crashing import fill, new_disk, opened, value_of, values
from tests.log.model import Machine, ManualClock, ManualScheduler, append_marker, batch, produced
from tests.waiting import PATIENCE_S, AwaitedLock

MOST = 300  # images of one power cut: without the syncs there are very many


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def found_on(images: list[SimulatedDisk], directory: Path) -> list[tuple[int, int, dict[int, bytes]]]:
    """Where the log starts and ends, and what is in it, on each of these disks."""
    found = []
    for image in images:
        with opened(directory, image) as log:
            found.append((log.start_offset, log.end_offset, values(log)))
    return found


def test_records_that_were_flushed_after_delete_records_are_there_after_a_power_cut(directory: Path) -> None:
    disk = new_disk(directory)
    with opened(directory, disk) as log:
        fill(log, 14)
        log.delete_records(13)
        log.flush()
        images = disk.crash(MOST)

    found = found_on(images, directory)
    assert found == [(13, 14, {13: value_of(13)})] * len(found)


def test_a_segment_below_the_start_is_synced_by_a_flush() -> None:
    """A closed segment that was never synced, torn by a power cut: recovery would end the log there."""
    machine = Machine(internal_segment_bytes=300, segment_index_bytes=240)
    log = machine.open()
    for number in range(10):
        log.append_as_leader(batch(b"%04d" % number * 10), leader_epoch=0)

    log.delete_records(9)
    point = log.recovery_point
    log.flush()

    assert isinstance(machine.disk, SimulatedDisk)
    logs = {name: data for name, data in machine.disk.contents().items() if name.endswith(".log")}
    assert len(logs) > 3
    for image in machine.disk.crash(MOST):
        assert {name: image.contents().get(name) for name in logs} == logs
    assert (point, log.recovery_point) == (0, 10)


def test_the_background_flush_covers_what_was_deleted_before_it(directory: Path) -> None:
    disk = new_disk(directory)
    scheduler = ManualScheduler(ManualClock())
    with opened(directory, disk, scheduler=scheduler) as log:
        fill(log, 8)
        log.delete_records(7)
        scheduler.run_due()

        synced = log.log.recovery_point
        logs = [segment.log_path for segment in log.log.segments][:-1]
        assert synced == log.log.segments.active.base_offset
        for image in disk.crash(MOST):
            assert all(image.contents().get(name) == disk.contents()[name] for name in logs)


@pytest.mark.parametrize("flushes_first", [False, True])
def test_a_segment_that_retention_gave_up_does_not_come_back_torn(
    directory: Path, flushes_first: bool
) -> None:
    disk = new_disk(directory)
    scheduler = ManualScheduler(ManualClock())
    with opened(directory, disk, scheduler=scheduler) as log:
        fill(log, 7)
        if flushes_first:
            log.flush()
            fill(log, 3)
        end = log.end_offset
        log.log.delete_records(end - 1)
        assert log.log.delete_old_segments()
        log.flush()
        images = disk.crash(MOST)

    found = found_on(images, directory)
    assert found == [(end - 1, end, {end - 1: value_of(end - 1)})] * len(found)


def test_records_that_retention_deleted_do_not_come_back(directory: Path) -> None:
    disk = new_disk(directory)
    with opened(directory, disk) as log:
        fill(log, 14)
        log.flush()
        log.log.delete_records(10)
        log.log.delete_old_segments()
        images = disk.crash(MOST)

    found = found_on(images, directory)
    assert {start for start, _, _ in found} == {10}
    assert all(set(read) == {10, 11, 12, 13} for _, _, read in found)


def test_a_start_that_was_acknowledged_is_there_after_a_power_cut(directory: Path) -> None:
    disk = new_disk(directory)
    with opened(directory, disk) as log:
        fill(log, 4)
        log.flush()
        log.delete_records(2)
        images = disk.crash(MOST)

    found = found_on(images, directory)
    assert {(start, end) for start, end, _ in found} == {(2, 4)}


class StoppedDisk(SimulatedDisk):
    """The thread that is about to sync the new start checkpoint waits until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_armed = self.fails = False
        self.reached, self.go_on = threading.Event(), threading.Event()

    def sync(self, path: DiskPath) -> None:
        if self.is_armed and LOG_START_OFFSET_CHECKPOINT in str(path):
            self.is_armed = False
            self.reached.set()
            assert self.go_on.wait(PATIENCE_S)
            if self.fails:
                raise DiskError(path, "a test", errno.EIO)
        super().sync(path)


def test_a_start_that_another_thread_is_storing_is_acknowledged_only_when_it_is_stored(
    directory: Path,
) -> None:
    disk = StoppedDisk()
    disk.make_directories(str(directory.parent))
    disk.sync_everything()
    acknowledged: list[tuple[int, list[SimulatedDisk]]] = []
    with opened(directory, disk) as log:
        fill(log, 4)
        log.flush()
        disk.is_armed = True
        lock = log.log._guard.flush_lock = AwaitedLock()
        first = threading.Thread(target=log.delete_records, args=(2,))
        first.start()
        assert disk.reached.wait(PATIENCE_S)
        second = lock.waiter(lambda: acknowledged.append((log.delete_records(2), disk.crash(MOST))))
        second.start()
        assert lock.is_awaited.wait(PATIENCE_S)

        disk.go_on.set()
        first.join()
        second.join()

    ((start, images),) = acknowledged
    assert {start, *(found for found, _, _ in found_on(images, directory))} == {2}


def test_a_start_whose_storing_failed_in_another_thread_is_not_acknowledged(directory: Path) -> None:
    """After a sync that failed, no later one is believed."""
    disk = StoppedDisk()
    disk.make_directories(str(directory.parent))
    outcomes: list[object] = []
    with opened(directory, disk) as log:
        fill(log, 4)
        log.flush()
        disk.is_armed = disk.fails = True

        def delete() -> None:
            try:
                outcomes.append(log.delete_records(2))
            except DiskError as error:
                outcomes.append(error.errno)

        lock = log.log._guard.flush_lock = AwaitedLock()
        threads = [threading.Thread(target=delete), lock.waiter(delete)]
        threads[0].start()
        assert disk.reached.wait(PATIENCE_S)
        threads[1].start()
        assert lock.is_awaited.wait(PATIENCE_S)
        disk.go_on.set()
        for thread in threads:
            thread.join()

    assert outcomes == [errno.EIO, errno.EIO]


@pytest.mark.parametrize("again", ["delete_records", "flush"])
@pytest.mark.parametrize("comes_at", ["write", "sync", "rename", "sync the directory"])
def test_a_start_whose_storing_was_interrupted_is_stored_by_the_next_call(
    directory: Path, comes_at: str, again: str
) -> None:
    """Ctrl-C does not fail the log, and the start has moved in memory: the retry brings no news."""
    disk = new_disk(directory)
    steps: list[str] = []

    def interrupt(action: str, path: DiskPath) -> None:
        del path
        steps.append(action)
        if action.startswith(comes_at.split()[0]) and (" " not in comes_at or "rename" in steps):
            disk.before_step = None
            raise KeyboardInterrupt

    with opened(directory, disk) as log:
        fill(log, 4)
        log.flush()
        disk.before_step = interrupt
        with pytest.raises(KeyboardInterrupt):
            log.delete_records(2)
        _ = log.delete_records(2) if again == "delete_records" else log.flush()
        images = disk.crash(MOST)

    assert {start for start, _, _ in found_on(images, directory)} == {2}


@pytest.mark.parametrize("comes_at", ["read", "write", "sync", "rename"])
def test_a_start_that_a_signal_handler_was_told_is_stored_is_there_after_a_power_cut(
    directory: Path, comes_at: str
) -> None:
    """The call that it interrupted wrote the older start over it."""
    disk = new_disk(directory)
    told: list[int] = []

    def handler(action: str, path: DiskPath) -> None:
        del path
        if action.startswith(comes_at):
            disk.before_step = None
            with suppress(UsageError):
                told.append(log.delete_records(5))

    with opened(directory, disk) as log:
        fill(log, 6)
        log.delete_records(1)
        log.flush()
        disk.before_step = handler
        told.append(log.delete_records(4))
        assert disk.before_step is None
        images = disk.crash(MOST)

    assert {start for start, _, _ in found_on(images, directory)} == {max(told)}


def test_deleting_the_same_records_again_reads_no_checkpoint(directory: Path) -> None:
    disk = new_disk(directory)
    steps: list[str] = []
    with opened(directory, disk) as log:
        fill(log, 4)
        log.delete_records(2)
        disk.before_step = lambda action, _: steps.append(action)

        log.delete_records(2)
        log.delete_records(1)
        disk.before_step = None

    assert steps == []


def test_an_abort_whose_index_was_created_after_a_flush_still_counts_after_a_power_cut() -> None:
    """Its segment is below the recovery point by then, and is not scanned: the .txnindex must be there."""
    machine = Machine()
    log = machine.open()
    log.append_as_leader(produced(1, 0, b"a", transactional=True), leader_epoch=0)
    log.flush()
    append_marker(log, 1, ControlType.ABORT)
    log.roll()
    machine.scheduler.run_due()
    assert log.recovery_point == 2

    assert isinstance(machine.disk, SimulatedDisk)
    name = log.segments.first.reader.txn_index.path
    for image in machine.disk.crash(MOST):
        assert len(image.contents().get(name, b"")) == 34


def test_a_log_whose_creation_was_cut_short_keeps_its_name_once_it_is_flushed(directory: Path) -> None:
    """The process died between the directory and the sync of its parent; the next one appends to it."""
    disk = new_disk(directory)
    disk.make_directory(str(directory))
    with opened(directory, disk) as log:
        fill(log, 1)
        log.flush()
        images = disk.crash(MOST)

    found = found_on(images, directory)
    assert found == [(0, 1, {0: value_of(0)})] * len(found)


def test_flushing_again_asks_the_directory_for_nothing(directory: Path) -> None:
    disk = CountingDisk()
    disk.make_directories(str(directory.parent))
    disk.sync_everything()
    with opened(directory, disk) as log:
        fill(log, 1)
        log.flush()
        before = disk.synced_directories
        fill(log, 1)
        log.flush()

        assert disk.synced_directories == before


class CountingDisk(SimulatedDisk):
    """Which counts how often a directory was synced."""

    synced_directories = 0

    def sync_directory(self, path: DiskPath) -> None:
        self.synced_directories += 1
        super().sync_directory(path)
