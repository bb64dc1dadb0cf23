"""A segment that one thread appends to while others flush it, read it, or are interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.files.simulated import SimulatedDisk
from stratalog.segment.segment import LogSegment
from stratalog.segment.time_index import TimeEntry, TimeIndex
from tests.segment.making import ManualClock, append, config_of, new_segment, records, reopened

if TYPE_CHECKING:
    from stratalog.files.disk import Data

DIRECTORY = "/orders-0"


class FlushedMeanwhile(SimulatedDisk):
    """A disk on which another thread flushes a segment just before bytes are written to its log."""

    segment: LogSegment | None = None

    def write_at(self, path: DiskPath, data: Data, position: int) -> None:
        segment, self.segment = self.segment, None
        if segment is not None:
            segment.flush()
        super().write_at(path, data, position)


def new_simulated(disk: SimulatedDisk) -> LogSegment:
    disk.make_directories(DIRECTORY)
    disk.sync_everything()
    return LogSegment.create(disk, DIRECTORY, 0, config_of(), ManualClock())


def logs_after_a_power_cut(disk: SimulatedDisk) -> set[bytes]:
    disk.sync_directory(DIRECTORY)
    return {after.read_at(f"{DIRECTORY}/{0:020d}.log", 1000, 0) for after in disk.crash()}


@pytest.mark.parametrize("end", [LogSegment.flush, LogSegment.close])
def test_what_is_written_behind_a_flush_is_not_taken_for_flushed(end: Callable[[LogSegment], None]) -> None:
    disk = FlushedMeanwhile()
    segment = new_simulated(disk)
    append(segment, records(0, "a"))
    disk.segment = segment
    append(segment, records(1, "b"))

    end(segment)

    assert logs_after_a_power_cut(disk) == {records(0, "a") + records(1, "b")}


def test_a_flush_that_is_interrupted_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    segment = new_simulated(disk)
    append(segment, records(0, "a"))

    def interrupted(_: DiskPath) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "sync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        segment.flush()
    monkeypatch.undo()
    segment.close()

    assert logs_after_a_power_cut(disk) == {records(0, "a")}


def test_a_reader_that_asks_for_the_largest_timestamp_does_not_undo_an_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = new_segment(tmp_path)
    append(before, records(0, "a", timestamp=10))
    before.close()
    segment = reopened(before)
    appending = threading.Thread(target=append, args=(segment, records(1, "b", timestamp=20)))
    real = TimeIndex.__dict__["last_entry"]

    def slow(index: TimeIndex) -> TimeEntry:
        found: TimeEntry = real.fget(index)
        if appending.ident is None:
            appending.start()
            appending.join(0.2)  # it may have to wait for this reader
        return found

    monkeypatch.setattr(TimeIndex, "last_entry", property(slow))
    assert segment.reader.max_timestamp == 10
    appending.join(10)

    assert segment.reader.max_timestamp == 20


def test_a_record_that_the_segment_does_not_tell_of_yet_is_not_found_by_time(tmp_path: Path) -> None:
    written = new_segment(tmp_path)
    append(written, records(0, "a", timestamp=10))
    known_size = written.size
    append(written, records(1, "b", timestamp=20))
    segment = LogSegment.open(Disk(), tmp_path, 0, written.reader.config, written.clock, size=known_size)

    assert segment.reader.find_offset_by_timestamp(15, 0) is None


def look_up_all(segment: LogSegment, count: int) -> list[tuple[int, int]]:
    """What the indexes lead to for each offset and each time."""
    found = []
    for offset in range(count):
        at, by_time = (
            segment.reader.translate_offset(offset),
            segment.reader.find_offset_by_timestamp(10 * offset, 0),
        )
        assert at is not None
        assert by_time is not None
        found.append((at.base_offset, by_time.offset))
    return found


@pytest.mark.parametrize("growable", [False, True])
def test_indexes_that_many_open_at_once_are_opened_once_and_whole(tmp_path: Path, growable: bool) -> None:
    """Nobody has looked at them yet, and the first look-ups come all at the same time, with a flush."""
    count = 60
    before = new_segment(tmp_path, interval=0)
    for offset in range(count):
        append(before, records(offset, "a"))
    before.close()
    for _ in range(10):
        segment = reopened(before, growable=growable)
        with ThreadPoolExecutor(4) as threads:
            answers = [threads.submit(look_up_all, segment, count) for _ in range(4)]
            segment.flush()

        assert [answer.result() for answer in answers] == [[(at, at) for at in range(count)]] * 4
        segment.close()
