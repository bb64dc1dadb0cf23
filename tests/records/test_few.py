"""A few records in plain Python: the bytes of the kernel and of the slow twin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidBatchError
from stratalog.records import build
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.few import MOST_RECORDS, build_one, encode_few, is_few
from tests import naive
from tests.records.strategies import as_naive, fields, records

INT64_MAX = 2**63 - 1
OPTIONS = [
    BatchOptions(),
    BatchOptions(codec=Codec.GZIP, partition_leader_epoch=7),
    BatchOptions(log_append_time=99),
    BatchOptions(delete_horizon_ms=1000),
    BatchOptions(producer_id=5, producer_epoch=6, base_sequence=7, is_transactional=True),
]


def by_kernel(made: list[Record], options: BatchOptions) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "is_few", lambda _: False)
        return build_batch(made, options)


@given(records(max_size=MOST_RECORDS), st.sampled_from(OPTIONS))
def test_a_few_records_give_the_bytes_that_the_kernel_gives(
    made: list[Record], options: BatchOptions
) -> None:
    assert build_batch(made, options) == by_kernel(made, options)


@given(records(max_size=MOST_RECORDS))
def test_a_section_is_the_twins_byte_for_byte(made: list[Record]) -> None:
    base_offset, base_timestamp = made[0].offset, made[0].timestamp

    assert encode_few(made, base_offset, base_timestamp) == naive.encode_records(
        map(as_naive, made), base_offset=base_offset, base_timestamp=base_timestamp
    )


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 127, 128, 8191, 8192, 1 << 20])
def test_sizes_at_the_edges_of_a_varint_are_encoded_as_by_the_kernel(size: int) -> None:
    made = [Record(3, 5, b"k" * size, b"v" * size, (("h" * size, b"c" * size), ("", None)))]

    assert build_batch(made) == by_kernel(made, BatchOptions())


@given(st.integers(0, INT64_MAX), fields, fields)
def test_one_record_makes_the_batch_that_the_kernel_makes(
    timestamp: int, key: bytes | None, value: bytes | None
) -> None:
    made = [Record(0, timestamp, key, value)]

    assert build_one(timestamp, key, value) == by_kernel(made, BatchOptions())


@pytest.mark.parametrize("size", [0, 1, 58, 59, 60, 63, 64, 127, 8191, 8192, 1 << 20])
def test_one_record_of_any_size_makes_the_batch_that_the_kernel_makes(size: int) -> None:
    for key, value in ((None, b"v" * size), (b"k" * size, None), (b"k" * size, b"v" * size)):
        assert build_one(5, key, value) == by_kernel([Record(0, 5, key, value)], BatchOptions())


@pytest.mark.parametrize(
    "made",
    [
        [],
        [Record(offset, 5) for offset in range(MOST_RECORDS + 1)],
        [Record(1, 5), Record(1, 5)],
        [Record(-1, 5)],
        [Record(0, -1)],
        [Record(0, -2)],
        [Record(INT64_MAX + 1, 5)],
        [Record(0, INT64_MAX + 1)],
        [Record(True, 5)],
    ],
)
def test_other_records_are_left_to_the_kernel(made: list[Record]) -> None:
    assert not is_few(made)


@pytest.mark.parametrize("made", [[Record(0, 5), Record(2**31, 5)], [Record(0, INT64_MAX + 1)]])
def test_what_does_not_fit_a_batch_is_refused_as_by_the_kernel(made: list[Record]) -> None:
    with pytest.raises(InvalidBatchError) as found:
        build_batch(made)
    with pytest.raises(InvalidBatchError) as expected:
        by_kernel(made, BatchOptions())

    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("horizon", [0, INT64_MAX])
def test_the_widest_difference_of_timestamps_is_encoded_as_by_the_kernel(horizon: int) -> None:
    options = BatchOptions(delete_horizon_ms=horizon)
    made = [Record(0, 0), Record(1, INT64_MAX), Record(2, 5)]

    assert build_batch(made, options) == by_kernel(made, options)
