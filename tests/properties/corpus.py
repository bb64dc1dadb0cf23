"""Healthy batches for the attack to damage: every magic, codec and kind of content, small to be cheap.

They are written by the plain twins in `tests.naive`, and by the brokers whose logs are fixtures: nothing here
depends on the code under attack, except for compressing.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import crc32c

from stratalog.records.compression import Codec, compress, decompress
from tests import naive

FIXTURES = Path(__file__).parents[1] / "fixtures"
HEADER_SIZE = 61
TRANSACTIONAL, CONTROL, DELETE_HORIZON = 1 << 4, 1 << 5, 1 << 6
NOW = 1_700_000_000_000
BOMB_SIZE = 100_000
# A batch of a fixture that is larger than this costs more time than it brings new paths.
LARGEST_FIXTURE = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A batch in two parts, so that its records can be damaged before they are compressed.

    `head` is the header of a v2 batch, or of a wrapper up to its key's size; a plain message set has none.
    """

    name: str
    magic: int
    codec: Codec
    head: bytes
    plain: bytes

    def assembled(self, head: bytes, plain: bytes) -> bytearray:
        """The batch with this head and these records, its lengths and checksums right."""
        if self.magic == 2:
            batch = bytearray(head + (compress(self.codec, plain) if self.codec else plain))
        elif self.codec:
            value = compress(self.codec, plain, magic=self.magic)
            batch = bytearray(head + struct.pack(">ii", -1, len(value)) + value)
        else:
            return bytearray(plain)
        set_length(batch)
        set_crc(batch)
        return batch

    @property
    def raw(self) -> bytes:
        return bytes(self.assembled(self.head, self.plain))


def set_length(batch: bytearray) -> None:
    """Make the length field of the first batch reach to the end of the bytes."""
    if len(batch) >= 12:
        struct.pack_into(">i", batch, 8, len(batch) - 12)


def set_crc(batch: bytearray) -> None:
    """Set the checksum of the first batch, as far as its length field is plausible."""
    if len(batch) < 22:
        return
    end = 12 + struct.unpack_from(">i", batch, 8)[0]
    end = end if 22 <= end <= len(batch) else len(batch)
    if batch[16] == 2:
        struct.pack_into(">I", batch, 17, crc32c.crc32c(bytes(memoryview(batch)[21:end])))
    else:
        struct.pack_into(">I", batch, 12, zlib.crc32(memoryview(batch)[16:end]))


@cache
def corpus() -> tuple[Seed, ...]:
    """All of them, always in the same order."""
    return (*_v2(), *_control(), *_legacy(), *_fixtures())


def _records(count: int = 6) -> list[naive.Record]:
    contents: list[tuple[bytes | None, bytes | None, tuple[naive.Header, ...]]] = [
        (b"key", b"value of some length", ()),
        (None, b"", (("\u00e4\u4e16".encode(), b"\x00\xff"), (b"trace", None))),
        (b"", None, ((b"", b""),)),
        (None, None, ()),
        (b"k" * 20, b"v" * 70, tuple((b"h%d" % n, b"x" * n) for n in range(9))),
        (b"key", b"more", ((b"\xff\xfe", b"no UTF-8"),)),
    ]
    return [
        naive.Record(40 + 3 * n, NOW + 1000 * n - 500 * (n % 2), *contents[n % len(contents)])
        for n in range(count)
    ]


def _split(name: str, batch: bytes) -> Seed:
    """A seed of an uncompressed v2 batch."""
    return Seed(name=name, magic=2, codec=Codec.NONE, head=batch[:HEADER_SIZE], plain=batch[HEADER_SIZE:])


def _with_codec(seed: Seed, codec: Codec) -> Seed:
    head = bytearray(seed.head)
    head[22] = head[22] & ~0x07 | codec
    return replace(seed, name=f"{seed.name} {codec.kafka_name}", codec=codec, head=bytes(head))


def _v2() -> list[Seed]:
    mixed = _split(
        "mixed", naive.encode_batch(_records(), producer_id=7, producer_epoch=1, base_sequence=2**31 - 2)
    )
    many = _split("many", naive.encode_batch([naive.Record(n, NOW + n, None, b"%d" % n) for n in range(40)]))
    # Long enough for the checksum's three streams.
    large = _split("large", naive.encode_batch([naive.Record(9, NOW, b"k", bytes(range(256)) * 7)]))
    smallest = _split("smallest", naive.encode_batch([naive.Record(0, -1, None, None)]))
    append_time = _split("append time", naive.encode_batch(_records(3), attributes=naive.LOG_APPEND_TIME))
    horizon = naive.encode_batch(
        _records(4), attributes=TRANSACTIONAL | DELETE_HORIZON, producer_id=1, producer_epoch=0
    )
    # More than the readers may unpack: only the limit stops them.
    bomb = _split("bomb", naive.encode_batch([naive.Record(9, NOW, None, bytes(BOMB_SIZE))]))
    empty_head = bytearray(mixed.head)
    struct.pack_into(">i", empty_head, 57, 0)
    empty = Seed(name="emptied by compaction", magic=2, codec=Codec.NONE, head=bytes(empty_head), plain=b"")
    plain = [mixed, many, large, smallest, append_time, _split("delete horizon", horizon), empty]
    return plain + [
        _with_codec(seed, codec) for seed in (mixed, many, large, bomb) for codec in Codec if codec
    ]


def _control() -> list[Seed]:
    def batch(key: bytes, value: bytes) -> bytes:
        record = naive.Record(17, NOW, key, value)
        return naive.encode_batch(
            [record], attributes=TRANSACTIONAL | CONTROL, producer_id=1234, producer_epoch=5
        )

    marker = struct.pack(">hi", 0, 3)
    return [
        _split("abort", batch(struct.pack(">hh", 0, 0), marker)),
        _split("commit", batch(struct.pack(">hh", 0, 1), marker)),
        _split("control of a type yet unknown", batch(struct.pack(">hh", 1, 99), b"\x00\x01rest")),
        _with_codec(_split("commit", batch(struct.pack(">hh", 0, 1), marker)), Codec.GZIP),
    ]


def _legacy() -> list[Seed]:
    found = []
    records = [record._replace(headers=()) for record in _records(4)]
    for magic in (0, 1):
        messages = b"".join(naive.encode_message(record, magic=magic) for record in records)
        found.append(Seed(name=f"v{magic} plain", magic=magic, codec=Codec.NONE, head=b"", plain=messages))
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            for bits in (0, naive.LOG_APPEND_TIME)[: magic + 1]:
                found.append(_wrapper(records, magic, codec, bits))
    return found


def _wrapper(records: list[naive.Record], magic: int, codec: Codec, bits: int) -> Seed:
    base = records[0].offset if magic == 1 else 0
    inner = b"".join(
        naive.encode_message(record._replace(offset=record.offset - base), magic=magic) for record in records
    )
    head = struct.pack(">q i I B B", records[-1].offset, 0, 0, magic, codec | bits)
    if magic == 1:
        head += struct.pack(">q", NOW)
    return Seed(name=f"v{magic} {codec.kafka_name} {bits}", magic=magic, codec=codec, head=head, plain=inner)


def _fixtures() -> list[Seed]:
    """One small batch of each shape in the brokers' logs: internal topics, markers, KRaft's own records."""
    found: dict[tuple[object, ...], Seed] = {}
    for path in sorted(FIXTURES.rglob("*.log")):
        raw = path.read_bytes()
        for batch in naive.walk(raw, check_crc=False)[0]:
            shape = (path.parent.name, batch.magic, batch.attributes, min(batch.records_count, 2))
            if shape in found or batch.size > LARGEST_FIXTURE:
                continue
            bytes_of_batch = raw[batch.position : batch.position + batch.size]
            found[shape] = _of_broker(f"{path.parent.name} at {batch.position}", batch, bytes_of_batch)
    return list(found.values())


def _of_broker(name: str, batch: naive.Batch, raw: bytes) -> Seed:
    codec = Codec(batch.attributes & naive.CODEC_MASK)
    if batch.magic == 2:
        plain = decompress(codec, raw[HEADER_SIZE:])
        return Seed(name=name, magic=2, codec=codec, head=raw[:HEADER_SIZE], plain=plain)
    if not codec:
        return Seed(name=name, magic=batch.magic, codec=codec, head=b"", plain=raw)
    (message,) = naive.messages(raw)
    plain = decompress(codec, message.value or b"", magic=batch.magic)
    return Seed(name=name, magic=batch.magic, codec=codec, head=raw[: 26 if batch.magic else 18], plain=plain)
