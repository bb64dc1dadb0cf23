"""The keyed hash, against the published vectors of its authors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels.decode import RECORD
from stratalog.records.kernels.hash import LANES, choose_partitions, hash_keys, murmur2, siphash128
from stratalog.records.kernels.memory import byte_array
from tests import naive_sums

KEY = bytes(range(16))
# Of the inputs "", 00, 00 01 and 00 01 .. 0e under the key 00 01 .. 0f, from the reference implementation.
VECTORS = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
}


def hashed(data: bytes, start: int, end: int, key: bytes) -> bytes:
    halves = np.frombuffer(key, "<u8")
    low, high = siphash128(byte_array(data), start, end, np.uint64(halves[0]), np.uint64(halves[1]))
    return int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")


@pytest.mark.parametrize("size", VECTORS)
def test_the_published_vectors_come_out(size: int) -> None:
    data = bytes(range(size))

    assert hashed(data, 0, size, KEY).hex() == VECTORS[size]


@pytest.mark.parametrize("size", VECTORS)
def test_the_twin_gives_the_published_vectors(size: int) -> None:
    assert naive_sums.siphash128(bytes(range(size)), KEY).hex() == VECTORS[size]


@given(st.binary(max_size=40), st.binary(min_size=16, max_size=16), st.data())
def test_any_range_under_any_key_hashes_as_the_twin_does(
    data: bytes, key: bytes, draw: st.DataObject
) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))

    assert hashed(data, start, end, key) == naive_sums.siphash128(data[start:end], key)


def test_the_keys_of_rows_are_hashed_and_a_null_key_like_an_empty_one() -> None:
    data = byte_array(b"..key1..key22")
    rows = np.zeros(3, RECORD)
    rows["key_position"] = [2, 8, 0]
    rows["key_size"] = [4, 5, -1]
    found = np.zeros((3, 2), np.uint64)
    low, high = np.frombuffer(KEY, "<u8")

    hash_keys(data, rows, np.uint64(low), np.uint64(high), found)

    expected = [naive_sums.siphash128(key, KEY) for key in (b"key1", b"key22", b"")]
    assert [row.astype("<u8").tobytes() for row in found] == expected


@given(
    st.lists(st.tuples(st.integers(-1, 40), st.integers(1, 2 * LANES + 3)), min_size=1, max_size=4),
    st.integers(0, 2**32),
)
def test_many_keys_of_one_size_hash_as_one_by_one(runs: list[tuple[int, int]], seed: int) -> None:
    sizes = np.repeat([size for size, _ in runs], [count for _, count in runs])
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, 500, dtype=np.uint8)
    rows = np.zeros(len(sizes), RECORD)
    rows["key_size"] = sizes
    rows["key_position"] = rng.integers(0, 460, len(sizes))
    found = np.full((len(sizes) + 1, 2), 7, np.uint64)
    low, high = (np.uint64(half) for half in np.frombuffer(KEY, "<u8"))

    hash_keys(data, rows, low, high, found[:-1])

    expected = [
        siphash128(
            data, int(row["key_position"]), int(row["key_position"]) + max(int(row["key_size"]), 0), low, high
        )
        for row in rows
    ]
    assert found[:-1].tolist() == [[int(half) for half in pair] for pair in expected]
    assert found[-1].tolist() == [7, 7]


with warnings.catch_warnings():
    # kafka-python loads its schemas by a function that Python 3.11 calls deprecated, and later ones do not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as theirs


# What Kafka's UtilsTest expects of Utils.murmur2.
KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KAFKAS)
def test_kafkas_own_values_come_out(key: bytes) -> None:
    assert int(murmur2(byte_array(key), 0, len(key))) == KAFKAS[key] & 0xFFFFFFFF


@given(st.binary(max_size=40), st.data())
def test_any_range_hashes_as_kafka_python_says(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))

    assert int(murmur2(byte_array(data), start, end)) == theirs(data[start:end])


def test_a_key_has_its_partition_and_a_row_without_one_keeps_what_it_had() -> None:
    out = np.array([7, 7, 7], np.int32)

    choose_partitions(
        byte_array(b"foobarabc"), np.array([0, 6, 6, 9], np.int32), np.array([True, False, True]), 5, out
    )

    assert out.tolist() == [theirs(b"foobar") % 2**31 % 5, 7, theirs(b"abc") % 2**31 % 5]
