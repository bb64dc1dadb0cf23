"""The codecs against bytes and verdicts of Kafka 4.3.1 on JDK 17, and against whoever means harm.

The streams below were written by Kafka's own `Compression` classes. What they and their damaged relatives
decode to, or that they do not, is what the same classes answered, unless a test says otherwise.
"""

from __future__ import annotations

import random
import resource
import struct
import subprocess
import sys
import threading
import zlib
from contextlib import suppress
from pathlib import Path

import cramjam
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from stratalog.errors import (
    CorruptCompressionError,
    CorruptRecordError,
    InvalidBatchError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
from stratalog.records.compression import Codec, Scratch, compress, decompress, decompress_into
from tests import profile
from tests.guarded import GuardedBuffer

HELLO = b"hellohellohellohello"
MIB = 1 << 20

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


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_kafka_compressed_is_read(codec: Codec) -> None:
    assert decompress(codec, HELLO_BY_KAFKA[codec]) == HELLO
    assert decompress(codec, EMPTY_BY_KAFKA[codec]) == b""


@pytest.mark.parametrize("name", VERDICTS)
def test_a_stream_is_read_or_refused_as_by_kafka(name: str) -> None:
    codec, stream, plain = VERDICTS[name]

    if plain is None:
        with pytest.raises((CorruptCompressionError, RecordTooLargeError)):
            decompress(codec, stream)
    else:
        assert decompress(codec, stream) == plain


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_stream_cut_anywhere_is_refused(codec: Codec) -> None:
    stream = HELLO_BY_KAFKA[codec]
    # A xerial stream cut behind its header or inside the next length just ends there, for Kafka too.
    unseen = range(16, 20) if codec is Codec.SNAPPY else [0] if codec is Codec.ZSTD else []

    for size in range(len(stream)):
        if size not in unseen:
            with pytest.raises(CorruptCompressionError):
                decompress(codec, stream[:size])


def test_a_cut_second_zstd_frame_is_refused_though_zstd_jni_reads_on() -> None:
    for size in range(1, len(ZSTD)):
        with pytest.raises(CorruptCompressionError):
            decompress(Codec.ZSTD, ZSTD + ZSTD[:size])


@pytest.mark.parametrize("header", ["04224d18604082", "04224d1860401a", "04224d18604000"])
def test_the_lz4_header_checksum_counts_from_magic_1_on(header: str) -> None:
    stream = bytes.fromhex(header) + LZ4_BLOCKS
    right = header.endswith("82")

    assert decompress(Codec.LZ4, stream, magic=0) == HELLO
    for magic in (1, 2):
        if right:
            assert decompress(Codec.LZ4, stream, magic=magic) == HELLO
        else:
            with pytest.raises(CorruptCompressionError, match="checksum"):
                decompress(Codec.LZ4, stream, magic=magic)


def test_streams_are_written_as_kafka_writes_them() -> None:
    assert compress(Codec.SNAPPY, HELLO) == SNAPPY
    assert compress(Codec.LZ4, HELLO) == LZ4
    assert compress(Codec.LZ4, HELLO, magic=0) == bytes.fromhex("04224d1860401a") + LZ4_BLOCKS
    assert compress(Codec.LZ4, b"\x01") == bytes.fromhex("04224d18604082010000800100000000")
    for codec in COMPRESSED:
        assert compress(codec, b"") == EMPTY_BY_KAFKA[codec]


def test_gzip_is_written_with_javas_header_and_read_by_zlib() -> None:
    stream = compress(Codec.GZIP, HELLO)

    assert stream[:10] == GZIP[:10]
    assert zlib.decompress(stream, wbits=31) == HELLO


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_without_meaning_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionTypeError, match=f"codec {codec} "):
        decompress_into(codec, memoryview(b"x"), Scratch(), limit=MIB)
    with pytest.raises(UnsupportedCompressionTypeError):
        Codec.from_attributes(0x38 | codec)
    with pytest.raises(UnsupportedCompressionTypeError):
        compress(codec, b"x")


def test_the_codec_is_in_the_low_bits_of_the_attributes() -> None:
    assert Codec.from_attributes(0x78 | 4) is Codec.ZSTD
    assert [codec.kafka_name for codec in Codec] == ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.NONE, 1),
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.SNAPPY, 1),
        (Codec.LZ4, 0),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
    ],
)
def test_a_level_that_kafka_refuses_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(InvalidBatchError, match=f"no compression level {level}"):
        compress(codec, HELLO, level=level)


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, -1),
        (Codec.GZIP, 9),
        (Codec.LZ4, 1),
        (Codec.LZ4, 9),
        (Codec.LZ4, 17),
        (Codec.ZSTD, -50),
        (Codec.ZSTD, 19),
    ],
)
def test_every_level_is_read_back(codec: Codec, level: int) -> None:
    data = b"".join(b'{"n": %d}' % n for n in range(5000))

    assert decompress(codec, compress(codec, data, level=level)) == data


@given(data=st.binary(max_size=300), repeat=st.integers(0, 800), codec=st.sampled_from(list(Codec)))
def test_what_is_compressed_comes_back(data: bytes, repeat: int, codec: Codec) -> None:
    plain = data * repeat

    assert decompress(codec, compress(codec, plain)) == plain


@given(data=st.binary(max_size=300), repeat=st.integers(1, 800))
def test_the_libraries_read_what_is_written(data: bytes, repeat: int) -> None:
    plain = data * repeat

    assert zlib.decompress(compress(Codec.GZIP, plain), wbits=31) == plain
    assert bytes(cramjam.lz4.decompress(compress(Codec.LZ4, plain))) == plain
    assert zstandard.decompress(compress(Codec.ZSTD, plain), max_output_size=1 + len(plain)) == plain


def test_plain_bytes_stand_behind_what_is_used_and_growing_keeps_them() -> None:
    scratch = Scratch(4096)
    data = b"".join(b"%08d" % n for n in range(50_000))
    scratch.view[:5] = b"first"
    scratch.used = 5

    for codec in Codec:
        size = decompress_into(codec, memoryview(compress(codec, data)), scratch, limit=len(data))

        assert scratch.used == 5
        assert bytes(scratch.array[: 5 + size]) == b"first" + data


def test_a_scratch_starts_on_a_page_and_is_not_replaced_while_it_is_large_enough() -> None:
    scratch = Scratch(MIB)
    array = scratch.array

    decompress_into(Codec.LZ4, memoryview(compress(Codec.LZ4, bytes(MIB // 2))), scratch, limit=MIB)

    assert scratch.array is array
    assert array.ctypes.data % 4096 == 0
    assert array.size == MIB


def test_many_blocks_and_frames_are_put_together() -> None:
    data = random.Random(4).randbytes(3 * MIB) + bytes(3 * MIB)

    for codec in COMPRESSED:
        stream = compress(codec, data)
        assert decompress(codec, stream) == data
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        assert decompress(codec, compress(codec, data) + compress(codec, HELLO)) == data + HELLO


@pytest.mark.parametrize("codec", list(Codec))
def test_the_limit_is_the_most_that_is_read(codec: Codec) -> None:
    for data in (HELLO, bytes(3 * MIB)):
        stream = compress(codec, data)

        assert decompress(codec, stream, limit=len(data)) == data
        with pytest.raises(RecordTooLargeError):
            decompress(codec, stream, limit=len(data) - 1)


def test_the_limit_counts_all_members_and_frames_together() -> None:
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.ZSTD):
        stream = HELLO_BY_KAFKA[codec] * 3

        assert len(decompress(codec, stream, limit=60)) == 60
        with pytest.raises(RecordTooLargeError):
            decompress(codec, stream, limit=59)


# Each holds or promises gigabytes; the plain size of the last three is only known by decoding them.
BOMBS = {
    "gzip": (Codec.GZIP, compress(Codec.GZIP, bytes(16 * MIB)) * 256),
    "snappy promise": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(1000)),
    "snappy blocks": (Codec.SNAPPY, EMPTY_SNAPPY + compress(Codec.SNAPPY, bytes(MIB))[16:] * 4096),
    "zstd promise": (Codec.ZSTD, zstd_run(10, header="a0000000ff")),
    "zstd runs": (Codec.ZSTD, zstd_run(128 << 10, count=32768)),
    "zstd frames": (Codec.ZSTD, zstd_run(128 << 10) * 32768),
    "lz4": (Codec.LZ4, LZ4[:7] + compress(Codec.LZ4, bytes(64 << 10))[7:-4] * 65536 + bytes(4)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_stops_at_the_limit_and_costs_little_memory(name: str) -> None:
    codec, stream = BOMBS[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(RecordTooLargeError):
        decompress(codec, stream, limit=8 * MIB)

    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads its own size from /proc")
def test_no_stream_is_believed_to_need_the_address_space_it_promises() -> None:
    # With 600 MB of address space a promise that is believed is a MemoryError, not an error of ours.
    script = """
import resource
from stratalog.errors import CorruptRecordError
from stratalog.records.compression import decompress
import tests.records.test_compression as t
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20), resource.RLIM_INFINITY))
for codec, stream in [*t.BOMBS.values(), *((codec, stream) for codec, stream, _ in t.VERDICTS.values())]:
    try:
        decompress(codec, stream, limit=64 << 20)
    except CorruptRecordError:
        pass
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2])


def test_a_stream_of_many_tiny_members_takes_no_quadratic_time() -> None:
    named = gzip_header(8, b"n\0") + EMPTY_GZIP[10:]

    assert decompress(Codec.GZIP, named * 20_000) == b""
    assert decompress(Codec.SNAPPY, EMPTY_SNAPPY * 20_000) == b""
    assert decompress(Codec.ZSTD, EMPTY_ZSTD * 20_000) == b""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damaged_streams_raise_our_errors_only_and_harm_no_later_one(codec: Codec) -> None:
    chance = random.Random(f"damage {codec.name}")
    plain = b"".join(b'{"user": %d, "event": "click"}' % chance.randrange(1000) for _ in range(200))
    whole = compress(codec, plain)
    scratch = Scratch(4096)
    guard = GuardedBuffer(len(whole) + 64).behind
    edges = [0, 1, 0x7F, 0x80, 0xFF]

    for _ in range(profile.examples(20_000, quick=1000)):
        stream = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            # Half of the damage hits the framing at the front, which most of the stream is not.
            at = chance.randrange(min(32, len(stream)) if chance.random() < 0.5 else len(stream))
            match chance.randrange(4):
                case 0:
                    stream[at] ^= 1 << chance.randrange(8)
                case 1:
                    stream[at] = chance.choice(edges)
                case 2:
                    del stream[at : at + chance.randint(1, 8)]
                case 3:
                    stream[at:at] = chance.randbytes(chance.randint(1, 8))
            if not stream:
                break
        # The last byte lies against a forbidden page: a library that reads past it kills this process.
        guarded = guard[guard.size - len(stream) :]
        guarded[:] = np.frombuffer(stream, dtype=np.uint8)
        with suppress(CorruptRecordError):
            assert decompress_into(codec, guarded.data, scratch, limit=MIB) <= MIB

    size = decompress_into(codec, memoryview(whole), scratch, limit=MIB)
    assert bytes(scratch.view[:size]) == plain


@settings(max_examples=50)
@given(data=st.binary(max_size=200), codec=st.sampled_from(COMPRESSED), magic=st.integers(0, 2))
def test_arbitrary_bytes_raise_our_errors_only(data: bytes, codec: Codec, magic: int) -> None:
    with suppress(CorruptRecordError):
        assert len(decompress(codec, data, magic=magic, limit=MIB)) <= MIB


def test_threads_with_their_own_scratch_do_not_disturb_each_other() -> None:
    texts = [b"".join(b"%d:%d," % (seed, n) for n in range(3000)) for seed in range(4)]
    wrong: list[int] = []

    def work(seed: int) -> None:
        scratch = Scratch(4096)
        for _ in range(40):
            for codec in COMPRESSED:
                stream = memoryview(compress(codec, texts[seed], level=None))
                size = decompress_into(codec, stream, scratch, limit=MIB)
                if scratch.view[:size] != texts[seed]:
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []
