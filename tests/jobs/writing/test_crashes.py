"""Power cuts at every step of a commit: the next open has all of the write, or nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from stratalog.config import LogConfig, ManagerConfig, ServerConfig
from stratalog.directory.recovery.choices import RecoveryChoices
from stratalog.directory.recovery.recover import recover_directories
from stratalog.errors import DiskError
from stratalog.files.simulated import PowerCut, SimulatedDisk
from stratalog.manager.manager import LogManager
from tests import profile
from tests.jobs.writing.sinking import NoLock, Writing, by_partition, write
from tests.log.model import ManualClock, ManualScheduler
from tests.manager.running import MARKER

ROOT = "/data"
SETTINGS = {"topic": "orders", "partitions": "2"}
BEFORE = {0: [b"a"], 1: [b"b"]}
AFTER = {0: [b"a", b"c", b"e"], 1: [b"b", b"d"]}
JOURNAL = f"{ROOT}/stratalog-write.json"


def rows(**partitions: list[bytes]) -> dict[str, list[object]]:
    pairs = [(int(name[1:]), value) for name, found in partitions.items() for value in found]
    return {"partition": [number for number, _ in pairs], "value": [value for _, value in pairs]}


def new_disk() -> SimulatedDisk:
    """A directory with a record in each of two partitions, shut down cleanly in epoch 5."""
    return SimulatedDisk.of(first_write())


@cache
def first_write() -> dict[str, bytes]:
    disk = SimulatedDisk()
    disk.make_directories(ROOT)
    write(ROOT, rows(p0=[b"a"], p1=[b"b"]), disk=disk, **SETTINGS)
    disk.replace(f"{ROOT}/{MARKER}", b'{"version":0,"brokerEpoch":5}')
    return disk.contents()


def second_write(disk: SimulatedDisk) -> Writing:
    writing = Writing(ROOT, disk=disk, **SETTINGS)
    writing.task(rows(p0=[b"c"], p1=[b"d"]))
    writing.task(rows(p0=[b"e"]))
    return writing


def steps_of_a_commit() -> tuple[int, int]:
    """The number of steps before the commit, and up to its end."""
    disk = new_disk()
    writing = second_write(disk)
    first = disk.steps
    writing.commit(query="q", batch=0)
    assert by_partition(disk.contents(), "orders") == AFTER
    return first, disk.steps


FIRST, LAST = steps_of_a_commit()
STEPS = LAST - FIRST
CHOSEN = range(FIRST + 1, LAST + 1, max(1, STEPS // profile.examples(STEPS, quick=8, ci=max(8, STEPS // 20))))


def crashed_at(step: int) -> Iterator[SimulatedDisk]:
    """The disks that may be found after a power cut at this step."""
    disk = new_disk()
    disk.crash_at(step)
    with pytest.raises(PowerCut):
        second_write(disk).commit(query="q", batch=0)
    yield from disk.crash()


def recover(disk: SimulatedDisk) -> None:
    report = recover_directories([ROOT], disk=disk, make_lock=NoLock, clock=ManualClock())
    assert [found.error for found in report.directories] == [None]
    assert not any(partition.cuts for found in report.directories for partition in found.partitions)


def start_and_stop(disk: SimulatedDisk) -> None:
    clock = ManualClock()
    server = ServerConfig(ManagerConfig(), LogConfig(), ())
    manager = LogManager(
        [ROOT], server=server, disk=disk, clock=clock, scheduler=ManualScheduler(clock), make_lock=NoLock
    )
    manager.startup()
    manager.shutdown()


@pytest.mark.parametrize("step", CHOSEN)
def test_recovery_has_all_or_nothing_of_it(step: int) -> None:
    for disk in crashed_at(step):
        recover(disk)

        assert by_partition(disk.contents(), "orders") in (BEFORE, AFTER)
        assert disk.contents()[f"{ROOT}/{MARKER}"] == b'{"version":0,"brokerEpoch":5}'


@pytest.mark.parametrize("step", CHOSEN)
def test_a_broker_that_finds_the_marker_finds_all_or_nothing_too(step: int) -> None:
    for disk in crashed_at(step):
        if disk.exists(f"{ROOT}/{MARKER}"):
            assert by_partition(disk.contents(), "orders") in (BEFORE, AFTER)


@pytest.mark.parametrize("step", CHOSEN)
def test_a_start_of_the_manager_has_all_or_nothing_of_it(step: int) -> None:
    for disk in crashed_at(step):
        start_and_stop(disk)

        assert by_partition(disk.contents(), "orders") in (BEFORE, AFTER)


@pytest.mark.parametrize("step", CHOSEN)
def test_the_same_batch_of_a_stream_written_again_is_there_once(step: int) -> None:
    for disk in crashed_at(step):
        second_write(disk).commit(query="q", batch=0)

        assert by_partition(disk.contents(), "orders") == AFTER


@pytest.mark.parametrize("step", CHOSEN[:: max(1, len(CHOSEN) // profile.examples(len(CHOSEN), quick=2))])
def test_a_power_cut_while_it_is_finished_changes_nothing(step: int) -> None:
    for disk in list(crashed_at(step))[:2]:
        steps = _steps_of_recovery(disk)
        for second in range(1, steps + 1, max(1, steps // 10)):
            again = _copy(disk)
            again.crash_at(second)
            with pytest.raises(PowerCut):
                recover(again)
            for found in again.crash()[:3]:
                recover(found)

                assert by_partition(found.contents(), "orders") in (BEFORE, AFTER)


@pytest.mark.parametrize("step", CHOSEN)
def test_a_disk_that_refuses_once_leaves_all_or_nothing(step: int) -> None:
    disk = new_disk()
    writing = second_write(disk)
    disk.fail_at(step)
    try:
        writing.commit(query="q", batch=0)
    except DiskError:
        writing.committer.discard()  # as Spark does when a commit fails

    recover(disk)

    assert by_partition(disk.contents(), "orders") in (BEFORE, AFTER)


def test_a_disk_that_refuses_before_the_journal_leaves_the_directory_closed() -> None:
    outcomes = set()
    # All steps: only a few concern the clean-shutdown file and the journal.
    for step in range(FIRST + 1, LAST + 1):
        disk = new_disk()
        writing = second_write(disk)
        disk.fail_at(step)
        try:
            writing.committer.commit(writing.staged, query="q", batch=0)
        except DiskError as error:
            is_decided = "the write is committed" in str(error)
            outcomes.add(is_decided)
            is_pending = b'"pending": {' in disk.contents().get(JOURNAL, b"")
            assert is_decided == (is_pending or by_partition(disk.contents(), "orders") == AFTER), step
            if not is_decided:
                assert disk.contents()[f"{ROOT}/{MARKER}"] == b'{"version":0,"brokerEpoch":5}', step

    assert outcomes == {False, True}


def test_a_write_whose_place_a_broker_took_is_put_behind_it() -> None:
    disk = journal_is_written()
    # A broker that knows nothing of the write: one partition has its segments, the other has not.
    writing = Writing("/other", disk=with_other(disk), **SETTINGS)
    writing.task(rows(p1=[b"x"]))
    writing.commit()
    log = disk.contents()["/other/orders-1/00000000000000000000.log"]
    ours = f"{ROOT}/orders-1/00000000000000000000.log"
    disk.append(ours, (1).to_bytes(8, "big") + log[8:])

    recover(disk)
    assert by_partition(of_root(disk), "orders") == {0: [b"a", b"c", b"e"], 1: [b"b", b"x"]}

    write(ROOT, rows(p1=[b"y"]), disk=disk, **SETTINGS)
    assert by_partition(of_root(disk), "orders") == {0: [b"a", b"c", b"e"], 1: [b"b", b"x", b"d", b"y"]}
    assert not [name for name in of_root(disk) if "stratalog-write-" in name]


@pytest.mark.parametrize("open_again", [recover, start_and_stop])
def test_a_broker_that_came_and_went_in_between_does_not_hide_a_write(
    open_again: Callable[[SimulatedDisk], None],
) -> None:
    disk = journal_is_written()
    disk.replace(f"{ROOT}/{MARKER}", b'{"version":0,"brokerEpoch":6}')

    open_again(disk)

    assert by_partition(disk.contents(), "orders") == AFTER
    assert disk.contents()[f"{ROOT}/{MARKER}"] == b'{"version":0,"brokerEpoch":6}'


def test_a_write_that_waits_for_no_disk_leaves_no_clean_shutdown_file() -> None:
    disk = new_disk()
    write(ROOT, rows(p0=[b"c"], p1=[b"d"]), disk=disk, **SETTINGS, sync="false")

    assert not disk.exists(f"{ROOT}/{MARKER}")
    write(ROOT, rows(p0=[b"e"]), disk=disk, **SETTINGS)
    assert by_partition(disk.contents(), "orders") == AFTER
    assert disk.contents()[f"{ROOT}/{MARKER}"] == b'{"version":0,"brokerEpoch":5}'


def test_a_journal_that_cannot_be_read_keeps_what_it_may_name() -> None:
    disk = journal_is_written()
    disk.replace(JOURNAL, b"{")

    report = recover_directories([ROOT], disk=disk, make_lock=NoLock, clock=ManualClock())

    assert "it is not the journal of a write" in (report.directories[0].error or "")
    assert [name for name in disk.contents() if "stratalog-write-" in name]


def test_a_dry_run_does_not_finish_a_write() -> None:
    disk = journal_is_written()
    before = disk.contents()

    recover_directories(
        [ROOT], disk=disk, make_lock=NoLock, clock=ManualClock(), options=RecoveryChoices(dry_run=True)
    )

    assert disk.contents() == before


def journal_is_written() -> SimulatedDisk:
    """The disk of a write that was decided, and nothing of it done."""
    return SimulatedDisk.of(decided_write())


@cache
def decided_write() -> dict[str, bytes]:
    for step in range(FIRST + 1, LAST + 1):
        for disk in crashed_at(step):
            if b'"pending": {' in disk.contents().get(JOURNAL, b""):
                return disk.contents()
    raise AssertionError("no step writes a journal")


def of_root(disk: SimulatedDisk) -> dict[str, bytes]:
    return {name: data for name, data in disk.contents().items() if name.startswith(ROOT)}


def with_other(disk: SimulatedDisk) -> SimulatedDisk:
    disk.make_directories("/other")
    return disk


def _copy(disk: SimulatedDisk) -> SimulatedDisk:
    (copied,) = disk.crash()
    return copied


def _steps_of_recovery(disk: SimulatedDisk) -> int:
    copied = _copy(disk)
    recover(copied)
    return copied.steps
