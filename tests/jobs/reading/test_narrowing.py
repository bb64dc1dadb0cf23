"""A query leaves out offsets and times before they are read, and nothing that it could want."""

from __future__ import annotations

from pathlib import Path

import pytest

import stratalog
from stratalog.clock import system_clock
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.views import open_view
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.jobs.reading.narrowing import EVERYTHING, Wanted, everything, narrowed
from stratalog.log.new_records import NewRecord
from tests.jobs.reading.making import T0

PLACE = TopicPartition("orders", 0)
# Out of order, and two of the same time.
SECONDS = [0, 1, 5, 2, 5, 3, 4, 9, 8, 6]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with stratalog.open_log(tmp_path / str(PLACE), create=True) as log:
        for second in SECONDS:
            log.append_many([NewRecord(b"value", b"key", (), T0 + 1000 * second)])
    return tmp_path / str(PLACE)


def test_two_wishes_are_met_by_what_both_want() -> None:
    one, other = Wanted(first_offset=3, since_ms=7), Wanted(last_offset=9, since_ms=5)

    assert one.both(other) == Wanted(first_offset=3, last_offset=9, since_ms=7)
    assert one.both(Wanted(last_offset=2)) is None
    assert one.both(EVERYTHING) == one


def test_one_of_two_wishes_is_met_by_what_spans_both() -> None:
    one, other = Wanted(first_offset=3, last_offset=4, since_ms=7), Wanted(first_offset=8, since_ms=5)

    assert one.either(other) == Wanted(first_offset=3, since_ms=5)
    assert one.either(Wanted(last_offset=3)) == Wanted(last_offset=4)
    assert everything(PLACE) == EVERYTHING


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (EVERYTHING, (0, 10)),
        (Wanted(first_offset=3, last_offset=5), (3, 6)),
        (Wanted(first_offset=30), (30, 30)),
        (Wanted(since_ms=T0 + 5000), (2, 10)),
        (Wanted(since_ms=T0 + 2000, first_offset=4), (4, 10)),
        (Wanted(since_ms=T0 + 9001), (10, 10)),
        (Wanted(since_ms=T0 + 6000, last_offset=3), (4, 4)),
    ],
)
def test_a_range_keeps_all_that_can_match(log: Path, wanted: Wanted, expected: tuple[int, int]) -> None:
    view = open_view(DiskReader(), system_clock, FoundPartition(topic_partition=PLACE, directory=str(log)))
    try:
        start, end = narrowed(view, 0, 10, wanted)
    finally:
        view.close()

    assert (start, end) == expected
    matching = [
        offset
        for offset, second in enumerate(SECONDS)
        if wanted.first_offset <= offset <= wanted.last_offset
        and (wanted.since_ms is None or T0 + 1000 * second >= wanted.since_ms)
    ]
    assert set(matching) <= set(range(start, end))
