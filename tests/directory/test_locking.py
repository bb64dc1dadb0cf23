"""Who gets the lock of a log directory and of the logs in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratalog import LogDirLockedError, open_log
from stratalog.files.lock import DirectoryLock
from tests.directory.lone import lone, start_manager
from tests.manager.running import Node
from tests.programs import Program
from tests.waiting import PATIENCE_S


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


def test_a_manager_waits_for_who_may_give_up_at_once(tmp_path: Path) -> None:
    lone(tmp_path / "orders-0", b"ours")
    trial = DirectoryLock(tmp_path / "orders-0")
    trial.acquire(is_trial=True)  # another program opens the log, and has not checked the directory yet
    with ThreadPoolExecutor(1) as pool:
        node = Node(tmp_path)
        starting = pool.submit(node.start)
        trial.release()

        manager = starting.result(timeout=PATIENCE_S)
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
    rounds = 12  # each in a new directory, which is a log directory afterwards
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
