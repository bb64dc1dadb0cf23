"""Ranges of a file against a mask of its bytes."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.log.recovery.ranges import ByteRange, merged, section, without

MASKS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40)


def runs(mask: list[bool]) -> list[ByteRange]:
    """The longest runs of bytes that are meant."""
    found = []
    for is_meant, group in groupby(range(len(mask)), lambda at: mask[at]):
        places = [*group]
        if is_meant:
            found.append((places[0], len(places)))
    return found


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_neighbours_without_a_gap_become_one() -> None:
    assert merged(numbers(0, 10, 25, 30), numbers(10, 5, 5, 1)) == [(0, 15), (25, 6)]


def test_no_ranges_stay_none() -> None:
    assert merged(numbers(), numbers()) == []


@pytest.mark.parametrize(
    ("dropped", "left"),
    [
        ([], ((10, 20), (50, 5))),
        ([(10, 4)], ((14, 16), (50, 5))),
        ([(26, 4)], ((10, 16), (50, 5))),
        ([(15, 1), (20, 5)], ((10, 5), (16, 4), (25, 5), (50, 5))),
        ([(10, 20)], ((50, 5),)),
        ([(12, 3), (50, 5)], ((10, 2), (15, 15))),
    ],
)
def test_what_is_dropped_leaves_what_is_around_it(
    dropped: list[ByteRange], left: tuple[ByteRange, ...]
) -> None:
    assert without([(10, 20), (50, 5)], dropped) == left


@given(MASKS)
def test_each_byte_that_is_there_and_not_dropped_is_left(bytes_of_file: list[tuple[bool, bool]]) -> None:
    there = [is_there for is_there, _ in bytes_of_file]
    dropped = [is_there and is_dropped for is_there, is_dropped in bytes_of_file]
    left = [is_there and not is_dropped for is_there, is_dropped in bytes_of_file]

    assert without(runs(there), runs(dropped)) == tuple(runs(left))


@given(MASKS, st.integers(0, 40), st.integers(0, 40))
def test_a_section_has_the_bytes_from_its_start_on(
    bytes_of_file: list[tuple[bool, bool]], start: int, size: int
) -> None:
    kept = runs([is_kept for is_kept, _ in bytes_of_file])
    places = [place for position, length in kept for place in range(position, position + length)]

    found = section(kept, start, size)

    assert [place for position, length in found for place in range(position, position + length)] == (
        places[start : start + size]
    )
