"""The positions of the numbers in a records section or a message set, as far as it can be read."""

from __future__ import annotations

import struct
from contextlib import suppress
from itertools import pairwise

from tests import naive
from tests.properties.corpus import set_crc


def records(section: bytes) -> list[tuple[int, int, int]]:
    """(start of the length, start of the body, end) of each record of a section, as far as it can be read."""
    cursor = naive.Cursor(section)
    found = []
    with suppress(naive.NaiveError):
        while cursor.left:
            start = cursor.position
            size = cursor.varint()
            found.append((start, cursor.position, cursor.position + size))
            cursor.take(size)
    return found


def varints(section: bytes) -> list[tuple[int, int]]:
    """The positions of the numbers in a records section, as far as it can be read."""
    cursor = naive.Cursor(section)
    found: list[tuple[int, int]] = []

    def number(bits: int = 32) -> int:
        start = cursor.position
        value = cursor.varint(bits)
        found.append((start, cursor.position))
        return value

    with suppress(naive.NaiveError):  # damaged already: the positions found before are enough
        while cursor.left:
            number()  # the record's length
            cursor.take(1)
            number(64)  # of its timestamp
            number()  # and of its offset
            cursor.take(max(number(), 0))  # its key
            cursor.take(max(number(), 0))  # and value
            for _ in range(number()):
                cursor.take(max(number(), 0))  # a header's key
                cursor.take(max(number(), 0))  # and value
    return found


def _entries(section: bytes) -> list[int]:
    """Where the messages of a v0 or v1 set start, as far as it can be read."""
    starts, position = [], 0
    while len(section) - position >= 26:
        starts.append(position)
        (size,) = struct.unpack_from(">i", section, position + 8)
        if size < 14:
            break
        position += 12 + size
    return starts


def sizes(section: bytes) -> list[tuple[int, int]]:
    """The positions of offsets, times and sizes in a v0 or v1 message set."""
    found = []
    for start in _entries(section):
        key_at = start + (26 if section[start + 16] == 1 else 18)
        found += [(start, start + 8), (start + 8, start + 12)]
        if key_at == start + 26:
            found.append((start + 18, key_at))
        (key_size,) = struct.unpack_from(">i", section.ljust(key_at + 4, b"\0"), key_at)
        value_at = key_at + 4 + max(key_size, 0)
        found += [(key_at, key_at + 4), (value_at, value_at + 4)]
    return [(start, end) for start, end in found if end <= len(section)]


def with_right_checksums(section: bytearray) -> bytearray:
    """The set with a correct checksum for every message."""
    starts = _entries(bytes(section))
    fixed = bytearray()
    for start, end in pairwise([*starts, len(section)]):
        message = section[start:end]
        set_crc(message)
        fixed += message
    return fixed
