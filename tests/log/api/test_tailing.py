"""Following a log: its records as they come."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import DiskError, OffsetOutOfRangeError
from tests.log.api.opened import FailingDisk, Turns, values
from tests.log.model import NOW, ManualClock


def test_a_tail_gives_what_comes_until_it_is_stopped(log: PartitionLog) -> None:
    log.append(b"before")
    stop = Turns(lambda: log.append_many([b"a", b"b"]), lambda: None, lambda: log.append(b"c"))

    assert values(log.tail(stop=stop)) == [b"a", b"b", b"c"]


def test_a_tail_of_a_log_that_has_failed_does_not_wait_for_ever(directory: Path) -> None:
    disk = FailingDisk()
    log = open_log(directory, create=True, disk=disk)
    log.append(b"a")

    def fail() -> None:
        disk.failing = "write_at"
        with pytest.raises(DiskError):
            log.append(b"b")

    following = log.tail(0, stop=Turns(fail, lambda: None))

    assert next(following).value == b"a"
    with pytest.raises(DiskError, match="input/output error"):
        list(following)
    log.close()


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(1), lambda log: log.delete_records(5)])
def test_a_tail_is_told_when_its_place_is_gone(
    log: PartitionLog, cut: Callable[[PartitionLog], object]
) -> None:
    for value in (b"a", b"b", b"c"):
        log.append(value)

    def append_and_cut() -> None:
        log.append_many([b"d", b"e", b"f"])
        cut(log)

    following = log.tail(stop=Turns(append_and_cut))

    with pytest.raises(OffsetOutOfRangeError):
        list(following)


def test_a_tail_can_begin_in_the_past(log: PartitionLog) -> None:
    log.append(b"a", timestamp=NOW)
    log.append(b"b", timestamp=NOW + 5)

    assert values(log.tail(0, stop=Turns())) == [b"a", b"b"]
    assert values(log.tail(since=NOW + 1, stop=Turns())) == [b"b"]


def test_a_tail_ends_when_nothing_has_come_for_a_while(directory: Path) -> None:
    clock = ManualClock()
    with open_log(directory, create=True, clock=clock) as log:
        waits = [lambda: clock.sleep(400), lambda: log.append(b"a"), *[lambda: clock.sleep(400)] * 5]
        stop = Turns(*waits)

        assert values(log.tail(timeout_ms=1000, stop=stop)) == [b"a"]
        assert len(stop.turns) == 2


def test_a_tail_of_another_thread_ends_by_its_event(log: PartitionLog) -> None:
    stop, found = threading.Event(), []

    def follow() -> None:
        for record in log.tail(0, poll_ms=1, stop=stop):
            found.append(record.value)
            if record.value == b"last":
                stop.set()

    reader = threading.Thread(target=follow)
    reader.start()
    for value in (b"a", b"b", b"last"):
        log.append(value)
    reader.join(10)

    assert found == [b"a", b"b", b"last"]
