"""Which batches are ahead of those after them, and which are behind those before them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.operations.audit.ahead import MOST_AHEAD, AheadRows, is_far, is_followed_by_lower
from stratalog.operations.audit.rows import RowChecks
from stratalog.operations.audit.spots import Spots
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import new_table
from tests import profile

FAR = 1 << 40


def rows(*bases: int) -> BatchTable:
    """Batches of ten offsets each."""
    table = new_table(len(bases))
    table["base_offset"] = bases
    table["last_offset"] = np.array(bases) + 9
    return table


def checks(next_base: int | None = None) -> RowChecks:
    return RowChecks("x.log", 100, next_base, 0, Spots())


def find_ahead(rows: BatchTable, checks: RowChecks, part_size: int = 1000) -> list[int]:
    """The numbers of rows that are ahead, if so many rows are a part."""

    def rows_after(position: int) -> Iterator[BatchTable]:
        for start in range(position, len(rows), after_size):
            yield rows[start : start + after_size]

    after_size = 1 + part_size % 3
    ahead, found = AheadRows(checks), list[int]()
    for start in range(0, len(rows), part_size):
        part = rows[start : start + part_size]
        numbers = ahead.find(part, partial(rows_after, start + len(part)))
        found += [start + number for number in numbers]
    return found


@pytest.mark.parametrize("part_size", [1000, 1, 2, 3, 4])
@pytest.mark.parametrize(
    ("bases", "ahead"),
    [
        ([], []),
        ([100, 110, 120], []),
        ([100, FAR, 120, 130], [1]),
        ([FAR, 110, 120], [0]),
        ([100, 150, 120], [1]),
        ([100, FAR, FAR + 100, 130, 140, 150], [1, 2]),
        ([100, FAR, 120, FAR, 140, 150], [1, 3]),
        ([100, 110, FAR], []),  # nothing shows that it is wrong
        ([100, 200, 120, 210], []),  # the batch that goes back is the wrong one
        ([100, 120, 110, 130], []),  # two were exchanged
        ([100, 110, 100, 110], []),  # two came again
        ([100, 120, 120, 130], []),  # one came again, after a gap
        ([300, 310, 320, 100, 110], []),  # as many are above as below
    ],
)
def test_a_few_batches_are_ahead_of_more(bases: list[int], ahead: list[int], part_size: int) -> None:
    assert find_ahead(rows(*bases), checks(), part_size) == ahead


@pytest.mark.parametrize("next_base", [None, 2000])
def test_parts_of_any_size_have_the_same_rows_ahead(next_base: int | None) -> None:
    rng, found_count = random.Random(7), 0
    for _ in range(profile.examples(2000, quick=100, ci=400)):
        bases = list(np.cumsum([rng.choice((10, 10, 10, 30, 200)) for _ in range(rng.randint(1, 60))]) + 90)
        for _ in range(rng.randint(1, 4)):
            first, offset = rng.randrange(len(bases)), rng.choice((15, 150, 3000, FAR, -40))
            for number in range(first, min(first + rng.choice((1, 1, 2, 5, 9)), len(bases))):
                bases[number] += offset
        expected = find_ahead(rows(*bases), checks(next_base))
        found_count += len(expected)

        for part_size in (1, 2, 3, 7, 8, 9, 20, 27):
            assert find_ahead(rows(*bases), checks(next_base), part_size) == expected, bases
    assert found_count > 100


def test_a_part_without_gaps_is_judged_alone() -> None:
    whole = rows(*range(100, 300, 10))

    def rows_after() -> Iterator[BatchTable]:
        raise AssertionError("nothing more is read")

    assert AheadRows(checks()).find(whole, rows_after) == []


def test_no_more_rows_are_read_than_can_be_ahead_together() -> None:
    taken = []

    def rows_after() -> Iterator[BatchTable]:
        for base in range(400, 10_000, 10):
            taken.append(base)
            yield rows(base)

    assert AheadRows(checks()).find(rows(100, 300), rows_after) == []
    assert len(taken) == MOST_AHEAD


def test_rows_that_go_back_are_seen_as_far_as_a_run_of_rows_ahead_reaches() -> None:
    ascending = range(110, 110 + 10 * MOST_AHEAD, 10)

    assert not is_followed_by_lower(109, lambda: [rows(*ascending)])
    assert is_followed_by_lower(109, lambda: [rows(100)])
    assert is_followed_by_lower(109, lambda: [rows(*ascending[:-1]), rows(100)])
    assert not is_followed_by_lower(109, lambda: [rows(*ascending), rows(100)])
    assert not is_followed_by_lower(109, lambda: [])


@pytest.mark.parametrize("part_size", [1000, 1])
@pytest.mark.parametrize(("last", "ahead"), [(FAR, [1]), (500, []), (INT64_MAX - 9, [1]), (INT64_MIN, [])])
def test_the_last_batch_of_a_closed_segment_is_ahead_if_no_index_can_name_it(
    last: int, ahead: list[int], part_size: int
) -> None:
    assert find_ahead(rows(100, last), checks(next_base=200), part_size) == ahead


def test_a_far_batch_with_others_after_it_is_no_last_one() -> None:
    assert find_ahead(rows(100, FAR, FAR + 10), checks(next_base=200), 2) == [2]


@pytest.mark.parametrize(
    ("base", "next_base", "has_damage", "expected"),
    [
        (FAR, None, False, True),
        (250, 200, False, False),
        (250, 200, True, True),
        (150, 200, True, False),
        (250, None, True, False),
    ],
)
def test_a_recovery_sees_what_no_segment_can_have(
    base: int, next_base: int | None, has_damage: bool, expected: bool
) -> None:
    assert is_far(rows(base)[0], checks(next_base), has_damage=has_damage) is expected
