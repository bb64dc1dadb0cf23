"""The rule by which the indexes grow, and the search over headers, on batches made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.memory import byte_array
from stratalog.records.kernels.walk import BATCH
from stratalog.records.walk import walk_batches
from tests.naive import Record, encode_batch

TIMES = [10, 30, 20, 40]
BATCHES = [encode_batch([Record(number, time, b"k", b"v")]) for number, time in enumerate(TIMES)]
SIZE = len(BATCHES[0])


def indexed(interval: int, *, base_offset: int = 0, room: tuple[int, int] = (9, 9)) -> tuple[object, ...]:
    """What came of it, the offset entries and the time entries."""
    headers = walk_batches(b"".join(BATCHES)).headers
    progress = np.zeros(1, kernel.PROGRESS)
    for name in ("max_timestamp", "max_timestamp_offset", "last_offset", "last_timestamp"):
        progress[name] = -1
    offsets, times = np.zeros((4, 2), np.int64), np.zeros((4, 2), np.int64)

    done, offset_count, time_count, outcome = kernel.index_batches(
        headers, 1000, base_offset, interval, room, progress, offsets, times
    )

    return done, outcome, offsets[:offset_count].tolist(), times[:time_count].tolist()


def test_an_entry_is_due_behind_more_than_the_interval_and_never_for_the_first() -> None:
    every = [[number, 1000 + number * SIZE] for number in (1, 2, 3)]

    assert indexed(SIZE - 1) == (4, kernel.INDEXED, every, [[30, 1], [40, 3]])
    assert indexed(SIZE) == (4, kernel.INDEXED, [every[1]], [[30, 1]])
    assert indexed(4 * SIZE) == (4, kernel.INDEXED, [], [])


def test_a_full_index_and_an_offset_too_far_from_the_base_are_told_with_their_batch() -> None:
    assert indexed(0, room=(1, 9))[:2] == (2, kernel.OFFSET_INDEX_FULL)
    assert indexed(0, room=(9, 1))[:2] == (2, kernel.TIME_INDEX_FULL)
    assert indexed(0, base_offset=1)[:2] == (0, kernel.OFFSET_OVERFLOW)
    assert indexed(0, base_offset=2 - 2**31)[:2] == (2, kernel.OFFSET_OVERFLOW)


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        (kernel.OFFSET_AT_LEAST, 2, (kernel.FOUND, 2)),
        (kernel.OFFSET_AT_LEAST, 4, (kernel.AT_END, 4)),
        (kernel.TIMESTAMP_AT_LEAST, 20, (kernel.FOUND, 1)),
        (kernel.TIMESTAMP_AT_LEAST, 31, (kernel.FOUND, 3)),
    ],
)
def test_the_search_ends_at_the_first_batch_that_fits(
    kind: int, target: int, expected: tuple[int, int]
) -> None:
    data = byte_array(b"".join(BATCHES))

    how, position, _ = kernel.seek(data, len(data), len(data), kind, target, np.zeros(2, BATCH))

    assert (how, position // SIZE) == expected


def test_the_search_asks_for_bytes_and_stops_at_what_is_no_batch() -> None:
    data = byte_array(b"".join(BATCHES[:2]) + bytes(SIZE))
    found = np.zeros(2, BATCH)

    asked = kernel.seek(data, SIZE + 20, len(data), kernel.OFFSET_AT_LEAST, 9, found)
    broken = kernel.seek(data, len(data), len(data), kernel.OFFSET_AT_LEAST, 9, found)

    assert asked == (kernel.NEEDS_BYTES, SIZE, 1)
    assert broken == (kernel.BROKEN, 2 * SIZE, 2)
