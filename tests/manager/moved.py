"""A log that is to move from one directory to another, on a simulated disk, and the records it must have."""

from __future__ import annotations

import threading

import pytest

from stratalog.files.simulated import SimulatedDisk
from stratalog.log.log import Log
from stratalog.manager.manager import LogManager
from stratalog.manager.moving import take_marks_of
from tests.log.model import batch, read_all
from tests.manager.running import ORDERS
from tests.manager.test_manager_crashes import manager_on
from tests.waiting import PATIENCE_S, AwaitedLock

PLACES = ("/disk-1", "/disk-2", "/disk-3")
SETTINGS = {"internal.segment.bytes": 250, "segment.index.bytes": 120, "index.interval.bytes": 1}
SINGLES = [b"%d" % number for number in range(6)]


class Story:
    """A log in the first directory, and the records that it must have, by offset."""

    def __init__(self, *, follows_end: bool = True, **settings: int) -> None:
        self.disk = SimulatedDisk()
        for place in PLACES:
            self.disk.make_directories(place)
        self.settings, self.follows_end = {**SETTINGS, **settings}, follows_end
        self.expected: dict[int, bytes] = {}
        self.start()
        self.log: Log = self.manager.get_or_create_log(ORDERS, is_new=True, directory=PLACES[0])

    def start(self, *places: str) -> LogManager:
        """Start a manager, which knows all directories unless some are named."""
        self.manager = manager_on(
            self.disk,
            *(places or PLACES),
            settings=self.settings,
            high_watermark_follows_end=self.follows_end,
        )
        self.manager.startup()
        found = self.manager.get_log(ORDERS)
        if found is not None:
            self.log = found
        return self.manager

    def begin_copy(self) -> Log:
        return self.manager.get_or_create_log(ORDERS, is_future=True, directory=PLACES[1])

    def append(self, *values: bytes) -> None:
        """One batch."""
        info = self.log.append_as_leader(batch(*values), leader_epoch=0)
        self.expected.update(enumerate(values, info.first_offset))

    def append_each(self, *values: bytes) -> None:
        for value in values:
            self.append(value)

    def truncate_to(self, offset: int, *, first_removed: int | None = None) -> None:
        self.manager.truncate_to({ORDERS: offset})
        removed = offset if first_removed is None else first_removed
        self.expected = {key: value for key, value in self.expected.items() if key < removed}

    def give_up_before(self, offset: int) -> None:
        self.expected = {key: value for key, value in self.expected.items() if key >= offset}

    def move(self) -> Log:
        return self.manager.move_log(ORDERS, PLACES[1])

    def judge(self, log: Log) -> None:
        """The log is in the second directory with its records, and still has them after a restart."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        for _ in range(2):
            assert log.directory == f"{PLACES[1]}/{ORDERS}"
            assert (log.log_start_offset, log.log_end_offset) == (start, end)
            assert {record.offset: record.value for record in read_all(log)} == self.expected
            self.manager.shutdown()
            self.start()
            log = self.log
        self.manager.shutdown()


def cut_and_append(story: Story) -> None:
    story.truncate_to(2)
    story.append(b"C", b"D", b"E", b"F")


def wait_in_swap(monkeypatch: pytest.MonkeyPatch, lock: AwaitedLock, waiter: threading.Thread) -> None:
    """Start a thread in the middle of the next swap, which goes on when the thread waits for the lock."""

    def take_marks_when_it_waits(copy: Log, source: Log) -> None:
        waiter.start()
        assert lock.is_awaited.wait(PATIENCE_S)
        take_marks_of(copy, source)

    monkeypatch.setattr("stratalog.manager.copies.take_marks_of", take_marks_when_it_waits)
