"""Slow twins of the kernels, written to be obviously right: plain Python, one byte after the other.

A property test compares each kernel with its twin here. Nothing of `stratalog` is used, so a mistake there
cannot be repeated here. To learn the formats, begin with this file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tests.naive_sums import crc32, crc32c

LOG_APPEND_TIME = 0x08
CODEC_MASK = 0x07
Header = tuple[bytes, bytes | None]
Decompress = Callable[[int, bytes, int], bytes]  # (codec, data, magic) -> plain bytes


class NaiveError(Exception):
    """The bytes break a rule of the format."""


class Record(NamedTuple):
    """One record; header keys are bytes here, since nothing makes them UTF-8."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Batch(NamedTuple):
    """The facts of a batch of any magic; -1 for fields that its format does not have."""

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    partition_leader_epoch: int
    records_count: int
    attributes: int
    crc: int
    valid: bool


def walk(data: bytes, *, check_crc: bool = True) -> tuple[list[Batch], int, str]:
    """(the whole batches, the start of the first one that is not whole, why the walk ended there)."""
    batches: list[Batch] = []
    position = 0
    while True:
        left = len(data) - position
        if left == 0:
            return batches, position, "END"
        if left <= 17:
            return batches, position, "TORN_TAIL"
        _, length = struct.unpack_from(">qi", data, position)
        magic = data[position + 16]
        if length < 14:
            return batches, position, "BAD_LENGTH"
        if magic > 2:
            return batches, position, "BAD_MAGIC"
        if length < {0: 14, 1: 22, 2: 49}[magic]:
            return batches, position, "BAD_LENGTH"
        if 12 + length > left:
            return batches, position, "TORN_TAIL"
        raw = data[position : position + 12 + length]
        read = _read_v2 if magic == 2 else _read_legacy
        batches.append(read(raw, position, check_crc))
        position += 12 + length


def _read_v2(raw: bytes, position: int, check_crc: bool) -> Batch:
    (
        base_offset,
        _length,
        partition_leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    ) = struct.unpack_from(">q i i b I h i q q q h i i", raw)
    return Batch(
        position=position,
        size=len(raw),
        magic=magic,
        base_offset=base_offset,
        last_offset=wrapped(base_offset + last_offset_delta, 64),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        partition_leader_epoch=partition_leader_epoch,
        records_count=records_count,
        attributes=attributes,
        crc=crc,
        valid=not check_crc or crc == crc32c(raw[21:]),
    )


def _read_legacy(raw: bytes, position: int, check_crc: bool) -> Batch:
    offset, _length, crc, magic, attributes = struct.unpack_from(">q i I b B", raw)
    timestamp = struct.unpack_from(">q", raw, 18)[0] if magic == 1 else -1
    return Batch(
        position=position,
        size=len(raw),
        magic=magic,
        base_offset=offset,
        last_offset=offset,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        partition_leader_epoch=-1,
        records_count=-1 if attributes & CODEC_MASK else 1,
        attributes=attributes,
        crc=crc,
        valid=not check_crc or crc == crc32(raw[16:]),
    )


def find_start(data: bytes, start: int, *, last_offset: int, last_epoch: int, next_base: int) -> int | None:
    """The start of the first v2 batch, from `start` on, that may follow these; None if there is none."""
    for position in range(start, len(data) - 60):
        raw = data[position:]
        length = int.from_bytes(raw[8:12], "big", signed=True)
        if raw[16] != 2 or length < 49 or 12 + length > len(raw):
            continue
        batch = _read_v2(raw[: 12 + length], position, False)
        if not last_offset < batch.base_offset <= batch.last_offset < next_base:
            continue
        if batch.partition_leader_epoch >= last_epoch and crc32c(raw[21 : 12 + length]) == batch.crc:
            return position
    return None


def wrapped(number: int, bits: int) -> int:
    """The number as a two's complement register of `bits` bits holds it."""
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


class Cursor:
    """Reads from front to back and raises NaiveError rather than read past the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise NaiveError(f"{size} bytes wanted, {self.left} left")
        self.position += size
        return self.data[self.position - size : self.position]

    def varint(self, bits: int = 32) -> int:
        unsigned = 0
        for shift in range(0, bits + 3, 7):  # at most 5 bytes for 32 bits, 10 for 64
            byte = self.take(1)[0]
            unsigned |= (byte & 0x7F) << shift
            if byte < 0x80:
                unsigned &= (1 << bits) - 1
                return -(unsigned >> 1) - 1 if unsigned & 1 else unsigned >> 1
        raise NaiveError("a number that does not end")

    def field(self) -> bytes | None:
        size = self.varint()
        return None if size < 0 else self.take(size)

    def integer(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def wide_field(self) -> bytes | None:
        size = self.integer(">i")
        return None if size < 0 else self.take(size)


def decode_v2(batch: Batch, section: bytes) -> Iterator[Record]:
    """The records of a v2 batch, whose records section has been decompressed."""
    if batch.records_count < 0:
        raise NaiveError("a count below zero")
    if batch.records_count == 0:
        return  # Kafka does not look into such a batch either
    cursor = Cursor(section)
    for _ in range(batch.records_count):
        body = Cursor(cursor.take(cursor.varint()))
        body.take(1)  # attributes, unused
        timestamp = wrapped(batch.base_timestamp + body.varint(64), 64)
        offset = wrapped(batch.base_offset + body.varint(), 64)
        key, value = body.field(), body.field()
        headers_count = body.varint()
        if not 0 <= headers_count <= body.left:
            raise NaiveError("a count of headers that cannot be")
        headers = tuple(_header(body) for _ in range(headers_count))
        if body.left:
            raise NaiveError("bytes behind the last header")
        if batch.attributes & LOG_APPEND_TIME:
            timestamp = batch.max_timestamp
        yield Record(offset, timestamp, key, value, headers)
    if cursor.left and batch.records_count:  # Kafka does not look into a batch that counts no records
        raise NaiveError("bytes behind the last record")


def _header(body: Cursor) -> Header:
    key = body.field()
    if key is None:
        raise NaiveError("a header without a key")
    return key, body.field()


class Message(NamedTuple):
    """One v0 or v1 entry, with the offset that it has itself."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def messages(data: bytes) -> Iterator[Message]:
    """The entries of a v0 or v1 message set; a cut last one is left out."""
    cursor = Cursor(data)
    while cursor.left >= 12:
        offset, size = cursor.integer(">q"), cursor.integer(">i")
        if size < 14:
            raise NaiveError("an entry shorter than any message")
        if size > cursor.left:
            return
        yield _message(offset, Cursor(cursor.take(size)))


def _message(offset: int, cursor: Cursor) -> Message:
    crc, magic, attributes = cursor.integer(">I"), cursor.integer(">B"), cursor.integer(">B")
    timestamp = cursor.integer(">q") if magic else -1
    return Message(offset, crc, magic, attributes, timestamp, cursor.wide_field(), cursor.wide_field())


def decode_legacy(entry: bytes, decompress: Decompress) -> list[Record]:
    """The records of one v0 or v1 entry: itself, or what it wraps."""
    (outer,) = messages(entry)
    codec = outer.attributes & CODEC_MASK
    if not codec:
        return [Record(outer.offset, outer.timestamp, outer.key, outer.value)]
    if outer.value is None:
        raise NaiveError("a wrapper around nothing")
    inner = list(messages(decompress(codec, outer.value, outer.magic)))
    if not inner:
        raise NaiveError("a wrapper without messages")
    if any(message.attributes & CODEC_MASK for message in inner):
        raise NaiveError("a wrapper in a wrapper")
    base = 0
    if outer.magic == 1 and outer.offset != 0:
        base = outer.offset - inner[-1].offset
        if base < 0:
            raise NaiveError("a wrapper with an offset below those inside")
    append_time = outer.magic == 1 and outer.attributes & LOG_APPEND_TIME
    return [
        Record(
            base + message.offset,
            outer.timestamp if append_time else message.timestamp,
            message.key,
            message.value,
        )
        for message in inner
    ]


def decode(data: bytes, decompress: Decompress) -> list[Record]:
    """All records of a buffer of good batches, of any magic and codec."""
    batches, position, stop = walk(data)
    if stop not in ("END", "TORN_TAIL") or not all(batch.valid for batch in batches):
        raise NaiveError(f"{stop} at {position}, or a wrong checksum")
    records: list[Record] = []
    for batch in batches:
        raw = data[batch.position : batch.position + batch.size]
        if batch.magic < 2:
            records += decode_legacy(raw, decompress)
            continue
        codec = batch.attributes & CODEC_MASK
        records += decode_v2(batch, decompress(codec, raw[61:], 2) if codec else raw[61:])
    return records


def find_record(data: bytes, timestamp: int, start_offset: int) -> tuple[bool, int, int, int, int]:
    """(True, position of its batch, timestamp, offset, leader epoch) of the first record that matches.

    Or (False, position, 0, 0, 0): the batch there is compressed, old, cut off or broken, and nothing before
    it matches.
    """
    batches, end, _ = walk(data, check_crc=False)
    for batch in batches:
        left_to_others = (False, batch.position, 0, 0, 0)
        if batch.magic != 2:
            return left_to_others
        if batch.max_timestamp < timestamp:
            continue
        if batch.attributes & CODEC_MASK:
            return left_to_others
        if batch.last_offset < start_offset:
            continue
        try:
            for offset, found in _offsets_and_timestamps(batch, data):
                if offset >= start_offset and found >= timestamp:
                    return True, batch.position, found, offset, batch.partition_leader_epoch
        except NaiveError:
            return left_to_others
    return False, end, 0, 0, 0


def _offsets_and_timestamps(batch: Batch, data: bytes) -> Iterator[tuple[int, int]]:
    """As `decode_v2`, but keys, values and headers are not looked at."""
    cursor = Cursor(data[batch.position + 61 : batch.position + batch.size])
    if batch.records_count < 0:
        raise NaiveError("a count below zero")
    for _ in range(batch.records_count):
        body = Cursor(cursor.take(cursor.varint()))
        body.take(1)  # attributes, unused
        timestamp = wrapped(batch.base_timestamp + body.varint(64), 64)
        offset = wrapped(batch.base_offset + body.varint(), 64)
        yield offset, batch.max_timestamp if batch.attributes & LOG_APPEND_TIME else timestamp
    if cursor.left and batch.records_count:
        raise NaiveError("bytes behind the last record")


def varint(value: int, bits: int = 32) -> bytes:
    """Zigzag, then seven bits a byte, lowest first."""
    left = ((value << 1) ^ (value >> (bits - 1))) & ((1 << bits) - 1)
    out = bytearray()
    while left >= 0x80:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def encode_records(records: Iterable[Record], *, base_offset: int, base_timestamp: int) -> bytes:
    """The records section of a v2 batch."""
    section = b""
    for record in records:
        body = b"\0" + varint(wrapped(record.timestamp - base_timestamp, 64), 64)
        body += varint(record.offset - base_offset) + _field(record.key) + _field(record.value)
        body += varint(len(record.headers))
        for key, value in record.headers:
            body += _field(key) + _field(value)
        section += varint(len(body)) + body
    return section


def _field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def encode_batch(
    records: list[Record],
    *,
    attributes: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    partition_leader_epoch: int = -1,
    compress: Callable[[bytes], bytes] = bytes,
) -> bytes:
    """A v2 batch; fields that are not given follow from the records."""
    base_offset = records[0].offset
    if base_timestamp is None:
        base_timestamp = records[0].timestamp
    section = compress(encode_records(records, base_offset=base_offset, base_timestamp=base_timestamp))
    covered = struct.pack(
        ">h i q q q h i i",
        attributes,
        records[-1].offset - base_offset if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max(record.timestamp for record in records) if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    covered += section
    lead = struct.pack(
        ">q i i b I", base_offset, 9 + len(covered), partition_leader_epoch, 2, crc32c(covered)
    )
    return lead + covered


def encode_message(record: Record, *, magic: int, attributes: int = 0) -> bytes:
    """A v0 or v1 entry."""
    covered = struct.pack(">B B", magic, attributes)
    if magic == 1:
        covered += struct.pack(">q", record.timestamp)
    for part in (record.key, record.value):
        covered += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">q i I", record.offset, 4 + len(covered), crc32(covered)) + covered


def encode_wrapper(
    records: list[Record], *, magic: int, attributes: int, compress: Callable[[bytes], bytes]
) -> bytes:
    """A compressed v0 or v1 set as Kafka writes it: absolute inner offsets in v0, relative ones in v1."""
    base = records[0].offset if magic == 1 else 0
    inner = b"".join(
        encode_message(record._replace(offset=record.offset - base), magic=magic) for record in records
    )
    timestamp = max(record.timestamp for record in records)
    outer = Record(records[-1].offset, timestamp, None, compress(inner))
    return encode_message(outer, magic=magic, attributes=attributes)
