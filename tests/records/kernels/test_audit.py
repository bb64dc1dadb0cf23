"""The one pass of an audit: it stops where a walk stops, and at each batch that is not as expected.

That it agrees with the slow form is in tests/operations/audit/test_usual_parts.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from crc32c import crc32c

from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.kernels import audit as kernel
from stratalog.records.kernels import walk as walking
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import new_table
from tests.operations.audit.planting import ATTRIBUTES_AT, CRC_AT

NOW = 1_700_000_000_000
NOTHING = np.empty(0, np.int64)


def log(*sizes: int) -> bytearray:
    """A batch of one record for each size, the first with offset 10."""
    made = [
        build_batch([Record(10 + number, NOW + number, None, bytes(size))], BatchOptions())
        for number, size in enumerate(sizes)
    ]
    return bytearray(b"".join(made))


def check(
    data: bytes | bytearray,
    *,
    rows: int = 100,
    entries: kernel.Entries = (NOTHING, NOTHING, NOTHING, NOTHING),
    limits: kernel.Limits = (10, 1000, NOW + 1000, 500),
    last_offset: int = 9,
) -> tuple[tuple[int, int, int], np.void]:
    facts = np.zeros(1, kernel.FACTS)
    facts["first_offset"] = facts["first_timestamp"] = facts["max_timestamp"] = facts["epoch"] = -1
    facts["last_offset"] = last_offset
    gaps, sums = np.zeros((5, 2), np.int64), np.zeros(rows, np.uint32)
    found = kernel.check(byte_array(data), 0, len(data), 0, limits, entries, facts, gaps, sums)
    return found, facts[0]


@pytest.mark.parametrize("cut", [0, 1, 17, 18, 60, 61, 100, 2000])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8])
def test_it_stops_where_a_walk_stops(cut: int, rows: int) -> None:
    data = log(1, 1, 1, 1, 3000, 1, 5)
    data = data[: len(data) - cut]

    found, facts = check(data, rows=rows)

    assert found == walking.walk(byte_array(data), 0, len(data), new_table(rows), True, 2**62)
    assert facts["batches_count"] == found[0]


@pytest.mark.parametrize("number", range(7))
def test_a_flipped_bit_is_unusual_in_each_batch(number: int) -> None:
    data = log(1, 1, 1, 1, 3000, 1, 5)
    table = new_table()
    walking.walk(byte_array(data), 0, len(data), table, True, 2**62)
    data[int(table["records_end"][number]) - 1] ^= 8

    assert check(data)[0] == (number, table["position"][number], kernel.UNUSUAL)


def test_facts_are_those_of_the_headers() -> None:
    _, facts = check(log(1, 1, 1))

    assert (facts["first_offset"], facts["last_offset"]) == (10, 12)
    assert (facts["first_timestamp"], facts["max_timestamp"]) == (NOW, NOW + 2)
    assert (facts["batches_count"], facts["records_count"], facts["codecs"]) == (3, 3, 1)
    assert not facts["is_compacted"]


@pytest.mark.parametrize(
    "limits",
    [
        (10, 12, NOW + 1000, 500),  # the next segment starts at the last offset
        (10 - (1 << 31), 1000, NOW + 1000, 500),  # too far from the base offset
        (10, 1000, NOW + 1, 500),  # in the future
    ],
)
def test_a_batch_past_a_limit_is_unusual(limits: kernel.Limits) -> None:
    assert check(log(1, 1, 1))[0][2] == walking.END
    assert check(log(1, 1, 1), limits=limits)[0][2] == kernel.UNUSUAL


@pytest.mark.parametrize(
    ("at", "value"),
    [(7, 10), (23, 255), (35, 127), (60, 2), (57, 128), (16, 1), (16, 3), (11, 13)],
    ids=[
        "its offset again",
        "last before first offset",
        "in the future",
        "too many records",
        "fewer than no records",
        "old format",
        "unknown format",
        "short",
    ],
)
def test_a_changed_field_is_unusual(at: int, value: int) -> None:
    data = log(1, 1)
    start = len(data) // 2
    data[start + at] = value
    found = crc32c(bytes(data[start + ATTRIBUTES_AT :]))
    data[start + CRC_AT : start + CRC_AT + 4] = found.to_bytes(4, "big")

    assert check(data)[0][2] == kernel.UNUSUAL


@pytest.mark.parametrize("base_offset", [2**63 - 1, 2**63 - 2, 2**63 - 3, -(2**63), -3, -1])
def test_offsets_beyond_64_bits_are_unusual(base_offset: int) -> None:
    """The sum of the base offset and the delta of the last one wraps, or is below zero."""
    records = [Record(number, NOW, None, b"v") for number in range(4)]
    data = bytearray(build_batch(records, BatchOptions()))
    data[:8] = base_offset.to_bytes(8, "big", signed=True)
    nearly_all = (0, 2**63 - 1, NOW + 1000, 500)

    found, facts = check(data, limits=nearly_all, last_offset=-1)

    assert found == (0, 0, kernel.UNUSUAL)
    assert facts["last_offset"] == -1


@pytest.mark.parametrize(
    ("offset", "position", "is_usual"),
    [(11, 1, True), (12, 1, True), (10, 1, False), (13, 1, True), (11, 0.5, False), (12, 2, True)],
)
def test_entries_are_compared_with_the_batch_that_they_name(
    offset: int, position: float, is_usual: bool
) -> None:
    data = log(1, 1, 1)
    positions = np.array([int(position * len(data) / 3)], np.int64)

    found, facts = check(data, entries=(np.array([offset], np.int64), positions, NOTHING, NOTHING))

    assert (found[2] != kernel.UNUSUAL) == is_usual
    if is_usual:
        assert facts["next_entry"] == 1
        assert facts["waiting_entry"] == (0 if offset == 13 else 1)


@pytest.mark.parametrize(("offset", "time", "is_usual"), [(11, 1, True), (11, 0, False), (12, 1, False)])
def test_times_are_compared_with_the_batch_of_their_offset(offset: int, time: int, is_usual: bool) -> None:
    entries = (NOTHING, NOTHING, np.array([offset], np.int64), np.array([NOW + time], np.int64))

    assert (check(log(1, 1, 1), entries=entries)[0][2] != kernel.UNUSUAL) == is_usual
