"""The files of a lone log, and the log directory that takes them over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.lone_files import LoneFiles
from stratalog.directory.recovery.recover import recover_directories
from stratalog.files.simulated import PowerCut, SimulatedDisk
from tests.directory.lone import MARK, ORDERS, STARTS, left_open, lone, started_at
from tests.jobs.writing.sinking import NoLock
from tests.log.model import batch
from tests.manager.running import Node, checkpoint


@pytest.mark.parametrize("make", [lone, left_open])
def test_deleted_records_do_not_come_back_when_a_manager_takes_the_directory(
    tmp_path: Path, make: Callable[..., None]
) -> None:
    log_directory = tmp_path / "orders-0"
    with open_log(log_directory, create=True) as log:
        log.append_many([b"%d" % number for number in range(80)])  # one batch: no file tells where it starts
    make(log_directory, start=50)

    assert started_at(tmp_path)[0] == 50
    assert checkpoint(tmp_path, STARTS) == {"orders-0": 50}
    assert started_at(tmp_path)[0] == 50
    assert not (log_directory / STARTS).exists()
    assert not (log_directory / MARK).exists()
    with open_log(log_directory) as log:
        assert (log.start_offset, log.end_offset) == (50, 80)


def test_a_start_from_before_is_not_believed_later(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a", b"b", b"c", start=2)
    with Node(tmp_path).running() as manager:
        manager.truncate_fully_and_start_at(ORDERS, 0)
        log = manager.get_log(ORDERS)
        assert log is not None
        log.append_as_leader(batch(b"new"), leader_epoch=0)

    assert started_at(tmp_path) == (0, [b"new"])


def test_the_later_one_of_two_starts_counts(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a", b"b", b"c", start=1)
    copy = shutil.copytree(tmp_path / "orders-0", tmp_path.parent / "orders-0")
    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        log = manager.get_log(ORDERS)
        assert log is not None
        log.delete_records(2)
    for name in (MARK, STARTS):  # as a broker leaves them that had the directory before
        shutil.copy(copy / name, tmp_path / "orders-0" / name)

    assert started_at(tmp_path)[0] == 2


def test_a_partition_that_is_copied_out_is_not_trusted(tmp_path: Path) -> None:
    """An old clean-shutdown file, from before a manager had the log, must not cover what came since."""
    lone(tmp_path / "data" / "orders-0", b"a")
    with Node(tmp_path / "data").running():
        shutil.copytree(tmp_path / "data" / "orders-0", tmp_path / "orders-0")

    assert not (tmp_path / "orders-0" / MARK).exists()
    with open_log(tmp_path / "orders-0") as log:
        assert [record.value for record in log.records()] == [b"a"]


def test_the_start_of_a_partition_that_is_copied_out_goes_along_with_the_checkpoint(tmp_path: Path) -> None:
    lone(tmp_path / "data" / "orders-0", b"a", b"b", start=1)
    with Node(tmp_path / "data").running():
        pass
    copy = shutil.copytree(tmp_path / "data" / "orders-0", tmp_path / "orders-0")
    shutil.copy(tmp_path / "data" / STARTS, copy / STARTS)

    with open_log(copy) as log:
        assert (log.start_offset, log.end_offset) == (1, 2)


def test_that_a_writer_has_the_log_open_is_on_the_device_before_it_changes_the_log() -> None:
    disk = SimulatedDisk.of({"/data/orders-0/00000000000000000000.log": b""})

    LoneFiles(disk, "/data/orders-0", ORDERS).before_change()

    assert {len(image.contents().get("/data/orders-0/.lock", b"")) for image in disk.crash()} == {1}


def test_files_that_a_log_directory_has_taken_over_do_not_come_back() -> None:
    """They may be older than the records by then: a copy of the log would trust them."""
    names = [f"/data/orders-0/{name}" for name in (MARK, STARTS)]
    disk = SimulatedDisk.of({names[0]: b'{"version":0,"brokerEpoch":-1}', names[1]: b"0\n1\norders 0 2\n"})

    LoneFiles(disk, "/data/orders-0", ORDERS).hand_over()

    assert [image for image in disk.crash() if image.contents().keys() & {*names}] == []


def test_a_crash_while_a_log_is_taken_over_loses_no_start(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"a", b"b", b"c", start=2)
    files = {f"/data/orders-0/{path.name}": path.read_bytes() for path in (tmp_path / "orders-0").iterdir()}

    def take_over(disk: SimulatedDisk) -> None:
        server = ServerConfig(ManagerConfig(), LogConfig(), ())
        report = recover_directories(["/data"], disk=disk, make_lock=NoLock, server=server)
        assert [found.error for found in report.directories] == [None]

    whole = SimulatedDisk.of(files)
    take_over(whole)
    images = 0
    for step in range(1, whole.steps + 1):
        disk = SimulatedDisk.of(files)
        disk.crash_at(step)
        with pytest.raises(PowerCut):
            take_over(disk)
        for image in disk.crash(most=20):
            images += 1
            take_over(image)
            contents = image.contents()
            assert contents[f"/data/{STARTS}"] == b"0\n1\norders 0 2\n"
            assert f"/data/orders-0/{STARTS}" not in contents
            assert f"/data/orders-0/{MARK}" not in contents
    assert images > 100
