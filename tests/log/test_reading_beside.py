"""A reader while others replace, truncate, delete and move segments: in one process, with real files.

A read opens a segment by its name. `HeldDisk` stops it between the two, and there lets another thread put
other files under the old names. Whatever that does, the reader gives records of the log as it was or as it
is, in order, and never ends early without an error.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import DiskError, LogMovedError, OffsetOutOfRangeError
from stratalog.files.disk import Disk
from stratalog.files.entries import ExpectedFile, ReadFile
from stratalog.files.entries import Path as FilePath
from stratalog.files.names import LOCK
from stratalog.log.api.consumer_records import ConsumerRecord
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.control import ControlType
from stratalog.records.reader import read_batches
from tests.log.model import NOW, ManualClock, ManualScheduler, append_marker, batch
from tests.manager.running import ORDERS, Node

if TYPE_CHECKING:
    from stratalog.files.disk import Target

COUNT = 113
KEYS = 10
DELAY_MS = 1000
PATIENCE_S = 60
SETTINGS: dict[str, Any] = {
    "internal.segment.bytes": 1000,
    "index.interval.bytes": 100,
    "segment.index.bytes": 4096,
    "cleanup.policy": "compact,delete",
    "delete.retention.ms": 0,
    "retention.ms": -1,
    "file.delete.delay.ms": DELAY_MS,
}


class HeldDisk(Disk):
    """Runs something in another thread, once, when a file is about to be read whose name ends so."""

    def __init__(self) -> None:
        super().__init__()
        self._armed: tuple[str, Callable[[], object]] | None = None

    def before_reading(self, suffix: str, action: Callable[[], object]) -> None:
        self._armed = suffix, action

    @property
    def is_armed(self) -> bool:
        return self._armed is not None

    def read_into(
        self, source: ReadFile | FilePath, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        self._meet(source)
        return super().read_into(source, buffer, position, identity)

    def read_at(
        self, path: FilePath, size: int, position: int, identity: ExpectedFile | None = None
    ) -> bytes:
        self._meet(path)
        return super().read_at(path, size, position, identity)

    def _meet(self, source: ReadFile | FilePath) -> None:
        if self._armed is None or not str(source).endswith(self._armed[0]):
            return
        (_, action), self._armed = self._armed, None
        problems: list[BaseException] = []

        def run() -> None:
            try:
                action()
            except BaseException as problem:
                problems.append(problem)

        other = threading.Thread(target=run, daemon=True)
        other.start()
        other.join(PATIENCE_S)
        assert not other.is_alive(), "the other thread waits for the reader"
        if problems:
            raise problems[0]


@dataclass
class Bench:
    """A log that was written, and what can be done to it while a reader is held up."""

    log: PartitionLog
    disk: HeldDisk
    clock: ManualClock
    scheduler: ManualScheduler

    @property
    def first_path(self) -> str:
        return self.log.log.segments.first.log_path

    def clean(self, rounds: int = 1) -> None:
        for _ in range(rounds):
            log = self.log.log
            log.clean(log.log_start_offset, log.segments.active.base_offset, OffsetMap(1 << 20))

    def clean_and_delete(self) -> None:
        """As `clean`, and the delay of the deletion passes."""
        self.clean()
        self.clock.sleep(DELAY_MS)
        self.scheduler.run_due()

    def clean_twice(self) -> None:
        """The second round renames the new files to the .deleted names of the first."""
        self.clean(rounds=2)

    def clean_twice_and_delete(self) -> None:
        self.clean_twice()
        self.clock.sleep(DELAY_MS)
        self.scheduler.run_due()

    def move_directory(self) -> None:
        """Rename the directory, and put another with other files in its place."""
        log = self.log.log
        old = log.directory
        log.rename_directory(f"{old}.{'a' * 32}-delete")
        Path(old).mkdir()
        for path in Path(log.directory).iterdir():
            if path.name == LOCK:  # the same file: with another one, the close says that the lock was lost
                Path(old, path.name).hardlink_to(path)
            else:
                Path(old, path.name).write_bytes(b"\0" * path.stat().st_size)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    clock, disk = ManualClock(), HeldDisk()
    scheduler = ManualScheduler(clock)
    with open_log(
        tmp_path / "orders-0", create=True, config=SETTINGS, disk=disk, clock=clock, scheduler=scheduler
    ) as log:
        for number in range(COUNT):
            log.append(b"%04d" % number, key=key_of(number))
        yield Bench(log, disk, clock, scheduler)


def key_of(number: int) -> bytes:
    """One record in nine has a unique key, and stays while many others are removed."""
    return b"own %d" % number if number % 9 == 8 else b"%d" % (number % KEYS)


def check_read(found: list[ConsumerRecord], start: int = 0) -> None:
    """Those that were there before or those that are left, but of each key the last one."""
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    assert all(record.value == b"%04d" % record.offset for record in found)
    expected = {key_of(number): number for number in range(start, COUNT)}
    assert {record.key: record.offset for record in found} == expected


ACTIONS = ["clean", "clean_and_delete", "clean_twice", "clean_twice_and_delete", "move_directory"]


@pytest.mark.parametrize("start", [0, 44, 98])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_reader_held_before_it_opens_a_segment_passes_nothing_over(
    bench: Bench, action: str, start: int
) -> None:
    list(bench.log.records(start))  # the indexes are in memory, with positions in the files of now
    bench.disk.before_reading(".log", getattr(bench, action))

    found = list(bench.log.records(start))

    assert not bench.disk.is_armed
    check_read(found, start)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_reader_in_the_middle_of_a_log_goes_on_with_the_right_records(bench: Bench, action: str) -> None:
    bench.log.flush()
    reader = bench.log.records()
    found = [next(reader)]
    bench.disk.before_reading(".log", getattr(bench, action))

    found += reader

    check_read(found)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_segment_that_was_there_is_read_as_it_was_or_said_to_be_gone(bench: Bench, action: str) -> None:
    """A held segment reads its own file or fails, although the log itself would look again."""
    segments = [*bench.log.log.segments][:-1]
    expected = [segment.reader.read_bytes(0, segment.size) for segment in segments]
    bench.disk.before_reading(".log", getattr(bench, action))
    gone_count = 0

    for segment, data in zip(segments, expected, strict=True):
        try:
            assert segment.reader.read_bytes(0, segment.size) == data
        except DiskError as error:
            gone_count += error.errno == errno.ENOENT

    # The second round needs the .deleted names of the first segments of each group.
    assert (gone_count > 0) == (action not in ("clean", "move_directory"))


def test_a_segment_that_is_truncated_and_begun_anew_is_not_read_for_the_old_one(bench: Bench) -> None:
    log = bench.log.log
    base = [*log.segments][3].base_offset

    def begin_anew() -> None:
        log.truncate_to(base)
        log.append_as_leader(batch(b"new" * 100, b"new", key=b"0"), leader_epoch=0)
        log.roll()

    bench.disk.before_reading(f"{base:020d}.log", begin_anew)

    found = log.read(base, 4096, isolation=Isolation.LOG_END)

    records = [record for each in read_batches(found.records, check_crc=True) for record in each]
    assert [record.offset for record in records][:2] == [base, base + 1]
    assert {record.value for record in records} <= {b"new" * 100, b"new"} | {
        b"%04d" % number for number in range(COUNT)
    }


def test_a_log_that_is_emptied_while_it_is_read_says_so(bench: Bench) -> None:
    bench.disk.before_reading(".log", lambda: bench.log.log.truncate_fully_and_start_at(500))

    with pytest.raises(OffsetOutOfRangeError):
        list(bench.log.records())


def test_records_deleted_by_retention_while_they_are_read_are_read_or_said_to_be_gone(bench: Bench) -> None:
    log = bench.log.log

    def delete() -> None:
        log.delete_records(60)
        log.delete_old_segments()
        bench.clock.sleep(DELAY_MS)
        bench.scheduler.run_due()

    bench.disk.before_reading(".log", delete)

    with pytest.raises(OffsetOutOfRangeError):
        list(bench.log.records())
    assert [record.offset for record in bench.log.records()] == list(range(60, COUNT))


def test_an_aborted_record_is_not_shown_though_its_marker_is_merged_with_it(
    tmp_path: Path,
) -> None:
    """The entry of the abort is in another segment than the record, and both become one."""
    clock, disk = ManualClock(), HeldDisk()
    scheduler = ManualScheduler(clock)
    settings = {**SETTINGS, "internal.segment.bytes": 400}
    with open_log(
        tmp_path / "orders-0", create=True, config=settings, disk=disk, clock=clock, scheduler=scheduler
    ) as log:
        options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
        log.append_batch(build_batch([Record(0, NOW, b"k", b"aborted")], options))
        log.log.roll()
        append_marker(log.log, 1, ControlType.ABORT)
        log.log.roll()
        log.append(b"after", key=b"k")
        log.log.roll()
        bench = Bench(log, disk, clock, scheduler)
        disk.before_reading(".log", bench.clean_and_delete)

        found = [record.value for record in log.records(isolation="read_committed")]

        assert found == [b"after"]


def test_a_lookup_by_time_beside_the_cleaner_finds_the_record(bench: Bench) -> None:
    bench.disk.before_reading(".log", bench.clean_twice)

    found = bench.log.log.first_not_before(NOW)

    assert found is not None
    assert found.timestamp == NOW


# A view of the same directory: others rename the files, and it sees only names and inodes


@pytest.mark.parametrize("suffix", [".log", ".index"])
@pytest.mark.parametrize("action", ["clean", "clean_and_delete", "clean_twice", "clean_twice_and_delete"])
def test_a_view_held_before_it_opens_a_file_passes_nothing_over(
    bench: Bench, action: str, suffix: str
) -> None:
    disk, start = HeldDisk(), 44
    segment = bench.log.log.segments.floor(start)
    assert segment is not None
    with open_log(bench.log.directory, read_only=True, disk=disk, clock=bench.clock) as view:
        reader = view.records(start)
        if suffix == ".log":
            list(reader)
            reader = view.records(start)
        disk.before_reading(f"{segment.base_offset:020d}{suffix}", getattr(bench, action))

        found = list(reader)

        assert not disk.is_armed
        check_read(found, start)


def test_a_view_whose_records_are_deleted_while_it_reads_says_so(bench: Bench) -> None:
    def delete() -> None:
        bench.log.delete_records(60)
        bench.log.log.delete_old_segments()
        bench.clock.sleep(DELAY_MS)
        bench.scheduler.run_due()

    disk = HeldDisk()
    with open_log(bench.log.directory, read_only=True, disk=disk, clock=bench.clock) as view:
        reader = view.records()
        disk.before_reading(f"{0:020d}.log", delete)

        with pytest.raises(OffsetOutOfRangeError):
            list(reader)


# Moves


def test_a_reader_held_while_its_log_moves_away_and_back_reads_its_own_files(tmp_path: Path) -> None:
    disk = HeldDisk()
    node = Node(tmp_path / "a", tmp_path / "b", disk=disk, log={"internal_segment_bytes": 500})
    with node.running(high_watermark_follows_end=True) as manager:
        old = manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "a")
        for number in range(20):
            old.append_as_leader(batch(b"%04d" % number), leader_epoch=0)
        base = [*old.segments][1].base_offset

        def move_away_and_back() -> None:
            moved = manager.move_log(ORDERS, tmp_path / "b")
            moved.truncate_to(base)
            for _ in range(20):
                moved.append_as_leader(batch(b"else"), leader_epoch=0)
            manager.move_log(ORDERS, tmp_path / "a")

        disk.before_reading(f"{base:020d}.log", move_away_and_back)

        found = records_from(old, base)

        assert found[:3] == [b"%04d" % number for number in range(base, base + 3)]


def test_a_reader_of_a_moved_log_whose_files_are_removed_is_told_where_the_log_is(tmp_path: Path) -> None:
    disk = HeldDisk()
    node = Node(tmp_path / "a", tmp_path / "b", disk=disk)
    with node.running(high_watermark_follows_end=True) as manager:
        old = manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "a")
        old.append_as_leader(batch(b"a"), leader_epoch=0)

        def move() -> None:
            manager.move_log(ORDERS, tmp_path / "b")
            node.wait(60_000)

        disk.before_reading(".log", move)

        with pytest.raises(LogMovedError):
            records_from(old, 0)


def records_from(log: Log, offset: int) -> list[bytes | None]:
    data = log.read(offset, 4096, isolation=Isolation.LOG_END).records
    return [record.value for each in read_batches(data) for record in each]


# In full swing


def test_readers_beside_a_cleaner_in_full_swing_lose_nothing(bench: Bench) -> None:
    done = threading.Event()
    problems: list[BaseException] = []

    def read_on() -> None:
        try:
            while not done.is_set():
                check_read(list(bench.log.records()))
        except BaseException as problem:
            problems.append(problem)

    readers = [threading.Thread(target=read_on, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(20):
        bench.clean_twice_and_delete()
    done.set()
    for reader in readers:
        reader.join(PATIENCE_S)

    if problems:
        raise problems[0]
