"""Message sets of magic 0 and 1: plain ones, wrappers, and those of odd old clients.

The sets of real brokers are in test_fixtures.py; here are the corner cases that no broker writes any more.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from stratalog.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionTypeError
from stratalog.records.build import Record
from stratalog.records.columns import ColumnReader
from stratalog.records.compression import Codec, compress
from stratalog.records.reader import read_batches
from tests import naive, naive_sums
from tests.records.strategies import LEGACY_CODECS, Encoded, legacy_sets

INSIDE = [
    naive.Record(10, 500, b"a", b"1"),
    naive.Record(11, 400, None, b""),
    naive.Record(14, 300, b"c", None),
]


def gzipped(inner: bytes) -> bytes:
    return compress(Codec.GZIP, inner)


def wrapper(
    inner: bytes, *, offset: int, magic: int = 1, attributes: int = Codec.GZIP, time: int = 9
) -> bytes:
    """A wrapper around any bytes."""
    outer = naive.Record(offset, time, None, gzipped(inner))
    return naive.encode_message(outer, magic=magic, attributes=attributes)


def plain_records(data: bytes) -> list[Record]:
    return [record for batch in read_batches(data) for record in batch]


def columns(data: bytes) -> list[Record]:
    """The same through the other reader."""
    rows = [
        row
        for part in ColumnReader(columns=["offset", "timestamp", "key", "value"]).read(data)
        for row in part.to_pylist()
    ]
    return [
        Record(row["offset"], round(row["timestamp"].timestamp() * 1000), row["key"], row["value"])
        for row in rows
    ]


BOTH = pytest.mark.parametrize("read", [plain_records, columns])


@given(legacy_sets())
def test_sets_of_both_formats_are_read(made: Encoded) -> None:
    assert plain_records(made.data) == made.records


@BOTH
@pytest.mark.parametrize("codec", LEGACY_CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_gives_its_messages_their_offsets(
    read: Callable[[bytes], list[Record]], codec: Codec, magic: int
) -> None:
    data = naive.encode_wrapper(
        INSIDE, magic=magic, attributes=codec, compress=lambda inner: compress(codec, inner, magic=magic)
    )

    times = [500, 400, 300] if magic == 1 else [-1, -1, -1]
    expected = [Record(r.offset, time, r.key, r.value) for r, time in zip(INSIDE, times, strict=True)]
    assert read(data) == expected


@BOTH
def test_the_wrappers_time_of_append_holds_for_all_inside(read: Callable[[bytes], list[Record]]) -> None:
    inner = b"".join(naive.encode_message(record, magic=1) for record in INSIDE)
    data = wrapper(inner, offset=14, attributes=Codec.GZIP | 0x08, time=999)

    assert [record.timestamp for record in read(data)] == [999, 999, 999]


@BOTH
def test_a_v1_wrapper_at_offset_zero_takes_inner_offsets_as_they_are(
    read: Callable[[bytes], list[Record]],
) -> None:
    inner = b"".join(naive.encode_message(record, magic=1) for record in INSIDE)

    assert [record.offset for record in read(wrapper(inner, offset=0))] == [10, 11, 14]


@BOTH
def test_absolute_inner_offsets_in_v1_come_out_right(read: Callable[[bytes], list[Record]]) -> None:
    inner = b"".join(naive.encode_message(record, magic=1) for record in INSIDE)

    assert [record.offset for record in read(wrapper(inner, offset=14))] == [10, 11, 14]


@BOTH
def test_a_wrapper_of_the_other_format_is_tolerated(read: Callable[[bytes], list[Record]]) -> None:
    inner = b"".join(naive.encode_message(record, magic=0) for record in INSIDE)

    assert [(record.offset, record.timestamp) for record in read(wrapper(inner, offset=14))] == [
        (10, -1),
        (11, -1),
        (14, -1),
    ]


@BOTH
def test_a_cut_last_message_in_a_wrapper_is_left_out(read: Callable[[bytes], list[Record]]) -> None:
    whole = naive.encode_message(INSIDE[0]._replace(offset=0), magic=1)

    assert [record.offset for record in read(wrapper(whole + whole[:-1], offset=7))] == [7]


ENTRY = naive.encode_message(INSIDE[0], magic=1)


@BOTH
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wrapper(b"", offset=3), "no whole message"),
        (wrapper(bytes(40), offset=3), "not a message"),
        (wrapper(ENTRY, offset=9), "has offset 9, but its last inner message has 10"),
        (wrapper(wrapper(ENTRY, offset=10), offset=10), "compressed itself"),
        (naive.encode_message(naive.Record(0, 5, b"k", None), magic=1, attributes=1), "without a value"),
    ],
    ids=["empty", "zeros", "offset below", "nested", "null"],
)
def test_a_wrapper_that_kafka_refuses_is_refused(
    read: Callable[[bytes], list[Record]], data: bytes, reason: str
) -> None:
    with pytest.raises(InvalidRecordError, match=reason) as caught:
        read(ENTRY + data)

    assert caught.value.position == len(ENTRY)


@BOTH
def test_zstd_is_refused(read: Callable[[bytes], list[Record]]) -> None:
    data = naive.encode_message(
        naive.Record(0, 5, None, compress(Codec.ZSTD, ENTRY)), magic=1, attributes=Codec.ZSTD
    )

    with pytest.raises(UnsupportedCompressionTypeError):
        read(data)


@BOTH
def test_sizes_that_reach_behind_the_message_are_refused(read: Callable[[bytes], list[Record]]) -> None:
    body = bytes([1, 0]) + bytes(8) + (5).to_bytes(4, "big") + b"key" + bytes(4)
    data = bytes(8) + (4 + len(body)).to_bytes(4, "big") + naive_sums.crc32(body).to_bytes(4, "big") + body

    with pytest.raises(InvalidRecordError, match="reaches past its end"):
        read(data)


@BOTH
def test_a_flipped_bit_is_told_with_both_checksums(read: Callable[[bytes], list[Record]]) -> None:
    data = bytearray(ENTRY)
    data[-1] ^= 1

    with pytest.raises(CorruptRecordError, match="CRC-32 is 0x"):
        read(bytes(data))
