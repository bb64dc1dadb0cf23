"""lz4: one LZ4 frame of independent blocks. Kafka: Lz4BlockInputStream, Lz4BlockOutputStream.

at  size  field
 0     4  magic                  04 22 4d 18
 4     1  FLG                    version, independent blocks, block checksums, content size, content checksum
 5     1  BD                     most bytes in a block
 6     8  content size           only if FLG says so; it is not compared with the content
 ..    1  HC                     second byte of xxh32 of FLG to here; in magic-0 messages not checked
 ..       blocks: size (4, little endian, top bit: stored as it is), the bytes, [checksum], up to size 0

The frame is parsed here for two reasons: a block decoder that writes to a given place is twice as fast as the
libraries' frame decoders; and Kafka's reader differs from these decoders in what it refuses and what it
ignores.
"""

from __future__ import annotations

import struct

import cramjam

from stratalog.records.codecs.failures import corrupt, too_large
from stratalog.records.scratch import Scratch

# FLG 0x60: version 1, independent blocks, no checksums; BD 0x40: blocks of at most 64 KiB; then the checksum.
_HEADER = bytes.fromhex("04224d18604082")
_HEADER_MAGIC_0 = bytes.fromhex("04224d1860401a")
_MAGIC = _HEADER[:4]
_BLOCK_SIZE = 64 << 10
_END_MARK = bytes(4)
_STORED = 0x80000000
# A byte of compressed data lengthens a run by at most 255.
_MAX_RATIO = 255
_DEFAULT_LEVEL = 9  # Kafka: Lz4Compression uses its fast compressor for 9 and the HC one for all other levels
_UINT32_LE = struct.Struct("<I")


def read(data: memoryview, scratch: Scratch, magic: int, limit: int) -> int:
    if data[:7] == _HEADER:
        position, block_limit, flags = 7, _BLOCK_SIZE, 0x60
    else:
        position, block_limit, flags = _read_header(data, magic)
    # A block with a checksum is decoded as a frame of its own, because the library checks the checksum.
    checksum_size = 4 if flags & 0x10 else 0
    end, produced = len(data), 0
    while True:
        if position + 4 > end:
            raise corrupt("lz4", "is cut off before its end mark")
        (word,) = _UINT32_LE.unpack_from(data, position)
        position += 4
        block_size = word & ~_STORED
        if block_size == 0:
            break
        block_end = position + block_size
        if block_size > block_limit:
            raise corrupt("lz4", f"has a block of {block_size} bytes, but at most {block_limit} are allowed")
        if block_end + checksum_size > end:
            raise corrupt(
                "lz4", f"promises a block of {block_size} bytes, but only {end - position} are left"
            )
        room = min(block_limit, block_size * _MAX_RATIO)
        target = scratch.used + produced
        if target + room > len(scratch.view):
            scratch.reserve(produced + room, written=produced)
        try:
            if checksum_size:
                framed = _frame_header(0x70, data[5]) + data[position - 4 : block_end + 4] + _END_MARK
                produced += cramjam.lz4.decompress_into(framed, scratch.view[target : target + room])
            elif word & _STORED:
                scratch.view[target : target + block_size] = data[position:block_end]
                produced += block_size
            else:
                produced += cramjam.lz4.decompress_block_into(
                    data[position:block_end], scratch.view[target : target + room], room
                )
        except cramjam.DecompressionError as error:
            raise corrupt("lz4", f"is damaged: {error}") from None
        if produced > limit:
            raise too_large("lz4", produced, limit)
        position = block_end + checksum_size
    # The content checksum must be present, but is not compared, as in Kafka's reader: the batch has its own
    # CRC. Bytes after the frame are ignored.
    if flags & 0x04 and position + 4 > end:
        raise corrupt("lz4", "is cut off in its content checksum")
    return produced


def _read_header(data: memoryview, magic: int) -> tuple[int, int, int]:
    """(position of the first block, most bytes in a block, FLG). Kafka: Lz4BlockInputStream.readHeader."""
    if len(data) < 7:
        raise corrupt("lz4", "is cut off in its header")
    if data[:4] != _MAGIC:
        raise corrupt("lz4", f"starts with {data[:4].hex()}, which is not an LZ4 frame")
    flags, block_descriptor = data[4], data[5]
    if flags >> 6 != 1 or flags & 0x03:
        raise corrupt("lz4", f"has flags {flags:#04x}, of another version or with reserved bits set")
    if not flags & 0x20:
        raise corrupt("lz4", "has blocks that depend on each other, which no Kafka reader supports")
    if block_descriptor & 0x8F or block_descriptor >> 4 < 4:
        raise corrupt("lz4", f"has no valid block size in {block_descriptor:#04x}")
    # The content size is skipped: Kafka's reader does not compare it with anything.
    end = 6 + (8 if flags & 0x08 else 0)
    if end >= len(data):
        raise corrupt("lz4", "is cut off in its header")
    if magic > 0 and data[end] != _header_checksum(bytes(data[4:end])):
        raise corrupt("lz4", "has a header that does not match its checksum")
    return end + 1, 1 << (2 * (block_descriptor >> 4) + 8), flags


def _frame_header(flags: int, block_descriptor: int) -> bytes:
    descriptor = bytes((flags, block_descriptor))
    return _MAGIC + descriptor + bytes((_header_checksum(descriptor),))


def _header_checksum(descriptor: bytes) -> int:
    """The second byte of xxh32 with seed 0. Inputs are below 16 bytes, so the striped loop is left out."""
    assert len(descriptor) < 16
    prime2, prime3, prime4, prime5 = 2246822519, 3266489917, 668265263, 374761393
    mask = 0xFFFFFFFF
    value = prime5 + len(descriptor)
    whole = len(descriptor) & ~3
    for (word,) in _UINT32_LE.iter_unpack(descriptor[:whole]):
        value = (value + word * prime3) & mask
        value = ((value << 17 | value >> 15) * prime4) & mask
    for byte in descriptor[whole:]:
        value = (value + byte * prime5) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * prime2) & mask
    value = ((value ^ value >> 13) * prime3) & mask
    return (value ^ value >> 16) >> 8 & 0xFF


def write(data: memoryview, level: int | None, magic: int) -> bytes:
    parts = [_HEADER if magic > 0 else _HEADER_MAGIC_0]
    for start in range(0, len(data), _BLOCK_SIZE):
        plain = data[start : start + _BLOCK_SIZE]
        if level is None or level == _DEFAULT_LEVEL:
            block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        else:
            block = bytes(
                cramjam.lz4.compress_block(
                    plain, mode="high_compression", compression=level, store_size=False
                )
            )
        if len(block) < len(plain):
            parts += (_UINT32_LE.pack(len(block)), block)
        else:
            parts += (_UINT32_LE.pack(len(plain) | _STORED), bytes(plain))
    parts.append(_END_MARK)
    return b"".join(parts)
