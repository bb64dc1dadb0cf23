"""Encodes the records section of a batch with a few records, in plain Python.

The kernel that encodes records takes them as some fourteen arrays. For a few records, making the arrays takes
five times as long as this. Both give the same bytes: tests/records/test_few.py checks that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stratalog.limits import INT64_MAX

if TYPE_CHECKING:
    from stratalog.records.build import Record

MOST_RECORDS = 4
_ONE_BYTE = tuple(bytes((number,)) for number in range(0x80))
_NULL = b"\x01"  # a size of -1


def encode_few(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The section of these records; the caller has checked their offsets and timestamps."""
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        fields = [b"\x00", _varint(timestamp - base_timestamp), _varint(offset - base_offset)]
        _add(fields, key)
        _add(fields, value)
        fields.append(_varint(len(headers)))
        for name, content in headers:
            _add(fields, name.encode())
            _add(fields, content)
        body = b"".join(fields)
        parts += (_varint(len(body)), body)
    return b"".join(parts)


def is_few(records: Sequence[Record]) -> bool:
    """Whether `encode_few` can encode these records: few, in order, and with usual numbers.

    Others go to the kernel, or are refused there.
    """
    if not 0 < len(records) <= MOST_RECORDS:
        return False
    last_offset = -1
    for record in records:
        offset, timestamp = record.offset, record.timestamp
        if type(offset) is not int or type(timestamp) is not int:
            return False
        # A timestamp difference that overflows is left to the kernel.
        if not last_offset < offset <= INT64_MAX or not 0 <= timestamp <= INT64_MAX:
            return False
        last_offset = offset
    return True


def _add(fields: list[bytes], content: bytes | None) -> None:
    if content is None:
        fields.append(_NULL)
    else:
        fields += (_varint(len(content)), content)


def _varint(number: int) -> bytes:
    """A zigzag number: 7 bits in each byte, the lowest first."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    if left < 0x80:
        return _ONE_BYTE[left]
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
