"""Several batches that are appended as one: an error leaves none of them, a crash the first ones at most."""

from __future__ import annotations

import errno
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from stratalog import NewRecord, PartitionLog, open_log
from stratalog.errors import DiskError, InvalidTimestampError, RecordTooLargeError, RecordValidationError
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.files.simulated import SimulatedDisk
from tests import profile
from tests.log.crashing import crashed_at, fill, new_disk, opened, steps_of, value_of, values
from tests.log.model import NOW, ManualClock, ManualScheduler

BEFORE, MANY = 3, 11
ALL = {offset: value_of(offset) for offset in range(BEFORE + MANY)}
FIRST = {offset: ALL[offset] for offset in range(BEFORE)}
MOST = 200  # images of one power cut
SMALL = {"max.message.bytes": 200}  # three of these records; segments of two batches


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def some(log: PartitionLog, _: ManualScheduler) -> None:
    fill(log, BEFORE)
    log.flush()
    log.log.config = log.log.config.with_overrides(SMALL)


def append_many(log: PartitionLog) -> tuple[int, int]:
    return log.append_many([NewRecord(value, timestamp=NOW) for value in [*ALL.values()][BEFORE:]])


def some_and_many(log: PartitionLog, scheduler: ManualScheduler) -> None:
    some(log, scheduler)
    append_many(log)


def steps_of_many(directory: Path) -> range:
    return range(steps_of(directory, some) + 1, steps_of(directory, some_and_many) + 1)


def test_they_are_several_batches_in_several_segments(directory: Path) -> None:
    disk = new_disk(directory)

    with opened(directory, disk) as log:
        some(log, ManualScheduler(ManualClock()))
        assert append_many(log) == (BEFORE, BEFORE + MANY - 1)

        assert values(log) == ALL
        assert log.metrics()["NumLogSegments"] > 2
        assert all(batch.size <= SMALL["max.message.bytes"] for batch in batches_of(disk, directory))


class Batch(NamedTuple):
    """A batch in a file, by the header that Kafka documents."""

    size: int
    last_offset: int


def batches_of(disk: SimulatedDisk, directory: Path) -> list[Batch]:
    found = []
    for path, data in disk.contents().items():
        position = 0
        while path.startswith(f"{directory}/") and path.endswith(".log") and position < len(data):
            base_offset, length = struct.unpack_from(">qi", data, position)
            (delta,) = struct.unpack_from(">i", data, position + 23)
            found.append(Batch(12 + length, base_offset + delta))
            position += 12 + length
    return found


def test_a_killed_process_leaves_the_first_of_several_batches(directory: Path) -> None:
    whole = new_disk(directory)
    with opened(directory, whole) as log:
        some_and_many(log, ManualScheduler(ManualClock()))
    ends = {batch.last_offset + 1 for batch in batches_of(whole, directory)}
    assert len(ends) > BEFORE + 2
    found = set()
    for step in steps_of_many(directory):
        disk = SimulatedDisk.of(crashed_at(directory, some_and_many, step).contents())

        with opened(directory, disk) as log:
            read = values(log)

        assert read == {offset: ALL[offset] for offset in range(len(read))}
        assert len(read) >= BEFORE
        found.add(len(read))
    assert found == {end for end in ends if end >= BEFORE}


def test_a_power_cut_leaves_the_first_of_several_batches(directory: Path) -> None:
    steps = steps_of_many(directory)
    for step in [*steps][:: max(1, len(steps) // profile.examples(len(steps), quick=8))]:
        for image in crashed_at(directory, some_and_many, step).crash(MOST):
            with opened(directory, image) as log:
                read = values(log)

            assert read == {offset: ALL[offset] for offset in range(len(read))}
            assert len(read) >= BEFORE


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_disk_at_any_step_leaves_none_of_them(directory: Path, number: int) -> None:
    """One step fails, and what comes after it succeeds again, as when a disk is full."""
    failed = 0
    for step in steps_of_many(directory):
        disk = new_disk(directory)
        with opened(directory, disk) as log:
            some(log, ManualScheduler(ManualClock()))
            disk.fail_at(step, number)
            try:
                append_many(log)
            except DiskError:
                failed += 1
                expected = FIRST
            else:
                expected = ALL  # a step whose failure does no harm, or that comes later
        with opened(directory, SimulatedDisk.of(disk.contents())) as log:
            assert values(log) == expected, step
            assert log.append(b"next") == len(expected)
    assert failed > 5


class HalfWritten(Disk):
    """A disk that has room for a part of one write, and then is full until somebody frees some space."""

    left = -1

    def write_at(self, path: DiskPath, data: object, position: int) -> None:
        view = memoryview(data)  # type: ignore[arg-type]
        if self.left >= 0 and str(path).endswith(".log"):
            self.left -= 1
            if self.left < 0:
                super().write_at(path, view[: len(view) // 2], position)
                raise DiskError(path, "no space left on device.", errno.ENOSPC)
        super().write_at(path, data, position)  # type: ignore[arg-type]


@pytest.mark.parametrize("writes", range(4))
def test_a_full_disk_leaves_none_of_them_and_nobody_sees_some(directory: Path, writes: int) -> None:
    disk = HalfWritten()
    log = open_log(directory, config=SMALL, disk=disk)
    log.append(b"before")
    with open_log(directory, read_only=True) as view:
        disk.left = writes

        with pytest.raises(OSError, match="no space left") as caught:
            log.append_many([b"x" * 50] * 40)
        assert caught.value.errno == errno.ENOSPC

        assert [record.value for record in view.records()] == [b"before"]
    with suppress(DiskError):
        log.close()
    with open_log(directory, config=SMALL) as log:
        assert [record.value for record in log.records()] == [b"before"]


@pytest.mark.parametrize(
    ("config", "last", "error"),
    [
        ({"cleanup.policy": "compact"}, NewRecord(b"without a key"), RecordValidationError),
        (
            {"message.timestamp.after.max.ms": 1000},
            NewRecord(b"x", key=b"k", timestamp=NOW + 10_000_000),
            InvalidTimestampError,
        ),
        ({}, NewRecord(b"x" * 5000, key=b"k"), RecordTooLargeError),
    ],
)
def test_a_record_that_is_refused_refuses_all_of_them_and_the_log_goes_on(
    directory: Path, config: dict[str, object], last: NewRecord, error: type[Exception]
) -> None:
    with open_log(directory, config={**SMALL, **config}, clock=ManualClock()) as log:  # type: ignore[dict-item]
        log.append(b"before", key=b"k")

        with pytest.raises(error):
            log.append_many([*[NewRecord(b"x" * 50, key=b"k")] * 40, last])

        assert log.end_offset == 1
        assert log.append_many([NewRecord(b"x" * 50, key=b"k")] * 40) == (1, 40)
        assert len([*log]) == 41


def test_a_reader_sees_all_of_them_at_once(directory: Path) -> None:
    disk = Watched()
    with open_log(directory, config=SMALL, disk=disk) as log:
        disk.log = log

        log.append_many([b"x" * 50] * 40)

        assert len(disk.seen) > 10
        assert {*disk.seen} == {0}
        assert len([*log.records()]) == 40


class Watched(Disk):
    """A disk that counts what a reader sees at each write to the log."""

    log: PartitionLog | None = None

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def write_at(self, path: DiskPath, data: object, position: int) -> None:
        if self.log is not None and str(path).endswith(".log"):
            self.seen.append(len([*self.log.records()]))
        super().write_at(path, data, position)  # type: ignore[arg-type]
