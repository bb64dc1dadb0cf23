"""Damage to bytes and to text, as a bad disk, a person or an attacker leaves it."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence

INT32_EDGES = (
    0,
    1,
    -1,
    -2,
    2,
    13,
    14,
    22,
    49,
    2**16,
    2**24,
    2**30,
    2**31 - 1,
    2**31 - 2,
    -(2**31),
    -(2**31) + 1,
)
INT64_EDGES = (
    *INT32_EDGES,
    2**31,
    -(2**31) - 1,
    2**53,
    2**62,
    2**63 - 1,
    2**63 - 2,
    2**63 - 2**31,
    -(2**63),
    -(2**63) + 1,
)
BYTES = (0x00, 0x01, 0x02, 0x7F, 0x80, 0x81, 0xFE, 0xFF)
# Numbers that int(), Java or JSON read differently, or not at all.
ODD_NUMBERS = (
    *(str(edge).encode() for edge in INT64_EDGES),
    *(str(edge).encode() for edge in (2**63, -(2**63) - 1, 2**64, 2**1024)),
    b"",
    b"+7",
    b" 7",
    b"0007",
    b"1_000",
    b"0x10",
    b"1.5",
    b"1e9",
    b"1e999",
    b"-1e999",
    b"NaN",
    b"Infinity",
    b"true",
    b"null",
    b"[]",
    b"{}",
    b'"7"',
    b"9" * 30,
    b"9" * 5000,
    "\u0663".encode(),
    "\uff17".encode(),
)
ODD_WORDS = (
    b"",
    b".",
    b"..",
    b"../../outside",
    b"/outside/file",
    b"a/b",
    b"a\\u0000b",
    b"\\ud800",
    b"-",
    b"orders--1",
    b"x" * 300,
    b"\xff\xfe",
    "\u00e4\u4e16".encode(),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_./-][\w./-]*")
Damage = Callable[[random.Random, bytearray], bytearray]


def damaged(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """These bytes with one to three damages."""
    return _damaged(rng, data, others, BYTE_DAMAGES)


def damaged_text(rng: random.Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """The same for lines of words and numbers, or JSON."""
    return _damaged(rng, data, others, TEXT_DAMAGES)


def _damaged(rng: random.Random, data: bytes, others: Sequence[bytes], damages: Sequence[Damage]) -> bytes:
    if others and rng.random() < 0.03:
        return rng.choice(others)  # a whole file of something else
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if found:
            found = rng.choice(damages)(rng, found)
    if others and rng.random() < 0.05:
        other = rng.choice(others)
        found += other[rng.randrange(len(other) + 1) :]
    return bytes(found)


def filling(rng: random.Random, size: int) -> bytes:
    if rng.random() < 0.5:
        return rng.randbytes(size)
    return bytes([rng.choice(BYTES)]) * size


def flip_bits(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def overwrite(rng: random.Random, data: bytearray) -> bytearray:
    start = rng.randrange(len(data))
    size = min(rng.choice((1, 1, 2, 4, 8, 40)), len(data) - start)
    data[start : start + size] = filling(rng, size)
    return data


def cut(rng: random.Random, data: bytearray) -> bytearray:
    return data[: rng.randrange(len(data))]


def cut_out(rng: random.Random, data: bytearray) -> bytearray:
    start = rng.randrange(len(data))
    del data[start : start + rng.choice((1, 1, 2, 5, 30))]
    return data


def insert(rng: random.Random, data: bytearray) -> bytearray:
    start = rng.randrange(len(data) + 1)
    data[start:start] = filling(rng, rng.choice((1, 1, 2, 8, 61, 300)))
    return data


def repeat(rng: random.Random, data: bytearray) -> bytearray:
    start, end = sorted((rng.randrange(len(data)), rng.randrange(len(data))))
    return data[:end] + data[start:]


def with_int32_anywhere(rng: random.Random, data: bytearray) -> bytearray:
    edge = struct.pack(">i", rng.choice(INT32_EDGES))
    start = rng.randrange(len(data))
    data[start : start + 4] = edge[: len(data) - start]
    return data


def with_int64_anywhere(rng: random.Random, data: bytearray) -> bytearray:
    edge = struct.pack(">q", rng.choice(INT64_EDGES))
    start = rng.randrange(len(data))
    data[start : start + 8] = edge[: len(data) - start]
    return data


def pad(rng: random.Random, data: bytearray) -> bytearray:
    """Zeros after the end, as in a preallocated file."""
    return data + bytes(rng.choice((1, 7, 8, 12, 34, 512, 4096)))


def lose_a_sector(rng: random.Random, data: bytearray) -> bytearray:
    start = rng.randrange(len(data)) // 512 * 512
    size = min(512, len(data) - start)
    data[start : start + size] = bytes(size)
    return data


BYTE_DAMAGES: tuple[Damage, ...] = (
    flip_bits,
    overwrite,
    cut,
    cut_out,
    insert,
    repeat,
    with_int32_anywhere,
    with_int64_anywhere,
    pad,
    lose_a_sector,
)


def _change_number(rng: random.Random, data: bytearray) -> bytearray:
    return _replace_one(rng, data, _NUMBER, ODD_NUMBERS)


def _change_word(rng: random.Random, data: bytearray) -> bytearray:
    return _replace_one(rng, data, _WORD, ODD_WORDS)


def _replace_one(
    rng: random.Random, data: bytearray, what: re.Pattern[bytes], by: Sequence[bytes]
) -> bytearray:
    places = [match.span() for match in what.finditer(data)]
    if places:
        start, end = rng.choice(places)
        data[start:end] = rng.choice(by)
    return data


def _change_lines(rng: random.Random, data: bytearray) -> bytearray:
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(rng.randrange(len(lines) + 1), lines[at])
        case 2:
            rng.shuffle(lines)
        case 3:
            lines[at] = lines[at].replace(b"\n", rng.choice((b"\r\n", b"\r", b"", b"\n\n", b"\0")))
        case _:
            lines.insert(at, bytearray(rng.choice((b"\n", b" \n", b"\xef\xbb\xbf", b"#\n", b"\x1c\n"))))
    return bytearray().join(lines)


def _nest(rng: random.Random, data: bytearray) -> bytearray:
    """Nested deeper than any recursive parser allows."""
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.choice((b"[", b'{"a":')) * rng.choice((3, 2000, 100_000))
    return data


TEXT_DAMAGES: tuple[Damage, ...] = (
    *(_change_number,) * 6,
    *(_change_word,) * 4,
    *(_change_lines,) * 4,
    flip_bits,
    overwrite,
    cut,
    cut_out,
    insert,
    repeat,
    pad,
    lose_a_sector,
    _nest,
)
