"""zstd: frames one after another, skippable ones between them. Kafka: ZstdCompression, zstd-jni.

Two things are refused here that zstd-jni accepts. One is a cut-off frame after another frame, if both arrive
in the same 128 KiB read. The other is a wrong declared size if the last block is empty.
"""

from __future__ import annotations

import struct
import threading

import zstandard

from stratalog.records.codecs.failures import corrupt, too_large
from stratalog.records.scratch import Scratch

_UINT32_LE = struct.Struct("<I")
_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50  # the first of sixteen such numbers
_BLOCK_SIZE = 128 << 10  # the most plain bytes in a block
# Up to this size a frame is decoded in one call, which is 1.5 times as fast as a stream; above it, the extra
# copy that the call makes would take too much memory.
_ONE_CALL_SIZE = 1 << 20


def read(data: memoryview, scratch: Scratch, magic: int, limit: int) -> int:  # noqa: ARG001
    position, produced, end = 0, 0, len(data)
    while position < end:
        frame_end, block_count = _walk_frame(data, position)
        if block_count:
            frame = data if frame_end - position == end else data[position:frame_end]
            produced += _read_frame(frame, block_count, scratch, produced, limit)
        position = frame_end
    return produced


def _walk_frame(data: memoryview, position: int) -> tuple[int, int]:
    """(where the frame at `position` ends, its number of blocks, 0 for a skippable one), without decoding it.

    This finds a cut-off frame, which the library's stream reader treats as the end. It also bounds the plain
    size before anything is allocated.
    """
    end = len(data)
    try:
        (number,) = _UINT32_LE.unpack_from(data, position)
        if number & 0xFFFFFFF0 == _SKIPPABLE_MAGIC:
            (size,) = _UINT32_LE.unpack_from(data, position + 4)
            next_position, block_count = position + 8 + size, 0
        else:
            if number != _MAGIC:
                raise corrupt("zstd", f"has no frame at byte {position}")
            descriptor = data[position + 4]
            next_position = position + _HEADER_SIZES[descriptor]
            block_count = last = 0
            while not last:
                word = data[next_position] | data[next_position + 1] << 8 | data[next_position + 2] << 16
                last, kind = word & 1, word >> 1 & 3
                next_position += 4 if kind == 1 else 3 + (word >> 3)  # kind 1: one byte, repeated
                block_count += 1
            if descriptor & 0x04:
                next_position += 4  # the checksum of the content
    except (IndexError, struct.error):
        raise corrupt("zstd", "is cut off") from None
    if next_position > end:
        raise corrupt("zstd", "is cut off")
    return next_position, block_count


def _header_size(descriptor: int) -> int:
    single_segment = descriptor >> 5 & 1
    window_size = 1 - single_segment
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    return 5 + window_size + (0, 1, 2, 4)[descriptor & 3] + content_size


_HEADER_SIZES = [_header_size(descriptor) for descriptor in range(256)]


def _read_frame(frame: memoryview, block_count: int, scratch: Scratch, produced: int, limit: int) -> int:
    bound = block_count * _BLOCK_SIZE
    try:
        declared = zstandard.frame_content_size(frame)  # -1: not declared
        if produced + declared > limit:
            raise too_large("zstd", produced + declared, limit)
        if declared > bound:
            raise corrupt("zstd", f"promises {declared} bytes in {block_count} blocks")
        # The one-call decoder trusts a declared size of 0 and does not read the frame.
        if bound > _ONE_CALL_SIZE or declared == 0:
            size = _stream_frame(frame, scratch, produced, limit)
            # The streaming decoder does not compare the sizes if the last block is empty.
            if declared not in (-1, size):
                raise corrupt("zstd", f"promises {declared} bytes, but holds {size}")
            return size
        plain = scratch.zstd.decompress(frame, bound)
    except zstandard.ZstdError as error:
        if "not enough memory" in str(error):  # only the text shows this kind of error
            raise MemoryError(f"zstd: {error}") from None
        raise corrupt("zstd", f"is damaged: {error}") from None
    size = len(plain)
    if produced + size > limit:
        raise too_large("zstd", produced + size, limit)
    target = scratch.used + produced
    if target + size > len(scratch.view):
        scratch.reserve(produced + size, written=produced)
    scratch.view[target : target + size] = plain
    return size


def _stream_frame(frame: memoryview, scratch: Scratch, produced: int, limit: int) -> int:
    size = 0
    with scratch.zstd.stream_reader(frame) as reader:
        while True:
            # One byte more than the limit is enough to see that the limit is exceeded.
            room = min(max(_ONE_CALL_SIZE, size), limit - produced - size + 1)
            scratch.reserve(produced + size + room, written=produced + size)
            target = scratch.used + produced + size
            got = reader.readinto(scratch.view[target : target + room])
            if got == 0:
                return size
            size += got
            if produced + size > limit:
                raise too_large("zstd", produced + size, limit)


_compressors = threading.local()  # a zstd context serves one thread at a time


def write(data: memoryview, level: int | None, magic: int) -> bytes:  # noqa: ARG001
    chosen = 3 if level is None else level
    if getattr(_compressors, "level", None) != chosen:
        _compressors.zstd = zstandard.ZstdCompressor(level=chosen)
        _compressors.level = chosen
    compressor: zstandard.ZstdCompressor = _compressors.zstd
    return compressor.compress(data)
