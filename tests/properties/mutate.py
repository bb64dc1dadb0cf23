"""Damage: case `number` of `seed` always has the same bytes, so that a failure can be reproduced.

In most cases the checksum, and often the length, are corrected afterwards: otherwise every reader would stop
at once, and the code after that would never be attacked.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass

from tests import naive
from tests.properties.corpus import Seed, corpus, set_crc, set_length
from tests.properties.damage import (
    INT32_EDGES,
    INT64_EDGES,
    cut,
    cut_out,
    flip_bits,
    insert,
    overwrite,
    repeat,
    with_int32_anywhere,
)
from tests.properties.fields import records, sizes, varints, with_right_checksums

INT16_EDGES = (0, 1, -1, 2**15 - 1, -(2**15), 0x07, 0x08, 0x10, 0x20, 0x38, 0x40)
# Zigzag numbers that never end, end one byte late, are longer than they need to be, or hold more than fits.
ODD_VARINTS = (
    b"\x80",
    b"\xff" * 4,
    b"\xff" * 5,
    b"\xff" * 10,
    b"\xff" * 11,
    b"\x80\x00",
    b"\x82\x80\x80\x80\x00",
    b"\x80\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
)
INT16_EDGES = (0, 1, -1, 2**15 - 1, -(2**15), 0x07, 0x08, 0x10, 0x20, 0x38, 0x40)
INT16_FIELDS = (21, 51)
INT32_FIELDS = (8, 8, 12, 17, 23, 53, 57, 57)  # the lengths twice: they have the largest effect
INT64_FIELDS = (0, 27, 35, 43)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What the readers get, and in `plain` the records section or inner messages as a decoder gets them."""

    number: int
    name: str
    data: bytes
    head: bytes
    magic: int
    plain: bytes
    codec: str = "none"


def mutated(seed: int, number: int) -> Case:
    """Case `number` of this seed."""
    rng = random.Random(f"{seed}/{number}")
    victim = rng.choice(corpus())
    head, plain = victim.head, victim.plain
    if rng.random() < 0.55:  # before the compression, if there is one
        plain = _damaged_records(rng, victim)
        if victim.magic == 2 and rng.random() < 0.2:
            head = bytes(_with_edge_in_header(rng, bytearray(head)))
        batch = victim.assembled(head, plain)
    else:
        batch = _damaged_batch(rng, victim)
    data = bytes(batch)
    if rng.random() < 0.2:
        data = rng.choice(corpus()).raw + data
    if rng.random() < 0.2:
        data += rng.choice(corpus()).raw
    if rng.random() < 0.1:  # a torn tail, often of a few bytes only
        data += rng.choice(corpus()).raw[: rng.randrange(75)]
    if rng.random() < 0.01:  # more than one table of the walk holds
        data = next(seed for seed in corpus() if seed.name == "smallest").raw * 70 + data
    return Case(
        number=number,
        name=victim.name,
        data=data,
        head=head,
        magic=victim.magic,
        plain=plain,
        codec=victim.codec.kafka_name,
    )


def _damaged_batch(rng: random.Random, victim: Seed) -> bytearray:
    batch = bytearray(victim.raw)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if batch:
            batch = bytearray(rng.choice(_DAMAGES)(rng, batch))
    if rng.random() < 0.6:
        set_length(batch)
    if rng.random() < 0.8:
        set_crc(batch)
    return batch


def _damaged_records(rng: random.Random, victim: Seed) -> bytes:
    section = bytearray(victim.plain)
    find = varints if victim.magic == 2 else sizes
    for _ in range(rng.choice((1, 1, 1, 2))):
        if not section:
            break
        fields = find(bytes(section))
        if fields and rng.random() < 0.15:
            # Just after a number, or a few bytes later: there the next number is incomplete.
            section = section[
                : rng.choice(fields)[rng.randrange(2)] + rng.choice((0, 0, 1, 2, 3, 7, 11, 13, 25))
            ]
        elif fields and rng.random() < 0.7:
            section = _with_edge_at(rng, section, rng.choice(fields), victim.magic)
        else:
            section = bytearray(rng.choice(_DAMAGES)(rng, section))
    if victim.magic < 2 and rng.random() < 0.7:
        section = with_right_checksums(section)
    return bytes(section)


def _splice(rng: random.Random, data: bytearray) -> bytearray:
    other = rng.choice(corpus()).raw
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


def _with_edge_in_header(rng: random.Random, data: bytearray) -> bytearray:
    layout, places, edges = rng.choice(
        (
            (">h", INT16_FIELDS, INT16_EDGES),
            (">i", INT32_FIELDS, INT32_EDGES),
            (">q", INT64_FIELDS, INT64_EDGES),
        )
    )
    place = rng.choice(places)
    if len(data) >= place + struct.calcsize(layout):
        struct.pack_into(layout, data, place, rng.choice(edges))
    return data


def _with_other_magic_or_codec(rng: random.Random, data: bytearray) -> bytearray:
    if len(data) > 22:
        if rng.random() < 0.4:
            data[16] = rng.choice((0, 1, 2, 2, 3, 127, 255))
        at = 22 if data[16] == 2 else 17
        data[at] = data[at] & ~0x07 | rng.randrange(8)
    return data


_DAMAGES: tuple[Callable[[random.Random, bytearray], bytearray], ...] = (
    flip_bits,
    overwrite,
    cut,
    cut_out,
    insert,
    _splice,
    repeat,
    _with_edge_in_header,
    _with_edge_in_header,
    with_int32_anywhere,
    _with_other_magic_or_codec,
)


def _with_edge_at(rng: random.Random, data: bytearray, field: tuple[int, int], magic: int) -> bytearray:
    """Replace the number of this field by an extreme one."""
    start, end = field
    if magic < 2:
        to_the_end = len(data) - end - rng.randrange(6)
        edges = INT64_EDGES if end - start == 8 else (*INT32_EDGES, *(to_the_end,) * 8)
        data[start:end] = struct.pack(">q" if end - start == 8 else ">i", rng.choice(edges))
        return data
    draw = rng.random()
    record = next((record for record in records(bytes(data)) if record[1] <= start < record[2]), None)
    if draw < 0.3:
        number = rng.choice(ODD_VARINTS)
    elif draw < 0.6:
        number = naive.varint(rng.choice(INT32_EDGES))
    elif draw < 0.8:
        number = naive.varint(rng.choice(INT64_EDGES), 64)
    else:  # off by a little, and exactly to the end
        number = naive.varint(rng.choice((rng.randrange(-3, 130), len(data) - end - rng.randrange(4))))
    data[start:end] = number
    if record is not None and rng.random() < 0.6:
        # The length of the record is corrected, so that the decoder gets as far as the number.
        length_at, body_at, record_end = record
        data[length_at:body_at] = naive.varint(record_end - body_at + len(number) - (end - start))
    return data
