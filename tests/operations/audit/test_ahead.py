"""Which batches are ahead of those after them, and which are behind those before them."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.operations.audit.ahead import find_ahead, is_far
from stratalog.operations.audit.rows import RowChecks
from stratalog.operations.audit.spots import Spots
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import new_table

FAR = 1 << 40


def rows(*bases: int) -> BatchTable:
    """Batches of ten offsets each."""
    table = new_table(len(bases))
    table["base_offset"] = bases
    table["last_offset"] = np.array(bases) + 9
    return table


def checks(next_base: int | None = None) -> RowChecks:
    return RowChecks("x.log", 100, next_base, 0, Spots())


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
def test_a_few_batches_are_ahead_of_more(bases: list[int], ahead: list[int]) -> None:
    assert find_ahead(rows(*bases), checks()) == ahead


@pytest.mark.parametrize(("last", "ahead"), [(FAR, [1]), (500, []), (INT64_MAX - 9, [1]), (INT64_MIN, [])])
def test_the_last_batch_of_a_closed_segment_is_ahead_if_no_index_can_name_it(
    last: int, ahead: list[int]
) -> None:
    assert find_ahead(rows(100, last), checks(next_base=200)) == ahead


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
