"""One writer, many readers: nobody sees half a batch, or a transaction before its end. With real files."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from stratalog import PartitionLog, open_log
from stratalog.errors import OffsetOutOfRangeError
from stratalog.records.control import ControlType
from tests import profile
from tests.log.model import NOW, ManualClock, append_marker, produced

BATCHES = profile.examples(2000, quick=100)
READERS = 3
PER_BATCH = 7
PATIENCE = 120


def run_all(*tasks: Callable[[], None]) -> None:
    """Run each in a separate thread; the first error in one is raised here."""
    problems: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    if problems:
        raise problems[0]


@pytest.fixture
def log(tmp_path: Path):  # type: ignore[no-untyped-def]
    config = {"internal.segment.bytes": 5000, "index.interval.bytes": 200, "file.delete.delay.ms": 60_000}
    with open_log(tmp_path / "orders-0", create=True, config=config, clock=ManualClock()) as log:
        yield log


def read_to_the_end(log: PartitionLog) -> None:
    """Read again and again from where the last read ended, until the last batch has been seen."""
    position = 0
    while position < BATCHES * PER_BATCH:
        end = log.high_watermark
        found = list(log.records(position, end_offset=end))
        assert [record.offset for record in found] == list(range(position, end))
        counts = Counter(record.value for record in found)
        assert set(counts.values()) <= {PER_BATCH}
        position = end


def test_a_reader_never_sees_half_a_batch(log: PartitionLog) -> None:
    def write() -> None:
        for number in range(BATCHES):
            codec = ("none", "lz4", "zstd")[number % 3]
            log.append_many([b"%d" % number] * PER_BATCH, codec=codec)

    run_all(write, *[lambda: read_to_the_end(log)] * READERS)

    assert log.end_offset == BATCHES * PER_BATCH


def test_a_view_never_sees_half_a_batch(log: PartitionLog) -> None:
    def write() -> None:
        for number in range(BATCHES):
            log.append_many([b"%d" % number] * PER_BATCH)

    def read() -> None:
        with open_log(log.directory, read_only=True) as view:
            position = 0
            while position < BATCHES * PER_BATCH:
                found = list(view.records(position))
                expected = range(position, position + len(found))
                assert [record.offset for record in found] == list(expected)
                assert len(found) % PER_BATCH == 0
                position += len(found)

    run_all(write, read, read)


def test_a_reader_of_committed_records_never_sees_an_open_or_aborted_one(log: PartitionLog) -> None:
    done = threading.Event()

    def write() -> None:
        for number in range(BATCHES // 2):
            aborts = number % 2 == 0
            data = produced(1, number, b"aborted" if aborts else b"committed", transactional=True)
            log.append_batch(data)
            append_marker(log.log, 1, ControlType.ABORT if aborts else ControlType.COMMIT)
        done.set()

    def read() -> None:
        position = 0
        while not done.is_set() or position < log.end_offset:
            end = log.last_stable_offset
            found = list(log.records(position, end_offset=end, isolation="read_committed"))
            assert {record.value for record in found} <= {b"committed"}
            # Of each four offsets the third is the committed record; the others are markers and aborted.
            assert [r.offset for r in found] == [o for o in range(position, end) if o % 4 == 2]
            position = end

    run_all(write, *[read] * READERS)


def test_readers_and_a_truncating_writer_agree_on_what_is_left(log: PartitionLog) -> None:
    done = threading.Event()

    def write() -> None:
        for number in range(BATCHES):
            log.append_many([b"%d" % number] * PER_BATCH, codec="none")
            if number % 10 == 9:
                log.truncate_to(log.end_offset - 3 * PER_BATCH)
        done.set()

    def read() -> None:
        while not done.is_set():
            start = max(0, log.high_watermark - 100)
            with suppress(OffsetOutOfRangeError):  # the place to go on from was cut off meanwhile
                offsets = [record.offset for record in log.records(start - start % PER_BATCH)]
                assert offsets == sorted(set(offsets))

    run_all(write, read, read)

    counts = Counter(record.value for record in log.records())
    assert set(counts.values()) == {PER_BATCH}
    assert {record.timestamp for record in log.records()} == {NOW}
