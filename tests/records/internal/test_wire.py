from __future__ import annotations

import pytest

from stratalog.errors import InvalidRecordError
from stratalog.records.internal import wire


@pytest.mark.parametrize(
    "raw", [b"", b"\x80", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x00"]
)
def test_a_varint_that_is_cut_off_too_long_or_too_large_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="varint"):
        wire.read_unsigned_varint(raw, 0)


def test_the_largest_varint_is_the_largest_int32() -> None:
    assert wire.read_unsigned_varint(b"\xff\xff\xff\xff\x07", 0) == (2**31 - 1, 5)


def test_a_length_is_compared_with_the_bytes_left() -> None:
    with pytest.raises(InvalidRecordError, match="32766 bytes are announced, but 2 are left"):
        wire.string_reader(compact=False, nullable=False)(b"\x7f\xfeab", 0)
    with pytest.raises(InvalidRecordError, match="2147483647 bytes are announced, but 0 are left"):
        wire.bytes_reader(compact=False, nullable=False)(b"\x7f\xff\xff\xff", 0)
    with pytest.raises(InvalidRecordError, match="array of 2147483647 elements, but 1 bytes are left"):
        wire.array_reader(wire.read_int8, compact=False, nullable=False)(b"\x7f\xff\xff\xff\x00", 0)


def test_a_compact_string_is_no_longer_than_a_plain_one() -> None:
    with pytest.raises(InvalidRecordError, match="a string of 40000 bytes, but at most 32767 are allowed"):
        wire.string_reader(compact=True, nullable=True)(b"\xc1\xb8\x02" + bytes(40000), 0)


def test_an_error_tells_the_position_of_the_field() -> None:
    with pytest.raises(InvalidRecordError) as raised:
        wire.read_int32(b"abcdef", 4)

    assert raised.value.position == 4
    assert raised.value.reason == "int32 needs 4 bytes, but 2 are left"
