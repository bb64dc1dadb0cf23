"""The codecs together, with the streams in `codecs/streams.py`, and against hostile input."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
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
from tests.records.codecs.streams import (
    COMPRESSED,
    EMPTY_BY_KAFKA,
    EMPTY_GZIP,
    EMPTY_SNAPPY,
    EMPTY_ZSTD,
    HELLO,
    HELLO_BY_KAFKA,
    LZ4,
    LZ4_BLOCKS,
    SNAPPY,
    gzip_header,
    zstd_run,
)

MIB = 1 << 20


@pytest.mark.parametrize("codec", COMPRESSED)
def test_what_kafka_compressed_is_read(codec: Codec) -> None:
    assert decompress(codec, HELLO_BY_KAFKA[codec]) == HELLO
    assert decompress(codec, EMPTY_BY_KAFKA[codec]) == b""


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_stream_cut_anywhere_is_refused(codec: Codec) -> None:
    stream = HELLO_BY_KAFKA[codec]
    # A xerial stream that is cut after its header or inside the next length just ends there, as in Kafka.
    unseen = range(16, 20) if codec is Codec.SNAPPY else [0] if codec is Codec.ZSTD else []

    for size in range(len(stream)):
        if size not in unseen:
            with pytest.raises(CorruptCompressionError):
                decompress(codec, stream[:size])


def test_streams_are_written_as_kafka_writes_them() -> None:
    assert compress(Codec.SNAPPY, HELLO) == SNAPPY
    assert compress(Codec.LZ4, HELLO) == LZ4
    assert compress(Codec.LZ4, HELLO, magic=0) == bytes.fromhex("04224d1860401a") + LZ4_BLOCKS
    assert compress(Codec.LZ4, b"\x01") == bytes.fromhex("04224d18604082010000800100000000")
    for codec in COMPRESSED:
        assert compress(codec, b"") == EMPTY_BY_KAFKA[codec]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_without_meaning_is_refused(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionTypeError, match=f"codec {codec};"):
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
from tests.records.codecs.streams import VERDICTS
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (600 << 20), resource.RLIM_INFINITY))
for codec, stream in [*t.BOMBS.values(), *((codec, stream) for codec, stream, _ in VERDICTS.values())]:
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
        # The last byte is next to a forbidden page: a library that reads past it kills this process.
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
