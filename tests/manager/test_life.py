"""A manager is used once, from its start to its end, and in the process that started it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from stratalog.errors import UsageError, WrongProcessError
from stratalog.manager.life import ManagerLife
from tests.manager.running import ORDERS, Node
from tests.waiting import PATIENCE_S


@pytest.fixture
def life() -> ManagerLife:
    return ManagerLife("/data")


def test_it_may_be_used_from_its_start_to_its_end(life: ManagerLife) -> None:
    with pytest.raises(UsageError, match="not started yet"):
        life.check_open()

    life.begin()
    with pytest.raises(UsageError, match="not started yet"):
        life.check_open()  # it is on its way
    life.open()
    life.check_open()

    assert life.end()
    with pytest.raises(UsageError, match="or was shut down"):
        life.check_open()


def test_it_is_started_once(life: ManagerLife) -> None:
    life.begin()
    life.open()
    with pytest.raises(UsageError, match="already started"):
        life.begin()

    life.end()
    with pytest.raises(UsageError, match="make another one"):
        life.begin()


def test_a_start_that_failed_may_be_tried_again(life: ManagerLife) -> None:
    life.begin()

    assert not life.end()  # it was never open
    life.begin()


def test_it_ends_once(life: ManagerLife) -> None:
    life.begin()
    life.open()

    assert [life.end(), life.end()] == [True, False]


def test_a_forked_child_may_not_use_it(life: ManagerLife) -> None:
    life.begin()
    life.open()

    child = os.fork()
    if child == 0:
        os._exit(exit_code_of_the_child(life))
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    life.check_open()


def exit_code_of_the_child(life: ManagerLife) -> int:
    if life.is_here:
        return 1
    for check in (life.check_open, life.check_opener, life.begin):
        try:
            check()
        except WrongProcessError:
            continue
        return 2
    return 0


def test_a_child_process_does_not_wait_for_a_lock_of_a_thread_that_is_not_there(life: ManagerLife) -> None:
    held, seen = threading.Event(), threading.Event()

    def hold() -> None:
        with life.lock:
            held.set()
            assert seen.wait(PATIENCE_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(PATIENCE_S)
    was_held = not life.lock.acquire(blocking=False)

    life.start_over_in_child()

    is_free = life.lock.acquire(blocking=False)
    seen.set()
    holder.join()
    assert (was_held, is_free) == (True, True)


def test_a_manager_is_used_between_start_and_end(tmp_path: Path) -> None:
    manager = Node(tmp_path).manager()
    with pytest.raises(UsageError, match="not started"):
        manager.get_or_create_log(ORDERS, is_new=True)
    manager.startup()
    with pytest.raises(UsageError, match="already started"):
        manager.startup()
    manager.shutdown()
    with pytest.raises(UsageError, match="shut down"):
        manager.async_delete(ORDERS)
    with pytest.raises(UsageError, match="make another one"):
        manager.startup()
