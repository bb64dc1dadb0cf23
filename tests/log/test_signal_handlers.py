"""A signal handler that uses a log in the middle of a call of the same thread, at each step on a file."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog import open_log
from stratalog.directory.home import LogHome
from stratalog.errors import UsageError
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.files.lock import is_locked
from stratalog.files.names import TopicPartition
from stratalog.files.simulated import SimulatedDisk
from stratalog.log.cleaning.offset_map import OffsetMap
from tests.log.api.opened import CLEAN, values
from tests.manager.test_manager_crashes import manager_on


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "orders-3"


class InterruptedDisk(Disk):
    """Calls a function before each step of this thread, as the handler of a signal may be called there."""

    handler: Callable[[], object] | None = None

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def read_file(self, path: DiskPath) -> bytes | None:
        self._interrupt()
        return super().read_file(path)

    def write_at(self, path: DiskPath, data: Any, position: int) -> None:
        self._interrupt()
        super().write_at(path, data, position)

    def sync(self, path: DiskPath) -> None:
        self._interrupt()
        super().sync(path)

    def sync_directory(self, path: DiskPath) -> None:
        self._interrupt()
        super().sync_directory(path)

    def rename(self, source: DiskPath, target: DiskPath) -> None:
        self._interrupt()
        super().rename(source, target)

    def _interrupt(self) -> None:
        if self.handler is not None and threading.get_ident() == self._thread:
            handler, self.handler = self.handler, None
            handler()
            self.handler = handler


def refused_by(disk: InterruptedDisk, work: Callable[[], object], use: Callable[[], object]) -> set[str]:
    """What a handler is told that uses the log at each step of `work` in the main thread."""
    words: set[str] = set()

    def handler() -> None:
        with pytest.raises(UsageError) as raised:
            use()
        words.add(str(raised.value))

    disk.handler = handler
    work()
    disk.handler = None
    return words


# What a log of four records, of which the first is in a segment of its own, has after each of these works.
WORKS = {
    "append": [0, 1, 2, 3, 4],
    "append_many": [0, 1, 2, 3, 4, 5, 6],
    "flush": [0, 1, 2, 3],
    "roll": [0, 1, 2, 3],
    "truncate_to": [0, 1, 2],
    "truncate_fully": [],
    "delete_records": [2, 3],
    "retention": [2, 3],
    "clean": [],
    "close": [],
}


@pytest.mark.parametrize("use", WORKS)
@pytest.mark.parametrize("work", sorted(WORKS.keys() - {"clean", "close"}))
def test_a_signal_handler_in_the_middle_of_a_change_is_refused_before_it_has_an_effect(
    directory: Path, work: str, use: str
) -> None:
    """It got the same offset as the record that it interrupted, and one of the two was lost."""
    disk = InterruptedDisk()
    log = open_log(directory, create=True, config={"max.message.bytes": 150}, disk=disk)
    log.append(b"first")
    log.log.roll()
    for value in (b"second", b"third", b"fourth"):
        log.append(value)
    calls: dict[str, Callable[[], object]] = {
        "append": lambda: log.append(b"acknowledged"),
        "append_many": lambda: log.append_many([b"one" * 10, b"two" * 10, b"three" * 6]),
        "flush": log.flush,
        "roll": log.log.roll,
        "truncate_to": lambda: log.truncate_to(3),
        "truncate_fully": lambda: log.log.truncate_fully_and_start_at(0),
        "delete_records": lambda: log.delete_records(2),
        "retention": log.log.delete_old_segments,
        "clean": lambda: log.log.clean(0, 1, OffsetMap(1000)),
        "close": log.close,
    }
    if work == "retention":
        log.delete_records(2)

    words = refused_by(disk, calls[work], calls[use])

    assert words
    assert all("signal handler" in told and str(directory) in told for told in words)
    found = [record.offset for record in log.records()]
    assert (found, log.end_offset) == (WORKS[work], max(WORKS[work], default=-1) + 1)
    log.close()
    assert (directory / CLEAN).exists()
    with open_log(directory) as again:
        assert [record.offset for record in again.records()] == found


def test_a_refused_append_of_a_signal_handler_is_not_in_the_log(directory: Path) -> None:
    """With flush.messages reached, its flush was refused, when its record was in the log already."""
    disk = InterruptedDisk()
    with open_log(directory, create=True, config={"flush.messages": 3}, disk=disk) as log:
        log.append_many([b"a", b"b"])

        assert refused_by(disk, log.flush, lambda: log.append_many([b"c", b"d", b"e"]))

        assert values(log) == [b"a", b"b"]


def test_a_signal_handler_that_closes_the_log_while_it_is_closed_does_not_wait_for_itself(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(directory, create=True)
    log.append(b"a")
    write, words = LogHome.write_clean_shutdown, []

    def interrupted(home: LogHome) -> None:
        with pytest.raises(UsageError) as raised:
            log.close()
        words.append(str(raised.value))
        write(home)

    monkeypatch.setattr(LogHome, "write_clean_shutdown", interrupted)
    closing = threading.Thread(target=log.close, daemon=True)  # a thread of its own, which may hang
    closing.start()
    closing.join(60)

    assert not closing.is_alive()
    assert "signal handler" in words[0]
    assert (directory / CLEAN).exists()
    assert not is_locked(directory)


def test_a_signal_handler_does_not_cut_another_log_whose_checkpoint_is_being_written() -> None:
    """All logs of a directory share the file, and the older content was written over the newer one."""
    disk = SimulatedDisk()
    disk.make_directories("/data")
    manager = manager_on(disk, "/data", high_watermark_follows_end=True)
    manager.startup()
    one, other = (manager.get_or_create_log(TopicPartition("orders", key), is_new=True) for key in range(2))
    for log in (one, other):
        for _ in range(3):
            log.append(b"a")
    told: list[int] = []

    def handler(*_: object) -> None:
        disk.before_step = None
        for cut in (other.delete_records, other.truncate_to, other.truncate_fully_and_start_at):
            with pytest.raises(UsageError, match="signal handler"):
                cut(1)
            told.append(other.log_start_offset)

    disk.before_step = handler
    one.delete_records(2)

    assert told == [0, 0, 0]
    assert (other.failure, other.log_end_offset, other.delete_records(1)) == (None, 3, 1)
    stored = manager.directories[0].checkpoints.log_start_offsets.read()
    assert stored == {one.topic_partition: 2, other.topic_partition: 1}
    manager.shutdown()
