"""How a log ends: cleanly, after a failure, after a move, and on a disk that refuses a step of it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog import PartitionLog
from stratalog.errors import DiskError, LogClosedError, LogMovedError
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from tests import profile
from tests.log.crashing import fill, new_disk, open_on, opened, values
from tests.log.model import DIRECTORY, Machine, batch
from tests.log.watched import watched

MARK = ".kafka_cleanshutdown"
COUNT = 5


def test_a_clean_close_ends_with_the_names() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    log._closer.close()

    assert disk.done[-1] == "sync orders-0/"
    assert machine.files(".snapshot") == ["00000000000000000001.snapshot"]
    assert (log.is_saved, log.recovery_point) == (True, 1)


def test_closing_again_has_no_effect() -> None:
    disk, machine = watched()
    log = machine.open()
    log._closer.close()
    disk.done.clear()

    log._closer.close()

    assert disk.done == []


def test_a_log_that_has_failed_saves_its_records_and_says_so() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log._guard.failure = DiskError(DIRECTORY, "no space", errno.ENOSPC)
    disk.done.clear()

    with pytest.raises(DiskError, match="no space"):
        log._closer.close()

    assert disk.done == ["sync 00000000000000000000.log", "sync orders-0/"]
    assert (log.is_saved, log.recovery_point) == (True, 0)


def test_a_sync_that_failed_once_is_not_believed_later() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.segments.active.has_failed_sync = True
    log._guard.failure = DiskError(DIRECTORY, "it is broken", errno.EIO)
    disk.done.clear()

    with pytest.raises(DiskError):
        log._closer.close()

    assert (disk.done, log.is_saved) == ([], False)


def test_a_log_that_was_moved_is_only_let_go_of() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log._guard.refusal = lambda: LogMovedError(DIRECTORY, "/other/orders-0")
    disk.done.clear()

    log._closer.close()

    assert (disk.done, log._guard.is_closed) == ([], True)


def test_letting_go_writes_nothing() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    disk.done.clear()

    log._closer.close_handlers()

    assert (disk.done, Machine(disk).files(".snapshot")) == ([], [])


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


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def filled(directory: Path, *, is_flushed: bool) -> tuple[SimulatedDisk, PartitionLog]:
    disk = new_disk(directory)
    log = open_on(directory, disk)
    fill(log, COUNT)
    log.delete_records(1)
    if is_flushed:
        log.flush()
    return disk, log


def refused_steps(directory: Path, *, is_flushed: bool) -> Iterator[tuple[SimulatedDisk, PartitionLog]]:
    """The log before a close of which one step will be refused; each step, and in two ways."""
    disk, log = filled(directory, is_flushed=is_flushed)
    before = disk.steps
    log.close()
    count = disk.steps - before
    every = max(1, count // profile.examples(count, quick=20))
    for step in range(1, count + 1, every):
        for number in (errno.EIO, errno.ENOSPC):
            disk, log = filled(directory, is_flushed=is_flushed)
            disk.fail_at(disk.steps + step, number)
            yield disk, log


def test_closing_does_not_raise_for_records_that_were_flushed(directory: Path) -> None:
    unmarked = 0
    for disk, log in refused_steps(directory, is_flushed=True):
        log.close()

        unmarked += not disk.exists(directory / MARK)
        with opened(directory, disk) as again:
            assert (again.start_offset, list(values(again))) == (1, list(range(1, COUNT)))

    assert unmarked > 10


def test_a_close_that_raises_nothing_has_brought_every_record_to_the_device(directory: Path) -> None:
    raised = 0
    for disk, log in refused_steps(directory, is_flushed=False):
        try:
            log.close()
        except DiskError:
            raised += 1
            continue
        for image in disk.crash(20):
            with opened(directory, image) as again:
                assert list(values(again)) == list(range(1, COUNT))

    assert raised > 0
