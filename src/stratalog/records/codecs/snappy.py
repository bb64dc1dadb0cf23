"""snappy: a xerial stream, or one raw block. Kafka: SnappyCompression, snappy-java's SnappyInputStream.

at  size  field
 0     8  magic                  82 53 4e 41 50 50 59 00
 8     4  version, 1             not compared by the reader
12     4  compatible version, 1  not compared either
16        blocks: size (4, big endian) and that many bytes of raw snappy

A size of 82 53 4e 41 is the start of another header: streams can be joined. Anything that does not start
with the magic, or is shorter than a header, is one raw block.
"""

from __future__ import annotations

import struct

import cramjam

from stratalog.records.codecs.failures import corrupt, too_large
from stratalog.records.scratch import Scratch

_XERIAL_MAGIC = bytes.fromhex("82534e4150505900")
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest version that can read it
_XERIAL_BLOCK_SIZE = 32 << 10
_XERIAL_ANOTHER = int.from_bytes(_XERIAL_MAGIC[:4], "big")  # in the place of a length: another header
# A copy element of three bytes yields at most 64: a larger promised size must be wrong.
_SNAPPY_MAX_RATIO = 22
_UINT32_BE = struct.Struct(">I")


def read(data: memoryview, scratch: Scratch, magic: int, limit: int) -> int:  # noqa: ARG001
    end = len(data)
    if end < len(_XERIAL_HEADER) or data[:8] != _XERIAL_MAGIC:
        return _read_snappy_block(data, scratch, 0, limit)
    # The versions in the header are not compared with anything, as in SnappyInputStream.
    position, produced = len(_XERIAL_HEADER), 0
    # one to three bytes at the end are not a length and are ignored, as in SnappyInputStream
    while position + 4 <= end:
        (block_size,) = _UINT32_BE.unpack_from(data, position)
        position += 4
        if block_size == _XERIAL_ANOTHER:
            position += len(_XERIAL_HEADER) - 4
            if position > end:
                raise corrupt("snappy", "is cut off in a second header")
            continue
        if block_size > end - position:
            raise corrupt(
                "snappy", f"promises a block of {block_size} bytes, but only {end - position} are left"
            )
        block = data[position : position + block_size]
        produced += _read_snappy_block(block, scratch, produced, limit)
        position += block_size
    return produced


def _read_snappy_block(block: memoryview, scratch: Scratch, produced: int, limit: int) -> int:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if produced + size > limit:
            raise too_large("snappy", produced + size, limit)
        if size > _SNAPPY_MAX_RATIO * len(block):
            raise corrupt("snappy", f"promises {size} bytes from a block of {len(block)}")
        scratch.reserve(produced + size, written=produced)
        target = scratch.used + produced
        return cramjam.snappy.decompress_raw_into(block, scratch.view[target : target + size])
    except cramjam.DecompressionError as error:
        raise corrupt("snappy", f"is damaged: {error}") from None


def write(data: memoryview, level: int | None, magic: int) -> bytes:  # noqa: ARG001
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_SIZE]))
        parts += (_UINT32_BE.pack(len(block)), block)
    return b"".join(parts)
