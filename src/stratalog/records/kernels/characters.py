"""Numbers and text as bytes of UTF-8, for the lines of a dump; and whether bytes are UTF-8.

Invalid bytes become U+FFFD by the rules of Java's `new String(bytes, UTF_8)`, which differ from Python's: an
encoded surrogate is one U+FFFD in Java, and three in Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import Bytes, copy_bytes, load_u8, load_u64_le

HIGH_BITS = np.uint64(0x8080808080808080)
TEN, HUNDRED = np.uint64(10), np.uint64(100)
MOST_DIGITS = 19  # of a number below 2^63, and of 2^63
PAIRS = np.frombuffer("".join(f"{number:02}" for number in range(100)).encode(), np.uint8).copy()
MINUS, ZERO = 45, 48


@kernel
def write_number(out: Bytes, at: int, value: Any) -> int:
    """Write a 64-bit integer in decimal, at most twenty characters; returns the position after it.

    `value` is always an np.int64: Numba would compile the function again for each other type.
    """
    if value < 0:
        out[at] = MINUS
        at += 1
        rest = np.uint64(-(value + 1)) + np.uint64(1)  # the lowest number has no positive counterpart
    else:
        rest = np.uint64(value)
    size = 1
    limit = TEN
    while size < MOST_DIGITS and rest >= limit:
        size += 1
        limit *= TEN
    end = at + size
    position = end
    while rest >= HUNDRED:
        quotient = rest // HUNDRED
        position -= 2
        _put_pair(out, position, np.int64(rest - quotient * HUNDRED))
        rest = quotient
    if rest >= TEN:
        _put_pair(out, at, np.int64(rest))
    else:
        out[at] = ZERO + np.uint8(rest)
    return end


@inlined
def _put_pair(out: Bytes, at: int, number: Any) -> None:
    """Write a number below a hundred as two digits."""
    out[at] = PAIRS[2 * number]
    out[at + 1] = PAIRS[2 * number + 1]


@inlined
def write_text(data: Bytes, position: int, end: int, out: Bytes, at: int) -> int:
    """Write data[position:end] as UTF-8 to `out`, which has room for three times as many bytes.

    ASCII is copied by inline code: a function call would take ten times as long as the copy.
    """
    if _is_ascii(data, position, end):
        copy_bytes(out, at, data, position, end - position)
        return at + end - position
    return _write_mixed(data, position, end, out, at)


@kernel
def _write_mixed(data: Bytes, position: int, end: int, out: Bytes, at: int) -> int:
    while position < end:
        if load_u8(data, position) < 0x80:
            out[at] = data[position]
            at += 1
            position += 1
            continue
        size, is_valid = _character(data, position, end)
        if is_valid:
            copy_bytes(out, at, data, position, size)
            at += size
        else:
            out[at] = 0xEF
            out[at + 1] = 0xBF
            out[at + 2] = 0xBD
            at += 3
        position += size
    return at


@inlined
def is_utf8(data: Bytes, position: int, end: int) -> bool:
    """Whether data[position:end] is valid UTF-8."""
    return _is_ascii(data, position, end) or _is_mixed(data, position, end)


@kernel
def _is_mixed(data: Bytes, position: int, end: int) -> bool:
    while position < end:
        if load_u8(data, position) < 0x80:
            position += 1
            continue
        size, is_valid = _character(data, position, end)
        if not is_valid:
            return False
        position += size
    return True


@inlined
def _is_ascii(data: Bytes, position: int, end: int) -> bool:
    if end - position < 8:
        while position < end and load_u8(data, position) < 0x80:
            position += 1
        return position == end
    bits = load_u64_le(data, end - 8)  # the last eight bytes: those not checked yet, and some before them
    while position + 32 <= end:
        bits |= load_u64_le(data, position) | load_u64_le(data, position + 8)
        bits |= load_u64_le(data, position + 16) | load_u64_le(data, position + 24)
        position += 32
    while position + 8 <= end:
        bits |= load_u64_le(data, position)
        position += 8
    return bool(bits & HIGH_BITS == np.uint64(0))


@kernel
def _character(data: Bytes, position: int, end: int) -> tuple[int, bool]:
    """(number of bytes, whether they are a character) at this position; the first byte is not ASCII.

    If they are not a character, Java prints one U+FFFD for all of them. That applies to the longest valid
    start of a character, to the three bytes of a surrogate, and to a character that is cut off at the end.
    """
    first = load_u8(data, position)
    left = end - position
    if 0xC2 <= first < 0xE0:
        if left < 2:
            return left, False
        return (2, True) if _continues(data, position + 1) else (1, False)
    if 0xE0 <= first < 0xF0:
        if left >= 2 and (
            not _continues(data, position + 1) or (first == 0xE0 and load_u8(data, position + 1) < 0xA0)
        ):
            return 1, False
        if left < 3:
            return left, False
        if not _continues(data, position + 2):
            return 2, False
        return 3, not (first == 0xED and load_u8(data, position + 1) >= 0xA0)
    if 0xF0 <= first <= 0xF4:
        if left >= 2:
            second = load_u8(data, position + 1)
            if (
                not _continues(data, position + 1)
                or (first == 0xF0 and second < 0x90)
                or (first == 0xF4 and second >= 0x90)
            ):
                return 1, False
        if left >= 3 and not _continues(data, position + 2):
            return 2, False
        if left < 4:
            return left, False
        return (4, True) if _continues(data, position + 3) else (3, False)
    return 1, False


@inlined
def _continues(data: Bytes, position: int) -> bool:
    return load_u8(data, position) & 0xC0 == 0x80
