"""The loop of all readers in bulk; what it makes of rows is tested in test_columns.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import UsageError
from stratalog.records.arrays import RowChunk
from stratalog.records.build import Record, build_batch
from stratalog.records.rows import RowMemory, RowReader
from tests.records.strategies import Encoded, logs


class Offsets(RowReader[list[int]]):
    """The offsets of each piece."""

    def _make(self, chunk: RowChunk) -> list[int]:
        offsets: list[int] = chunk.rows["offset"].tolist()
        return offsets


def batch_of(*offsets: int) -> bytes:
    return build_batch([Record(offset) for offset in offsets])


@given(logs(), st.integers(1, 5))
def test_pieces_have_at_most_so_many_rows_and_all_of_them(log: Encoded, max_rows: int) -> None:
    pieces = list(Offsets(max_rows=max_rows).read(log.data))

    assert [offset for piece in pieces for offset in piece] == [record.offset for record in log.records]
    assert all(0 < len(piece) <= max_rows for piece in pieces)


def test_two_readers_at_once_in_the_same_memory_are_refused() -> None:
    memory = RowMemory()
    first = Offsets(max_rows=2, memory=memory).read(batch_of(*range(10)))
    next(first)
    next(Offsets(memory=memory).read(batch_of(0, 1, 2)))

    with pytest.raises(UsageError, match="the same memory"):
        next(first)
