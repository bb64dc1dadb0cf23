"""Which records are replaced, by their offsets alone."""

from __future__ import annotations

import numpy as np

from stratalog.limits import INT64_MAX
from stratalog.log.cleaning.newest import ReplacedRecords
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.records.kernels.decode import RECORD
from stratalog.records.kernels.walk import BATCH


def found_for(replaced: list[int], offsets: list[int]) -> list[int]:
    rows = np.zeros(len(offsets), RECORD)
    rows["offset"] = offsets
    nothing = np.empty(0, np.uint8)
    run = DecodedRun(nothing, nothing, np.zeros(1, BATCH), rows, np.empty((0, 2), np.uint64), 0)
    found = np.full(len(offsets), 7, np.int64)
    ReplacedRecords(np.array(replaced, np.int64), 99).find(run, found)
    return [int(each) for each in found]


def test_a_replaced_record_has_a_newer_one_and_no_other_has() -> None:
    assert found_for([12, 3, 8], [2, 3, 4, 8, 12, 13]) == [-1, INT64_MAX, -1, INT64_MAX, INT64_MAX, -1]


def test_the_order_and_repeats_of_the_offsets_do_not_matter() -> None:
    assert found_for([8, -1, 3, 8, 3], [3, 8]) == [INT64_MAX, INT64_MAX]


def test_nothing_is_replaced_by_default() -> None:
    assert found_for([], [0, 5]) == [-1, -1]
    assert found_for([4], []) == []
