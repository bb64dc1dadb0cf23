"""Streams of Kafka's `Compression` classes (4.3.1, JDK 17), damaged copies, and what Kafka reads there."""

from __future__ import annotations

import struct
import zlib

import pytest

from stratalog.errors import CorruptCompressionError, RecordTooLargeError
from stratalog.records.compression import Codec, decompress

HELLO = b"hellohellohellohello"

# What Kafka wrote for HELLO.
GZIP = bytes.fromhex("1f8b08000000000000ffcb48cdc9c9cf402500f0799aab14000000")
SNAPPY = bytes.fromhex("82534e4150505900000000010000000100000016144c68656c6c6f68656c6c6f68656c6c6f68656c6c6f")
LZ4 = bytes.fromhex("04224d186040820e0000005668656c6c6f05005068656c6c6f00000000")
ZSTD = bytes.fromhex("28b52ffd00585c00002868656c6c6f0100e88a16010000")
# What Kafka wrote for nothing.
EMPTY_GZIP = bytes.fromhex("1f8b08000000000000ff03000000000000000000")
EMPTY_SNAPPY = bytes.fromhex("82534e41505059000000000100000001")
EMPTY_LZ4 = bytes.fromhex("04224d1860408200000000")
EMPTY_ZSTD = bytes.fromhex("28b52ffd2000010000")

HELLO_BY_KAFKA = {Codec.GZIP: GZIP, Codec.SNAPPY: SNAPPY, Codec.LZ4: LZ4, Codec.ZSTD: ZSTD}
EMPTY_BY_KAFKA = {
    Codec.GZIP: EMPTY_GZIP,
    Codec.SNAPPY: EMPTY_SNAPPY,
    Codec.LZ4: EMPTY_LZ4,
    Codec.ZSTD: EMPTY_ZSTD,
}
COMPRESSED = list(HELLO_BY_KAFKA)

RAW_SNAPPY = SNAPPY[20:]
LZ4_BLOCKS = LZ4[7:]
GZIP_WITH_HEADER_CRC = GZIP[:3] + b"\x02" + GZIP[4:10]
SKIPPABLE = bytes.fromhex("502a4d1803000000616263")


def gzip_header(flags: int, extra: bytes) -> bytes:
    return GZIP[:3] + bytes([flags]) + GZIP[4:10] + extra


def zstd_run(size: int, *, header: str = "0058", count: int = 1) -> bytes:
    """A frame of `count` blocks, each of which is `size` times the letter a."""
    blocks = [struct.pack("<I", size << 3 | 2 | (i == count - 1))[:3] + b"a" for i in range(count)]
    return bytes.fromhex("28b52ffd" + header) + b"".join(blocks)


# name: (codec, stream, what Kafka reads in it; None: it refuses)
VERDICTS: dict[str, tuple[Codec, bytes, bytes | None]] = {
    "gzip: no input": (Codec.GZIP, b"", None),
    "gzip: two members": (Codec.GZIP, GZIP + GZIP, HELLO + HELLO),
    "gzip: an empty member first": (Codec.GZIP, EMPTY_GZIP + GZIP, HELLO),
    "gzip: an empty member last": (Codec.GZIP, GZIP + EMPTY_GZIP, HELLO),
    "gzip: garbage behind": (Codec.GZIP, GZIP + b"x" * 30, HELLO),
    "gzip: a zero behind": (Codec.GZIP, GZIP + b"\0", HELLO),
    "gzip: 18 bytes of a second member": (Codec.GZIP, GZIP + GZIP[:18], HELLO),
    "gzip: 19 bytes of a second member": (Codec.GZIP, GZIP + GZIP[:19], None),
    "gzip: second member of another method": (Codec.GZIP, GZIP + GZIP[:2] + b"\x07" + GZIP[3:], HELLO),
    "gzip: second member with a wrong CRC": (Codec.GZIP, GZIP + GZIP[:-8] + b"abcd" + GZIP[-4:], None),
    "gzip: second header with a wrong CRC": (
        Codec.GZIP,
        GZIP + GZIP_WITH_HEADER_CRC + bytes(2) + GZIP[10:],
        HELLO,
    ),
    "gzip: wrong CRC": (Codec.GZIP, GZIP[:-8] + b"abcd" + GZIP[-4:], None),
    "gzip: wrong length": (Codec.GZIP, GZIP[:-4] + b"\xff\0\0\0", None),
    "gzip: another method": (Codec.GZIP, GZIP[:2] + b"\x07" + GZIP[3:], None),
    "gzip: a file name": (Codec.GZIP, gzip_header(8, b"name\0") + GZIP[10:], HELLO),
    "gzip: a comment": (Codec.GZIP, gzip_header(16, b"c\0") + GZIP[10:], HELLO),
    "gzip: an extra field": (Codec.GZIP, gzip_header(4, b"\x03\0abc") + GZIP[10:], HELLO),
    "gzip: reserved flags": (Codec.GZIP, gzip_header(0xE0, b"") + GZIP[10:], HELLO),
    "gzip: right header CRC": (
        Codec.GZIP,
        GZIP_WITH_HEADER_CRC + struct.pack("<H", zlib.crc32(GZIP_WITH_HEADER_CRC) & 0xFFFF) + GZIP[10:],
        HELLO,
    ),
    "gzip: wrong header CRC": (Codec.GZIP, GZIP_WITH_HEADER_CRC + bytes(2) + GZIP[10:], None),
    "snappy: no input": (Codec.SNAPPY, b"", None),
    "snappy: raw": (Codec.SNAPPY, RAW_SNAPPY, HELLO),
    "snappy: raw and a byte more": (Codec.SNAPPY, RAW_SNAPPY + b"x", None),
    "snappy: raw and empty": (Codec.SNAPPY, b"\0", b""),
    "snappy: raw, promises 2^31-1": (Codec.SNAPPY, b"\xff\xff\xff\xff\x07" + RAW_SNAPPY[1:], None),
    "snappy: raw, promises 2^32-1": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + RAW_SNAPPY[1:], None),
    "snappy: version 0": (Codec.SNAPPY, SNAPPY[:11] + b"\0" + SNAPPY[12:], HELLO),
    "snappy: compatible version 0": (Codec.SNAPPY, SNAPPY[:15] + b"\0" + SNAPPY[16:], HELLO),
    "snappy: one letter of the magic wrong": (Codec.SNAPPY, SNAPPY[:7] + b"x" + SNAPPY[8:], None),
    "snappy: two streams": (Codec.SNAPPY, SNAPPY + SNAPPY, HELLO + HELLO),
    "snappy: an empty stream first": (Codec.SNAPPY, EMPTY_SNAPPY + SNAPPY, HELLO),
    "snappy: second header is junk": (
        Codec.SNAPPY,
        SNAPPY + SNAPPY[:4] + b"j" * 12 + SNAPPY[16:],
        HELLO + HELLO,
    ),
    "snappy: second header cut off": (Codec.SNAPPY, SNAPPY + SNAPPY[:10], None),
    "snappy: three bytes behind": (Codec.SNAPPY, SNAPPY + b"abc", HELLO),
    "snappy: cut inside the block's length": (Codec.SNAPPY, SNAPPY[:19], b""),
    "snappy: negative length": (Codec.SNAPPY, SNAPPY[:16] + b"\xff\xff\xff\xff" + RAW_SNAPPY, None),
    "snappy: block of no bytes": (Codec.SNAPPY, SNAPPY[:16] + bytes(4) + SNAPPY[16:], None),
    "snappy: block that holds nothing": (Codec.SNAPPY, SNAPPY[:16] + b"\0\0\0\x01\0" + SNAPPY[16:], HELLO),
    "snappy: length past the end": (Codec.SNAPPY, SNAPPY[:16] + b"\0\0\0\x20" + RAW_SNAPPY, None),
    "snappy: promises a byte less": (Codec.SNAPPY, SNAPPY[:20] + b"\x13" + SNAPPY[21:], None),
    "snappy: promises a byte more": (Codec.SNAPPY, SNAPPY[:20] + b"\x15" + SNAPPY[21:], None),
    "lz4: no input": (Codec.LZ4, b"", None),
    "lz4: a second frame is not looked at": (Codec.LZ4, LZ4 + LZ4, HELLO),
    "lz4: garbage behind": (Codec.LZ4, LZ4 + b"x" * 30, HELLO),
    "lz4: blocks up to 4 MiB": (Codec.LZ4, bytes.fromhex("04224d18607073") + LZ4_BLOCKS, HELLO),
    "lz4: block size code 3": (Codec.LZ4, bytes.fromhex("04224d186030d4") + LZ4_BLOCKS, None),
    "lz4: dependent blocks": (Codec.LZ4, bytes.fromhex("04224d184040c0") + LZ4_BLOCKS, None),
    "lz4: version 2": (Codec.LZ4, bytes.fromhex("04224d18a0400f") + LZ4_BLOCKS, None),
    "lz4: a dictionary": (Codec.LZ4, bytes.fromhex("04224d186140a1") + LZ4_BLOCKS, None),
    "lz4: content size that lies": (
        Codec.LZ4,
        bytes.fromhex("04224d186840ffffffffffffffffa7") + LZ4_BLOCKS,
        HELLO,
    ),
    "lz4: content checksum missing": (Codec.LZ4, bytes.fromhex("04224d186440a7") + LZ4_BLOCKS, None),
    "lz4: content checksum wrong": (Codec.LZ4, bytes.fromhex("04224d186440a7") + LZ4_BLOCKS + b"abcd", HELLO),
    "lz4: block checksum": (
        Codec.LZ4,
        bytes.fromhex("04224d187040ad") + LZ4_BLOCKS[:-4] + bytes.fromhex("fb77157b") + bytes(4),
        HELLO,
    ),
    "lz4: block checksum wrong": (
        Codec.LZ4,
        bytes.fromhex("04224d187040ad") + LZ4_BLOCKS[:-4] + b"abcd" + bytes(4),
        None,
    ),
    "lz4: stored block": (Codec.LZ4, LZ4[:7] + b"\x05\0\0\x80hello" + bytes(4), b"hello"),
    "lz4: end mark with the stored bit": (Codec.LZ4, LZ4[:7] + b"\0\0\0\x80", b""),
    "lz4: block that holds nothing": (Codec.LZ4, LZ4[:7] + b"\x01\0\0\0\0" + LZ4_BLOCKS, HELLO),
    "lz4: block above 64 KiB": (Codec.LZ4, LZ4[:7] + b"\x01\0\x01\0" + b"x" * 65537, None),
    "zstd: no input": (Codec.ZSTD, b"", b""),
    "zstd: two frames": (Codec.ZSTD, ZSTD + ZSTD, HELLO + HELLO),
    "zstd: an empty frame first": (Codec.ZSTD, EMPTY_ZSTD + ZSTD, HELLO),
    "zstd: an empty frame last": (Codec.ZSTD, ZSTD + EMPTY_ZSTD, HELLO),
    "zstd: a skippable frame first": (Codec.ZSTD, SKIPPABLE + ZSTD, HELLO),
    "zstd: a skippable frame between": (Codec.ZSTD, ZSTD + SKIPPABLE + ZSTD, HELLO + HELLO),
    "zstd: only a skippable frame": (Codec.ZSTD, SKIPPABLE, b""),
    "zstd: a skippable frame cut off": (Codec.ZSTD, SKIPPABLE[:-1], None),
    "zstd: a zero behind": (Codec.ZSTD, ZSTD + b"\0", None),
    "zstd: garbage behind": (Codec.ZSTD, ZSTD + b"x" * 30, None),
    "zstd: no magic": (Codec.ZSTD, ZSTD[4:], None),
    "zstd: a run": (Codec.ZSTD, zstd_run(10), b"a" * 10),
    "zstd: declared size": (Codec.ZSTD, zstd_run(10, header="200a"), b"a" * 10),
    "zstd: declared size a byte more": (Codec.ZSTD, zstd_run(10, header="200b"), None),
    "zstd: declared size 2^40": (Codec.ZSTD, zstd_run(10, header="e00000000000010000"), None),
    "zstd: declared size 0": (Codec.ZSTD, zstd_run(10, header="2000"), None),
    "zstd: the largest window": (Codec.ZSTD, zstd_run(10, header="0088"), b"a" * 10),
    "zstd: a window too large": (Codec.ZSTD, zstd_run(10, header="0089"), None),
    "zstd: the largest block": (Codec.ZSTD, zstd_run(128 << 10), b"a" * (128 << 10)),
    "zstd: a block too large": (Codec.ZSTD, zstd_run((128 << 10) + 1), None),
    "zstd: reserved bit": (Codec.ZSTD, zstd_run(10, header="0858"), None),
    "zstd: a dictionary": (Codec.ZSTD, zstd_run(10, header="015807"), None),
    "zstd: reserved block type": (Codec.ZSTD, bytes.fromhex("28b52ffd0058570000") + b"a", None),
}


def verdicts_on(codec: Codec) -> list[str]:
    return [name for name, (found, _, _) in VERDICTS.items() if found is codec]


def check_verdict(name: str) -> None:
    codec, stream, plain = VERDICTS[name]
    if plain is None:
        with pytest.raises((CorruptCompressionError, RecordTooLargeError)):
            decompress(codec, stream)
    else:
        assert decompress(codec, stream) == plain
