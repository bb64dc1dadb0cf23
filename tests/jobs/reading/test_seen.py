"""Which batches a reader decodes, by what it has seen before them."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.errors import CorruptRecordError
from stratalog.jobs.reading.omissions import Gaps, Omission
from stratalog.jobs.reading.options import OnCorruption
from stratalog.jobs.reading.seen import SeenBatches
from stratalog.jobs.reading.split import AbortedRange, Hint, Split
from stratalog.records.batch import Attributes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.walk import new_table

HINT = Hint(file=None, size=None, position=0, end_position=1000)


def split(*aborted: AbortedRange) -> Split:
    return Split(
        topic="orders",
        partition=0,
        directory="/logs/orders-0",
        base_offset=0,
        start_offset=0,
        end_offset=100,
        hint=HINT,
        aborted=aborted,
    )


def headers(*batches: tuple[int, int], producer_id: int = 7, attributes: int = 0) -> BatchTable:
    """Batches of 70 bytes with these first and last offsets."""
    table = new_table(len(batches))
    for row, (base_offset, last_offset) in enumerate(batches):
        table[row]["base_offset"], table[row]["last_offset"] = base_offset, last_offset
        table[row]["position"], table[row]["size"], table[row]["magic"] = 70 * row, 70, 2
        table[row]["producer_id"], table[row]["attributes"] = producer_id, attributes
    return table


def seen(on_corruption: OnCorruption, *aborted: AbortedRange) -> tuple[SeenBatches, list[Omission]]:
    found: list[Omission] = []
    read = split(*aborted)
    gaps = Gaps(read.topic_partition, read.start_offset, read.end_offset, found.append)
    return SeenBatches(read, on_corruption, gaps), found


def test_batches_in_order_are_all_decoded() -> None:
    reader, found = seen(OnCorruption.FAIL)

    assert reader(headers((0, 4), (5, 9))) is None
    assert reader(headers((12, 14))) is None  # compaction left a gap
    assert (reader.next_offset, reader.last_offset, found) == (15, 14, [])


def test_batches_of_aborted_transactions_are_not() -> None:
    reader, _ = seen(OnCorruption.FAIL, (7, 5, 10))
    transactional = int(Attributes.TRANSACTIONAL)

    keep = reader(headers((0, 4), (5, 9), (11, 14), attributes=transactional))

    assert np.asarray(keep).tolist() == [True, False, True]
    other, _ = seen(OnCorruption.FAIL, (8, 5, 10))
    assert np.asarray(other(headers((0, 4), (5, 9), attributes=transactional))).all()


def test_an_offset_out_of_order_is_damage() -> None:
    with pytest.raises(CorruptRecordError, match="begins with offset 3, but the previous batch ends with 4"):
        seen(OnCorruption.FAIL)[0](headers((0, 4), (3, 9)))


@pytest.mark.parametrize(
    ("batches", "kept"),
    [
        ([(0, 2), (3, 4), (1, 2), (10, 14)], [True, True, False, True]),
        ([(0, 2), (3, 4), (60, 64), (10, 14)], [True, True, False, True]),
    ],
    ids=["too low", "too high"],
)
def test_such_a_batch_is_left_out_and_counted(batches: list[tuple[int, int]], kept: list[bool]) -> None:
    reader, found = seen(OnCorruption.SKIP)
    reader.path, reader.position = "a.log", 1000

    assert np.asarray(reader(headers(*batches))).tolist() == kept
    (left,) = found
    assert (left.first_offset, left.end_offset) == (5, 10)
    assert (left.path, left.position, left.size) == ("a.log", 1140, 70)
