"""The hash by which producers choose a partition, against Kafka's own values and kafka-python's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels.hash import choose_partitions, murmur2
from stratalog.records.kernels.memory import byte_array

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
