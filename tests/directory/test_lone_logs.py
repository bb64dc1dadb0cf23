"""A lone log and the log directory around it: the second program to open one of them is refused."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog import LogDirLockedError, LogManager, NeedsRecoveryError, open_log
from stratalog.cli import main
from stratalog.directory.lone_logs import was_shut_down
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.session import Unclean
from stratalog.errors import NotALogDirectoryError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock, is_locked
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.retain import Retention
from tests.directory.lone import (
    MARK,
    OPEN_LOG,
    OPEN_MANAGER,
    ORDERS,
    STARTS,
    left_open,
    lone,
    recover,
    start_and_stop,
    start_manager,
    write_a_row,
)
from tests.jobs.writing.sinking import Writing
from tests.manager.running import Node, checkpoint, values
from tests.programs import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lock is Linux's")


def plan_recovery(directory: Path) -> None:
    recover_directories([str(directory)], options=RecoveryChoices(dry_run=True))


def retain(directory: Path) -> None:
    Maintenance(directories=[str(directory)], unclean=Unclean.RECOVER).run(Retention())


def plan_retention(directory: Path) -> None:
    Maintenance(directories=[str(directory)], unclean=Unclean.RECOVER, dry_run=True).run(Retention())


def write(directory: Path) -> None:
    Writing(str(directory), topic="orders", partitions="1")


@pytest.mark.parametrize("is_log_directory", [False, True])
def test_a_log_that_is_open_by_itself_is_not_overwritten(tmp_path: Path, is_log_directory: bool) -> None:
    data, link = tmp_path / "data", tmp_path / "elsewhere" / "orders-0"
    link.parent.mkdir()
    link.symlink_to(data / "orders-0")
    if is_log_directory:
        with LogManager([data]):
            pass
    others: list[Callable[[Path], None]] = [start_manager, recover, retain, plan_retention, write]
    others += [] if is_log_directory else [plan_recovery]
    with Program(OPEN_LOG, data / "orders-0") as running:
        running.line()
        for other in others:
            with pytest.raises(LogDirLockedError) as caught:
                other(data)
            assert caught.value.path == str(data if is_log_directory else data / "orders-0")
        for path in (data / "orders-0", link):
            with pytest.raises(LogDirLockedError, match="run again"):
                open_log(path)
        running.tell()
        assert running.end() == (0, [], "")

    with open_log(link) as log:
        assert [record.value for record in log.records()] == [b"theirs"]


def test_a_directory_of_lone_logs_is_clean_if_each_was_closed(tmp_path: Path) -> None:
    open_log(tmp_path / "orders-0", create=True).close()
    with open_log(tmp_path / "orders-1", create=True):
        assert not was_shut_down(Disk(), str(tmp_path))

    assert was_shut_down(Disk(), str(tmp_path))
    checkpoint_path = tmp_path / "recovery-point-offset-checkpoint"
    checkpoint_path.write_text("0\n0\n")
    assert not was_shut_down(Disk(), str(tmp_path))


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
@pytest.mark.parametrize("command", ["recover", "retain", "compact", "erase --topic orders --key k"])
def test_a_command_says_which_log_is_open_and_exits_3(
    tmp_path: Path, command: str, dry_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *arguments = command.split()
    with open_log(tmp_path / "orders-0", create=True) as log:
        log.append(b"a", key=b"k")
        assert main.run([name, str(tmp_path), *arguments, *dry_run]) == 3

    assert f"{tmp_path}/orders-0: this process has it open" in capsys.readouterr().err


def test_a_log_is_not_opened_by_itself_in_a_directory_that_a_manager_has(tmp_path: Path) -> None:
    data, link = tmp_path / "data", tmp_path / "elsewhere" / "orders-0"
    link.parent.mkdir()
    link.symlink_to(data / "orders-0")
    lone(data / "orders-0", b"ours")
    with Program(OPEN_MANAGER, data) as running:
        running.line()
        for path in (data / "orders-0", link):
            with pytest.raises(LogDirLockedError):
                open_log(path)
        running.tell()
        assert running.end() == (0, [], "")


def test_a_log_is_not_opened_in_a_directory_that_is_locked_before_its_first_checkpoint(
    tmp_path: Path,
) -> None:
    data, link = tmp_path / "data", tmp_path / "elsewhere" / "orders-0"
    lone(data / "orders-0", b"ours")
    link.parent.mkdir()
    link.symlink_to(data / "orders-0")

    with DirectoryLock(data):
        for path in (data / "orders-0", link):
            with pytest.raises(LogDirLockedError) as caught:
                open_log(path)
            assert caught.value.path == str(data)
        assert not is_locked(data / "orders-0")


def test_a_log_in_two_log_directories_is_not_opened(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with LogManager([tmp_path / name]) as manager:
            if name == "one":
                manager.get_or_create_log(ORDERS, is_new=True)
    (tmp_path / "two" / "orders-0").symlink_to(tmp_path / "one" / "orders-0")

    with pytest.raises(UsageError, match="by its own path"):
        open_log(tmp_path / "two" / "orders-0")
    open_log(tmp_path / "one" / "orders-0").close()


def test_a_partition_of_a_log_directory_is_not_opened_by_another_name(tmp_path: Path) -> None:
    """The directory's checkpoints would not find it."""
    with LogManager([tmp_path / "data"]) as manager:
        manager.get_or_create_log(ORDERS, is_new=True)
    (tmp_path / "payments-3").symlink_to(tmp_path / "data" / "orders-0")

    with pytest.raises(UsageError, match="which has another name"):
        open_log(tmp_path / "payments-3")


@pytest.mark.parametrize("make", [lone, left_open])
def test_a_log_that_is_copied_into_a_clean_directory_is_not_trusted(
    tmp_path: Path, make: Callable[..., None]
) -> None:
    """The mark of the directory is from before the log was there."""
    with LogManager([tmp_path / "data"]):
        pass
    make(tmp_path / "orders-0", b"a", b"b", b"c")
    shutil.copytree(tmp_path / "orders-0", tmp_path / "data" / "orders-0")
    first = tmp_path / "data" / "orders-0" / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-1] + b"?")

    with pytest.raises(
        NeedsRecoveryError, match="opened with open_log, and the directory has not taken it over"
    ):
        open_log(tmp_path / "data" / "orders-0")
    node = Node(tmp_path / "data")
    with node.running(high_watermark_follows_end=True) as manager:
        log = manager.get_log(ORDERS)
        assert log is not None
        assert values(log) == []  # cut where it is damaged, and kept in quarantine
    assert [path for path in (tmp_path / "data").iterdir() if path.name.startswith("stratalog-quarantine-")]
    open_log(tmp_path / "data" / "orders-0").close()


@pytest.mark.parametrize("do", [start_and_stop, recover, write_a_row])
def test_a_link_to_a_log_that_was_copied_there_is_taken_over(
    tmp_path: Path, do: Callable[[Path], None]
) -> None:
    """The program that takes it over holds its lock, and is not refused because of it."""
    with LogManager([tmp_path / "data"]):
        pass
    lone(tmp_path / "disk" / "orders-0", b"a", b"b", start=1)
    (tmp_path / "data" / "orders-0").symlink_to(tmp_path / "disk" / "orders-0")

    do(tmp_path / "data")

    assert checkpoint(tmp_path / "data", STARTS) == {"orders-0": 1}
    assert not (tmp_path / "disk" / "orders-0" / STARTS).exists()
    assert (tmp_path / "data" / MARK).exists()


@pytest.mark.parametrize(
    "command", ["recover", "recover --dry-run", "recover --all", "retain", "compact", "explain"]
)
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_partition_that_is_named_for_its_log_directory_is_not_marked_clean(
    tmp_path: Path, command: str, is_closed: bool
) -> None:
    directory = tmp_path / "orders-0"
    (lone if is_closed else left_open)(directory, b"a", b"b", b"c", start=1)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}

    assert main.run([*command.split(), str(directory)]) in (2, 3)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    with open_log(directory) as log:
        assert [record.value for record in log.records()] == [b"b", b"c"]


def test_a_manager_does_not_take_a_partition_for_a_log_directory(tmp_path: Path) -> None:
    left_open(tmp_path / "orders-0", b"a", b"b", start=1)

    with (
        pytest.raises(NotALogDirectoryError, match="the directory of one partition"),
        LogManager([tmp_path / "orders-0"]),
    ):
        pass

    with open_log(tmp_path / "orders-0") as log:
        assert [record.value for record in log.records()] == [b"b"]
