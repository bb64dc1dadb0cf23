"""Copies into Arrow's buffers: the right bytes, and not one beside them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.compression import Codec
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.gather import (
    KEY,
    VALUE,
    gather,
    gather_headers,
    gather_micros,
    gather_offsets,
    gather_plain,
)
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.walk import walk_batches
from tests.records.strategies import Encoded, v2_batches

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
CANARY = 0xA5


def rows_of(batch: Encoded) -> decoding.RecordTable:
    table = np.zeros(32, decoding.RECORD)
    headers = walk_batches(batch.data).headers
    data = byte_array(batch.data)
    count, _, _ = decoding.decode(data, headers, table, (0, 0, 0), INT64_MAX, INT64_MIN, INT64_MAX)
    return table[:count]


def guarded(size: int) -> Bytes:
    """`size` bytes to write to, followed by eight that must not change."""
    return np.full(size + 8, CANARY, np.uint8)


def untouched(buffer: Bytes) -> bool:
    return bool((buffer[-8:] == CANARY).all())


def bits(validity: Bytes, count: int) -> list[bool]:
    return np.unpackbits(validity, bitorder="little")[:count].astype(bool).tolist()


def slices(data: Bytes, ends: np.ndarray) -> list[bytes]:
    return [data[start:end].tobytes() for start, end in pairwise(ends)]


@given(v2_batches(codec=Codec.NONE), st.sampled_from([KEY, VALUE]))
def test_keys_and_values_come_with_their_ends_and_nulls(batch: Encoded, which: int) -> None:
    rows = rows_of(batch)
    wanted = [record.key if which == KEY else record.value for record in batch.records]
    ends = np.zeros(len(rows) + 1, np.int32)
    out, validity = guarded(sum(len(piece or b"") for piece in wanted)), guarded(-(-len(rows) // 8))

    nulls = gather(byte_array(batch.data), rows, which, ends, out, validity)

    assert slices(out, ends) == [piece or b"" for piece in wanted]
    assert bits(validity, len(rows)) == [piece is not None for piece in wanted]
    assert nulls == wanted.count(None)
    assert untouched(out)
    assert untouched(validity)


@given(v2_batches(codec=Codec.NONE), st.booleans(), st.booleans())
def test_keys_and_values_come_together_unless_one_is_null(
    batch: Encoded, with_offsets: bool, with_times: bool
) -> None:
    rows = rows_of(batch)
    pairs = [(record.key, record.value) for record in batch.records]
    sizes = [sum(len(pair[which] or b"") for pair in pairs) for which in (KEY, VALUE)]
    (keys, values), ends = (guarded(size) for size in sizes), np.zeros((2, len(rows) + 1), np.int32)
    offsets, micros = (np.full(len(rows) if each else 0, -7, np.int64) for each in (with_offsets, with_times))

    complete = gather_plain(
        byte_array(batch.data), rows, ends[KEY], keys, ends[VALUE], values, offsets, micros
    )

    assert complete == all(key is not None and value is not None for key, value in pairs)
    if complete:
        assert list(zip(slices(keys, ends[KEY]), slices(values, ends[VALUE]), strict=True)) == pairs
        assert offsets.tolist() == [record.offset for record in batch.records if with_offsets]
        times = np.zeros(len(rows), np.int64)
        gather_micros(rows, times)
        assert micros.tolist() == (times.tolist() if with_times else [])
    assert untouched(keys)
    assert untouched(values)


@given(v2_batches(codec=Codec.NONE))
def test_offsets_come_in_order(batch: Encoded) -> None:
    rows = rows_of(batch)
    out = np.zeros(len(rows), np.int64)

    gather_offsets(rows, out)

    assert out.tolist() == [record.offset for record in batch.records]


@given(v2_batches(codec=Codec.NONE))
def test_headers_come_with_their_ends_and_nulls(batch: Encoded) -> None:
    rows = rows_of(batch)
    pairs = [pair for record in batch.records for pair in record.headers]
    _, _, count, size = decoding.sums(rows)
    ends, key_ends, value_ends = (np.zeros(n + 1, np.int32) for n in (len(rows), count, count))
    keys, values = guarded(size), guarded(size)
    validity, value_validity = guarded(-(-len(rows) // 8)), guarded(-(-count // 8))

    bare, nulls, ascii_keys = gather_headers(
        byte_array(batch.data),
        rows,
        ends,
        validity[:-8],
        key_ends,
        keys,
        value_ends,
        values,
        value_validity[:-8],
    )

    counts = [len(record.headers) for record in batch.records]
    assert np.diff(ends).tolist() == counts
    assert slices(keys, key_ends) == [key.encode() for key, _ in pairs]
    assert slices(values, value_ends) == [value or b"" for _, value in pairs]
    assert bits(validity, len(rows)) == [count > 0 for count in counts]
    assert bits(value_validity, count) == [value is not None for _, value in pairs]
    assert (bare, nulls) == (counts.count(0), [value for _, value in pairs].count(None))
    assert bool(ascii_keys) == all(key.isascii() for key, _ in pairs)
    assert all(untouched(buffer) for buffer in (keys, values, validity, value_validity))


@pytest.mark.parametrize(
    ("milliseconds", "microseconds"),
    [
        (0, 0),
        (-1, -1000),
        (1_700_000_000_001, 1_700_000_000_001_000),
        (INT64_MAX, INT64_MAX // 1000 * 1000),
        (INT64_MIN, -(INT64_MAX // 1000) * 1000),
    ],
)
def test_milliseconds_become_microseconds_and_stop_at_the_edge(milliseconds: int, microseconds: int) -> None:
    rows, out = np.zeros(1, decoding.RECORD), np.zeros(1, np.int64)
    rows["timestamp"] = milliseconds

    gather_micros(rows, out)

    assert out.tolist() == [microseconds]
