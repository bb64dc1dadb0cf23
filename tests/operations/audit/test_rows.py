"""Headers against each other: each contradiction, and none in what is right."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.operations.audit.rows import RowChecks
from stratalog.operations.audit.spots import Spots
from stratalog.records.kernels.walk import BATCH, BatchTable

NOW = 1_700_000_000_000


def row(base: int, last: int, *, epoch: int = 0, time: int = NOW, count: int | None = None) -> BatchTable:
    made = np.zeros(1, BATCH)
    made["base_offset"], made["last_offset"], made["magic"] = base, last, 2
    made["partition_leader_epoch"], made["max_timestamp"] = epoch, time
    made["records_count"] = last - base + 1 if count is None else count
    made["valid"] = True
    return made


def check(*rows: BatchTable, base: int = 0, next_base: int | None = None) -> tuple[RowChecks, list[str]]:
    spots = Spots()
    checks = RowChecks("0.log", base, next_base, NOW, spots)
    for each in rows:
        checks.add(each, 0)
    return checks, [spot.kind.value for spot in spots.result()]


def test_batches_that_follow_each_other_are_well() -> None:
    checks, found = check(row(0, 4), row(5, 5), row(6, 9, epoch=1))

    assert found == []
    assert (checks.first_offset, checks.last_offset, checks.batches_count, checks.records_count) == (
        0,
        9,
        3,
        10,
    )
    assert checks.gaps == []


def test_a_run_in_one_call_says_the_same_as_one_by_one() -> None:
    rows = [row(0, 4), row(7, 9), row(8, 12), row(13, 13, epoch=3), row(14, 14, epoch=1)]

    _, apart = check(*rows)
    _, together = check(np.concatenate(rows))

    assert sorted(apart) == sorted(together) == ["epoch-backwards", "offset-backwards"]


def test_missing_offsets_are_a_gap() -> None:
    checks, found = check(row(0, 4), row(10, 11))

    assert (checks.gaps, found) == ([(5, 9)], [])


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([row(0, 4), row(4, 6)], "offset-backwards"),
        ([row(5, 2)], "offset-backwards"),
        ([row(0, 4, count=6)], "records-count"),
        ([row(0, 4, count=-1)], "records-count"),
        ([row(0, 4, epoch=3), row(5, 5, epoch=2)], "epoch-backwards"),
        ([row(0, 4, time=NOW + 7_200_000)], "future-timestamp"),
        ([row(0, 4), row(5, 5, time=NOW - 90_000_000)], "backward-timestamp"),
        ([row(1 << 31, 1 << 31)], "offset-overflow"),
    ],
)
def test_a_contradiction_is_named(rows: list[BatchTable], kind: str) -> None:
    assert kind in check(*rows)[1]


def test_offsets_of_other_segments_are_named() -> None:
    assert check(row(3, 4), base=10)[1] == ["offset-outside"]
    assert check(row(10, 22), base=10, next_base=20)[1] == ["offset-outside"]


def test_a_batch_with_fewer_records_than_offsets_was_compacted() -> None:
    assert check(row(0, 4, count=2))[0].is_compacted
    assert not check(row(0, 4))[0].is_compacted
