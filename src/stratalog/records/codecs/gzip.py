"""gzip: RFC 1952 members, read as Java's GZIPInputStream reads them. Kafka: GzipCompression.

Members follow each other; bytes after the last whole member that are not a member are ignored.
"""

from __future__ import annotations

import struct
import zlib

from stratalog.records.codecs.failures import corrupt, too_large
from stratalog.records.scratch import Scratch

# GZIPInputStream looks for another member only if more than this many bytes follow a trailer.
_IGNORED_TAIL = 18
_HEADER = bytes.fromhex("1f8b08000000000000ff")  # as Java writes it: no time, unknown system
# zlib returns unconsumed input as a copy. Feeding it little at first, then twice as much each time, keeps the
# cost linear for many small members as well as for one large member.
_FIRST_FEED_SIZE = 16 << 10
_LARGEST_FEED_SIZE = 256 << 10
_PIECE_SIZE = 1 << 20
_UINT32_PAIR = struct.Struct("<II")


def read(data: memoryview, scratch: Scratch, magic: int, limit: int) -> int:  # noqa: ARG001
    produced = 0
    start = _header_end(data, 0)
    if start < 0:
        raise corrupt("gzip", "has no valid header")
    while True:
        size, end = _inflate(data, start, scratch, produced, limit)
        produced += size
        if len(data) - end <= _IGNORED_TAIL:
            return produced
        start = _header_end(data, end)
        if start < 0:
            # Kafka: GZIPInputStream.readTrailer ignores a malformed header after a whole member.
            return produced


def _header_end(data: memoryview, position: int) -> int:
    """Where the deflate stream of the member at `position` starts; -1 if there is no valid header."""
    header = bytes(data[position : position + 10])
    if len(header) < 10 or header[:3] != _HEADER[:3]:
        return -1
    flags = header[3]
    end = position + 10
    if flags & 0x04:  # FEXTRA
        if end + 2 > len(data):
            return -1
        end += 2 + data[end] + (data[end + 1] << 8)
    for flag in (0x08, 0x10):  # FNAME, FCOMMENT: text that ends with a zero byte
        if flags & flag:
            end = _behind_zero(data, end)
    if flags & 0x02:  # FHCRC
        stored = bytes(data[end : end + 2])
        if stored != (zlib.crc32(data[position:end]) & 0xFFFF).to_bytes(2, "little"):
            return -1
        end += 2
    return end if end <= len(data) else -1


def _behind_zero(data: memoryview, position: int) -> int:
    """The position after the next zero byte; past the end if there is none.

    It searches piece by piece, because `find` needs a copy of the bytes.
    """
    for start in range(position, len(data), 256):
        if (zero := bytes(data[start : start + 256]).find(0)) >= 0:
            return start + zero + 1
    return len(data) + 1


def _inflate(data: memoryview, start: int, scratch: Scratch, produced: int, limit: int) -> tuple[int, int]:
    """Inflate one member after `produced` bytes; returns (plain size, position after its trailer)."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    position, pending, feed_size = start, memoryview(b""), _FIRST_FEED_SIZE
    size = crc = 0
    while not inflater.eof:
        if not pending:
            pending = data[position : position + feed_size]
            position += len(pending)
            feed_size = min(2 * feed_size, _LARGEST_FEED_SIZE)
        exhausted = not pending
        try:
            piece = inflater.decompress(pending, _PIECE_SIZE)
        except zlib.error as error:
            raise corrupt("gzip", f"is damaged: {error}") from None
        pending = memoryview(inflater.unconsumed_tail)
        if piece:
            if produced + size + len(piece) > limit:
                raise too_large("gzip", produced + size + len(piece), limit)
            scratch.reserve(produced + size + len(piece), written=produced + size)
            target = scratch.used + produced + size
            scratch.view[target : target + len(piece)] = piece
            crc = zlib.crc32(piece, crc)
            size += len(piece)
        elif exhausted and not inflater.eof:
            raise corrupt("gzip", "is cut off")
    end = position - len(inflater.unused_data)
    if end + _UINT32_PAIR.size > len(data):
        raise corrupt("gzip", "is cut off in its trailer")
    if _UINT32_PAIR.unpack_from(data, end) != (crc, size & 0xFFFFFFFF):
        raise corrupt("gzip", "does not match the checksum or length in its trailer")
    return size, end + _UINT32_PAIR.size


def write(data: memoryview, level: int | None, magic: int) -> bytes:  # noqa: ARG001
    deflater = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflater.compress(data) + deflater.flush()
    return _HEADER + body + _UINT32_PAIR.pack(zlib.crc32(data), len(data) & 0xFFFFFFFF)
