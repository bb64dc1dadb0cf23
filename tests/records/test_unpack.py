"""Batches of any codec and format, made readable in one array."""

from __future__ import annotations

import numpy as np

from stratalog.errors import CorruptCompressionError
from stratalog.records.compression import Codec, Scratch, compress
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.unpack import Run, next_run
from stratalog.records.walk import walk_batches
from tests import naive
from tests.naive import Record, encode_batch, encode_message

MIB = 1 << 20


def walked(data: bytes) -> tuple[Bytes, BatchTable]:
    array = byte_array(data)
    return array, walk_batches(array).headers


def batch(offset: int, value: bytes, codec: Codec) -> bytes:
    return encode_batch(
        [Record(offset, 0, b"k", value)], attributes=codec, compress=lambda plain: compress(codec, plain)
    )


def section(run: Run, index: int) -> bytes:
    row = run.batches[index]
    return bytes(run.data[row["records_position"] : row["records_end"]])


def plain_section(offset: int, value: bytes) -> bytes:
    return naive.encode_records([Record(offset, 0, b"k", value)], base_offset=offset, base_timestamp=0)


def test_batches_without_a_codec_stay_where_they_are() -> None:
    data, headers = walked(batch(0, b"a", Codec.NONE) + batch(1, b"b", Codec.NONE))

    run = next_run(data, headers, 0, Scratch(), MIB)

    assert run.data is data
    assert [section(run, 0), section(run, 1)] == [plain_section(0, b"a"), plain_section(1, b"b")]


def test_where_one_is_compressed_all_of_a_run_come_to_the_scratch() -> None:
    data, headers = walked(batch(0, b"a", Codec.NONE) + batch(1, b"b" * 99, Codec.LZ4))
    scratch = Scratch()

    run = next_run(data, headers, 0, scratch, MIB)

    assert np.shares_memory(run.data, scratch.array)
    assert [section(run, 0), section(run, 1)] == [plain_section(0, b"a"), plain_section(1, b"b" * 99)]


def test_a_run_ends_where_the_format_changes() -> None:
    old = encode_message(Record(0, -1, b"k", b"v"), magic=1)
    data, headers = walked(old + batch(1, b"b", Codec.NONE))

    first, second = (next_run(data, headers, start, Scratch(), MIB) for start in (0, 1))

    assert (first.is_legacy, len(first.batches)) == (True, 1)
    assert (second.is_legacy, len(second.batches)) == (False, 1)


def test_a_stream_that_cannot_be_read_is_the_problem_behind_the_run() -> None:
    good = batch(0, b"a" * 99, Codec.ZSTD)
    bad = encode_batch([Record(1, 0, b"k", b"v")], attributes=Codec.ZSTD, compress=lambda _: b"no stream")
    data, headers = walked(good + bad)

    run = next_run(data, headers, 0, Scratch(), MIB)

    assert len(run.batches) == 1
    assert isinstance(run.problem, CorruptCompressionError)
    assert run.problem.position == len(good)
