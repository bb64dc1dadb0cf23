"""Columns into the records section of a batch, against the slow encoder."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.batch import write_crc
from stratalog.records.build import Record
from stratalog.records.kernels.encode import HEADER_SIZE, NEEDS_ROOM, RecordColumns, encode, seal
from stratalog.records.kernels.memory import byte_array
from tests import naive
from tests.records.strategies import as_naive, records

GENEROUS = 1 << 20


def columns_of(made: list[Record]) -> RecordColumns:
    pairs = [pair for record in made for pair in record.headers]
    return RecordColumns(
        np.array([record.offset for record in made], np.int64),
        np.array([record.timestamp for record in made], np.int64),
        *column([record.key for record in made]),
        *column([record.value for record in made]),
        ends([len(record.headers) for record in made]),
        *column([key.encode() for key, _ in pairs])[:2],
        *column([value for _, value in pairs]),
    )


def column(pieces: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sizes = [len(piece or b"") for piece in pieces]
    valid = np.array([piece is not None for piece in pieces], np.bool_)
    return byte_array(b"".join(piece or b"" for piece in pieces)), ends(sizes), valid


def ends(sizes: list[int]) -> np.ndarray:
    return np.array([0, *accumulate(sizes)], np.int32)


def section_of(made: list[Record]) -> bytes:
    bare = [as_naive(record) for record in made]
    return naive.encode_records(bare, base_offset=made[0].offset, base_timestamp=made[0].timestamp)


def encoded(
    made: list[Record], room: int, *, start: int = 0, max_size: int = GENEROUS
) -> tuple[int, int, bytes]:
    """(first record left out, end, bytes written after a prefix of three)."""
    out = np.zeros(room + 3, np.uint8)
    first = made[start]
    done, end = encode(columns_of(made), start, len(made), first.offset, first.timestamp, out, 3, max_size)
    return done, end, out[3:].tobytes()


@given(records())
def test_records_are_written_as_the_twin_writes_them(made: list[Record]) -> None:
    expected = section_of(made)

    assert encoded(made, len(expected)) == (len(made), 3 + len(expected), expected)


@given(records(), st.data())
def test_a_later_start_writes_the_later_records(made: list[Record], draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(made) - 1))
    expected = section_of(made[start:])

    assert encoded(made, len(expected), start=start) == (len(made), 3 + len(expected), expected)


@given(records(), st.data())
def test_where_room_is_missing_the_need_is_told(made: list[Record], draw: st.DataObject) -> None:
    whole = len(section_of(made))
    room = draw.draw(st.integers(0, whole - 1))

    done, needed, _ = encoded(made, room)

    assert done == NEEDS_ROOM
    assert room < needed <= whole


@given(records(), st.data())
def test_a_section_ends_before_the_record_that_would_pass_its_bound(
    made: list[Record], draw: st.DataObject
) -> None:
    sizes = [len(section_of(made[: count + 1])) for count in range(len(made))]
    max_size = draw.draw(st.integers(1, sizes[-1]))
    fitting = max(1, sum(size <= max_size for size in sizes))

    done, end, _ = encoded(made, sizes[-1], max_size=max_size)

    assert (done, end) == (fitting, 3 + sizes[fitting - 1])


@given(st.binary(min_size=HEADER_SIZE, max_size=5000))
def test_a_sealed_batch_has_the_crc_that_write_crc_writes(data: bytes) -> None:
    sealed, expected = bytearray(data), bytearray(data)

    seal(np.frombuffer(sealed, np.uint8))
    write_crc(expected, 0, len(data))

    assert sealed == expected


@given(st.binary(max_size=HEADER_SIZE - 1))
def test_what_is_no_batch_is_not_sealed(data: bytes) -> None:
    sealed = bytearray(data)

    seal(np.frombuffer(sealed, np.uint8) if data else np.empty(0, np.uint8))

    assert sealed == data
