"""The codecs of the records section, read by the rules of Kafka's own readers and written for them.

name    id  framing
none     0  the bytes themselves
gzip     1  RFC 1952 members; other bytes after the last whole member are ignored
snappy   2  xerial stream (16-byte header, then length and raw block), or one raw block without a header
lz4      3  one LZ4 frame of independent blocks; with magic 0 its header checksum is wrong and ignored
zstd     4  zstd frames, skippable ones included; magic 2 only

A length in a stream is checked against the remaining bytes and the caller's limit before it is used, so
hostile input costs at most the limit and a constant. The constant is 4 MiB (one LZ4 block); for zstd it is
the window that the frame asks for, up to 128 MiB, which is the window of Kafka's highest level.

docs/decisions/0001-codec-libraries.md says which library does what, with measurements;
docs/formats/compression.md describes the framing. Kafka: org.apache.kafka.common.compress.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from enum import IntEnum
from typing import Literal, NoReturn

from stratalog.errors import InvalidBatchError, UnsupportedCompressionTypeError
from stratalog.records.codecs import gzip, lz4, snappy, zstd
from stratalog.records.codecs.failures import too_large
from stratalog.records.scratch import Scratch

__all__ = ["CODEC_MASK", "DEFAULT_LIMIT", "Codec", "Scratch", "compress", "decompress", "decompress_into"]

DEFAULT_LIMIT = 1 << 30  # far above message.max.bytes (1 MiB) times any ratio seen in practice
CODEC_MASK = 0x07  # the low bits of a batch's or message's attributes


CodecName = Literal["none", "gzip", "snappy", "lz4", "zstd"]


class Codec(IntEnum):
    """Kafka's compression types, by the number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def from_attributes(cls, attributes: int) -> Codec:
        """The codec of a batch or message with these attributes."""
        number = attributes & CODEC_MASK
        if number > cls.ZSTD:
            _refuse_codec(number)
        return cls(number)

    @property
    def kafka_name(self) -> str:
        """The name in `compression.type` and in the dump tool's lines: none, gzip, snappy, lz4, zstd."""
        return self.name.lower()


def decompress_into(codec: int, data: memoryview, scratch: Scratch, *, magic: int = 2, limit: int) -> int:
    """Write the plain bytes of `data` at `scratch.array[scratch.used:]` and return how many they are.

    `scratch.used` is not changed: the caller updates it. `codec` is a Codec or just the three bits of the
    attributes. More than `limit` plain bytes are a RecordTooLargeError, damage is a CorruptCompressionError,
    codecs 5 to 7 are an UnsupportedCompressionTypeError. All errors have position 0; the caller, who knows
    the batch, sets the real one with `.at()`. After an error the bytes after `used` are undefined.
    """
    return _READERS[codec](data, scratch, magic, limit)


def decompress(codec: int, data: bytes | memoryview, *, magic: int = 2, limit: int = DEFAULT_LIMIT) -> bytes:
    """The plain bytes of `data`, for callers with only a batch or two; errors as in `decompress_into`."""
    scratch = Scratch(64 << 10)
    size = decompress_into(codec, memoryview(data), scratch, magic=magic, limit=limit)
    return bytes(scratch.view[:size])


def compress(codec: int, data: bytes | memoryview, *, level: int | None = None, magic: int = 2) -> bytes:
    """`data` as a stream that every Kafka reader of this magic accepts; None is Kafka's default level."""
    if codec not in _WRITERS:
        _refuse_codec(codec)
    levels, write = _WRITERS[codec]
    if level is not None and level not in levels:
        raise InvalidBatchError(
            f"{Codec(codec).kafka_name} has no compression level {level}. "
            "Kafka knows gzip 1 to 9 and -1, lz4 1 to 17, zstd -131072 to 22, and none for snappy."
        )
    return write(memoryview(data), level, magic)


def _refuse_codec(number: int) -> NoReturn:
    raise UnsupportedCompressionTypeError(
        f"there is no codec {number}; Kafka has none 0, gzip 1, snappy 2, lz4 3 and zstd 4. A newer Kafka "
        "may have written it, or the attributes are damaged."
    )


def _read_plain(data: memoryview, scratch: Scratch, magic: int, limit: int) -> int:  # noqa: ARG001
    size = len(data)
    if size > limit:
        raise too_large("uncompressed", size, limit)
    scratch.reserve(size)
    scratch.view[scratch.used : scratch.used + size] = data
    return size


def _write_plain(data: memoryview, level: int | None, magic: int) -> bytes:  # noqa: ARG001
    return bytes(data)


def _unknown_reader(number: int) -> Callable[[memoryview, Scratch, int, int], int]:
    def read(data: memoryview, scratch: Scratch, magic: int, limit: int) -> int:  # noqa: ARG001
        _refuse_codec(number)

    return read


# A tuple indexed by the codec's number is the fastest branch, and this runs once for each batch.
_READERS = (
    _read_plain,
    gzip.read,
    snappy.read,
    lz4.read,
    zstd.read,
    *(_unknown_reader(number) for number in range(5, CODEC_MASK + 1)),
)
# The levels are those of Kafka's GzipCompression, Lz4Compression and ZstdCompression.
_WRITERS: dict[int, tuple[Container[int], Callable[[memoryview, int | None, int], bytes]]] = {
    Codec.NONE: ((), _write_plain),
    Codec.GZIP: ((-1, *range(1, 10)), gzip.write),
    Codec.SNAPPY: ((), snappy.write),
    Codec.LZ4: (range(1, 18), lz4.write),
    Codec.ZSTD: (range(-131072, 23), zstd.write),
}
