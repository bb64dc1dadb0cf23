"""Decoded headers of batches, around and inside a damaged region."""

from __future__ import annotations

from typing import NamedTuple

from stratalog.operations.words import time_text
from stratalog.records.batch import RECORD_BATCH_OVERHEAD, Attributes, BatchHeader
from stratalog.records.compression import CODEC_MASK, Codec
from stratalog.records.kernels.memory import Bytes
from stratalog.records.walk import new_table, walk_batches

_SIZES = dict(zip(BatchHeader._fields, (8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4), strict=True))
assert sum(_SIZES.values()) == RECORD_BATCH_OVERHEAD
# The fields of the old formats: the position and size of each.
_OLD = {"offset": (0, 8), "size": (8, 4), "crc": (12, 4), "magic": (16, 1), "attributes": (17, 1)}
_OLD_TIMESTAMP = {"timestamp": (18, 8)}  # since magic 1
_MAGIC_AT = 16
_TIMES = ("base_timestamp", "max_timestamp", "timestamp")
_WORDS = {
    Attributes.LOG_APPEND_TIME: "log append time",
    Attributes.TRANSACTIONAL: "transactional",
    Attributes.CONTROL: "control",
    Attributes.DELETE_HORIZON: "delete horizon",
}


class HeaderField(NamedTuple):
    """One field: its value as text, and which bytes of the batch have it."""

    name: str
    text: str
    at: int
    size: int


class DecodedHeader(NamedTuple):
    """The header at a byte of a file.

    `size` is the size that the header gives the batch, None if no batch can have it. `is_valid` is None if
    the checksum could not be computed, because the batch is not whole or too large.
    """

    position: int
    size: int | None
    is_valid: bool | None
    fields: tuple[HeaderField, ...]


def decode_header(data: Bytes, position: int, size_left: int) -> DecodedHeader | None:
    """The header at the start of a buffer, which is byte `position` of the file; None if it is not whole.

    `size_left` is how many bytes the file has from there, which may be more than the buffer.
    """
    walk = walk_batches(data, table=new_table(1))
    if len(walk.headers) and walk.headers[0]["magic"] < 2:
        return _decode_old(data, position, int(walk.headers[0]["size"]), bool(walk.headers[0]["valid"]))
    if len(data) < RECORD_BATCH_OVERHEAD:
        return None
    header = BatchHeader.unpack(data[:RECORD_BATCH_OVERHEAD].tobytes())
    is_possible = RECORD_BATCH_OVERHEAD <= header.size <= size_left and header.magic == 2
    return DecodedHeader(
        position,
        header.size if is_possible else None,
        bool(walk.headers[0]["valid"]) if len(walk.headers) else None,
        tuple(_fields(header)),
    )


def _fields(header: BatchHeader) -> list[HeaderField]:
    found, at = [], 0
    for name, value in zip(header._fields, header, strict=True):
        found.append(HeaderField(name, _text(name, value), at, _SIZES[name]))
        at += _SIZES[name]
    return found


def _text(name: str, value: int) -> str:
    if name == "crc":
        return f"{value:#010x}"
    if name == "attributes":
        return _attributes(value)
    if name in _TIMES and value >= 0:
        return f"{value} ({time_text(value)})"
    return str(value)


def _attributes(value: int) -> str:
    number = value & CODEC_MASK
    codec = next((codec.kafka_name for codec in Codec if codec == number), f"codec {number}")
    return ", ".join(
        [f"{value & 0xFFFF:#06x}", codec, *(word for bit, word in _WORDS.items() if value & bit)]
    )


def _decode_old(data: Bytes, position: int, size: int, is_valid: bool) -> DecodedHeader:
    fields = []
    layout = _OLD if data[_MAGIC_AT] == 0 else _OLD | _OLD_TIMESTAMP
    for name, (at, width) in layout.items():
        is_signed = name not in ("crc", "attributes")
        value = int.from_bytes(data[at : at + width].tobytes(), "big", signed=is_signed)
        fields.append(HeaderField(name, _text(name, value), at, width))
    return DecodedHeader(position, size, is_valid, tuple(fields))
