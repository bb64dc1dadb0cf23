"""A log that is open by itself and the log directory that it is in: whoever comes second is told."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratalog import LogDirLockedError, LogManager, NeedsRecoveryError, open_log
from stratalog.cli import main
from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.directory.session import Unclean
from stratalog.errors import NotALogDirectoryError, UsageError
from stratalog.files.lock import DirectoryLock, is_locked
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.retain import Retention
from tests.jobs.writing.sinking import NoLock, Writing
from tests.log.model import ManualClock, ManualScheduler, batch
from tests.manager.running import Node, checkpoint, values
from tests.programs import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lock is Linux's")

ORDERS = TopicPartition("orders", 0)
MARK, STARTS = ".kafka_cleanshutdown", "log-start-offset-checkpoint"

OPEN_LOG = """
import sys
import stratalog
with stratalog.open_log(sys.argv[1], create=True) as log:
    log.append(b"theirs")
    print("open", flush=True)
    input()
"""
OPEN_MANAGER = """
import sys
import stratalog
with stratalog.LogManager([sys.argv[1]]):
    print("open", flush=True)
    input()
"""


def lone(directory: Path, *records: bytes, start: int = 0) -> None:
    """A log that was open by itself, with a segment for each record, and was closed."""
    with open_log(directory, create=True) as log:
        for number, value in enumerate(records):
            if number:
                log.log.roll()
            log.append(value)
        log.delete_records(start)


def left_open(directory: Path, *records: bytes, start: int = 0) -> None:
    """The same, but its writer was killed."""
    lone(directory, *records, start=start)
    # A scheduler that does nothing by itself, or files would come and go while they are copied.
    with open_log(directory, scheduler=ManualScheduler(ManualClock())):
        copy = shutil.copytree(directory, directory.parent / "copy")
    shutil.rmtree(directory)
    copy.rename(directory)


def start_manager(directory: Path) -> None:
    Node(directory).manager().startup()


def recover(directory: Path) -> None:
    recover_directories([str(directory)])


def start_and_stop(directory: Path) -> None:
    with Node(directory).running():
        pass


def write_a_row(directory: Path) -> None:
    writing = Writing(str(directory), topic="orders", partitions="1")
    writing.task({"value": [b"c"]})
    writing.commit()


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


@pytest.mark.parametrize("is_manager_first", [False, True])
def test_a_partition_that_is_a_link_is_locked_where_it_really_is(
    tmp_path: Path, is_manager_first: bool
) -> None:
    real, data = tmp_path / "disk" / "orders-0", tmp_path / "data"
    lone(real, b"ours")
    data.mkdir()
    (data / "orders-0").symlink_to(real)

    if is_manager_first:
        with Node(data).running(), pytest.raises(LogDirLockedError):
            open_log(real)
    else:
        with open_log(real), pytest.raises(LogDirLockedError):
            start_manager(data)

    with open_log(data / "orders-0") as log:
        assert [record.value for record in log.records()] == [b"ours"]
        with pytest.raises(LogDirLockedError):
            open_log(real)


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


def test_a_manager_waits_for_who_may_give_up_at_once(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"ours")
    trial = DirectoryLock(tmp_path / "orders-0")
    trial.acquire(is_trial=True)  # somebody opens the log, and has not looked at the directory yet
    with ThreadPoolExecutor(1) as pool:
        node = Node(tmp_path)
        starting = pool.submit(node.start)
        trial.release()

        manager = starting.result(timeout=60)
    manager.shutdown()


def test_of_two_that_come_at_once_one_wins(tmp_path: Path) -> None:
    """Each round both begin at a line, and hold what they have until the next one."""
    contest = """
import sys
import stratalog

def attempt(directory):
    if sys.argv[1] == "log":
        return stratalog.open_log(directory + "/orders-0").close
    manager = stratalog.LogManager([directory])
    manager.startup()
    return manager.shutdown

with stratalog.LogManager([sys.argv[2]]):  # everything is imported then
    print("ready", flush=True)
for line in sys.stdin:
    try:
        end, words = attempt(line.strip()), "won"
    except stratalog.LogDirLockedError:
        end, words = lambda: None, "locked"
    print(words, flush=True)
    sys.stdin.readline()
    end()
    print("over", flush=True)
"""
    rounds = 12  # each in a directory of its own, which is a log directory afterwards
    for number in range(rounds):
        lone(tmp_path / f"{number}" / "orders-0", b"ours")
    with (
        Program(contest, "log", tmp_path / "import-1") as one,
        Program(contest, "manager", tmp_path / "import-2") as two,
    ):
        for each in (one, two):
            assert each.line() == "ready"
        for number in range(rounds):
            for each in (one, two) if number % 2 else (two, one):
                each.tell(str(tmp_path / f"{number}"))
            assert sorted([one.line(), two.line()]) == ["locked", "won"]
            for each in (one, two):
                each.tell()
                assert each.line() == "over"


# A log directory takes over


def started_at(directory: Path) -> tuple[int, list[bytes | None]]:
    with Node(directory).running(high_watermark_follows_end=True) as manager:
        log = manager.get_log(ORDERS)
        assert log is not None
        return log.log_start_offset, values(log)


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
    for name in (MARK, STARTS):  # as a broker leaves them that took the directory before
        shutil.copy(copy / name, tmp_path / "orders-0" / name)

    assert started_at(tmp_path)[0] == 2


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
        NeedsRecoveryError, match="opened by itself with open_log, and the directory has not taken it over"
    ):
        open_log(tmp_path / "data" / "orders-0")
    node = Node(tmp_path / "data")
    with node.running(high_watermark_follows_end=True) as manager:
        log = manager.get_log(ORDERS)
        assert log is not None
        assert values(log) == []  # cut where it is damaged, and kept in quarantine
    assert [path for path in (tmp_path / "data").iterdir() if path.name.startswith("stratalog-quarantine-")]
    open_log(tmp_path / "data" / "orders-0").close()


def test_a_partition_that_is_copied_out_is_not_trusted(tmp_path: Path) -> None:
    """A mark of a clean close, from before a manager had the log, must not speak for what came since."""
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


@pytest.mark.parametrize("do", [start_and_stop, recover, write_a_row])
def test_a_link_to_a_log_that_was_copied_there_is_taken_over(
    tmp_path: Path, do: Callable[[Path], None]
) -> None:
    """Its lock is held by whoever takes it over, who does not stumble over it."""
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
