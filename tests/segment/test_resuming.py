"""Where a segment continues after an unreadable batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stratalog.segment.offset_index import OffsetEntry
from stratalog.segment.resuming import batch_at, end_of_batch, indexed_batch, next_batch
from stratalog.segment.segment import LogSegment
from tests.segment.making import append, new_segment, records

BATCHES = [records(offset, f"value {offset}") for offset in range(40, 46)]
SIZE = len(BATCHES[0])


def damaged(folder: Path, *numbers: int, interval: int = 1 << 20) -> LogSegment:
    """A segment in which these batches are other bytes; with the interval 0 each but the first is indexed."""
    segment = new_segment(folder, 40, interval=interval)
    append(segment, *BATCHES)
    segment.flush()
    path = Path(segment.log_path)
    data = bytearray(path.read_bytes())
    for number in numbers:
        data[number * SIZE : (number + 1) * SIZE] = b"\xff" * SIZE
    path.write_bytes(data)
    return segment


@pytest.mark.parametrize("interval", [0, 1 << 20])
def test_the_next_batch_is_the_first_whole_one(tmp_path: Path, interval: int) -> None:
    segment = damaged(tmp_path, 2, 3, interval=interval)

    assert next_batch(segment.reader, 2 * SIZE, segment.size, last_offset=41) == 4 * SIZE


def test_behind_the_last_whole_batch_there_is_only_the_end(tmp_path: Path) -> None:
    segment = damaged(tmp_path, 4, 5)

    assert next_batch(segment.reader, 4 * SIZE, segment.size, last_offset=43) == 6 * SIZE


def test_a_batch_with_offsets_that_were_read_already_is_not_the_next(tmp_path: Path) -> None:
    segment = damaged(tmp_path, 1)

    assert next_batch(segment.reader, SIZE, segment.size, last_offset=43) == 4 * SIZE


def test_a_batch_whose_checksum_is_wrong_is_not_the_next(tmp_path: Path) -> None:
    segment = damaged(tmp_path, 1)
    path = Path(segment.log_path)
    data = bytearray(path.read_bytes())
    data[3 * SIZE - 1] ^= 1
    path.write_bytes(data)

    assert next_batch(segment.reader, SIZE, segment.size, last_offset=40) == 3 * SIZE


def test_an_entry_is_believed_only_of_a_batch_that_it_can_be_about(tmp_path: Path) -> None:
    segment = damaged(tmp_path, 3)

    exact = indexed_batch(segment.reader, OffsetEntry(42, 2 * SIZE))
    # Before 3.9.1 an entry had the last offset of an append of several batches.
    of_an_append = indexed_batch(segment.reader, OffsetEntry(44, 2 * SIZE))

    assert exact is not None
    assert of_an_append is not None
    assert exact.base_offset == of_an_append.base_offset == 42
    assert indexed_batch(segment.reader, OffsetEntry(41, 2 * SIZE)) is None
    assert indexed_batch(segment.reader, OffsetEntry(43, 3 * SIZE)) is None


def test_no_batch_is_at_a_byte_that_is_not_its_first(tmp_path: Path) -> None:
    segment = damaged(tmp_path, 3)

    found = [batch_at(segment.reader.read_into, at, segment.size, segment.log_path) for at in (0, 3 * SIZE)]

    assert found[0] is not None
    assert found[0].base_offset == 40
    assert found[1] is None


def test_a_batch_ends_where_its_length_says_if_its_checksum_holds() -> None:
    whole = np.frombuffer(b"".join(BATCHES[:2]), np.uint8).copy()
    broken = whole.copy()
    broken[-1] ^= 1

    assert end_of_batch(whole, SIZE) == 2 * SIZE
    assert end_of_batch(broken, SIZE) is None
    assert end_of_batch(whole, SIZE + 1) is None
