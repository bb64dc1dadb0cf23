"""A batch of values, against the one that is built from columns and the slow twin's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidBatchError
from stratalog.records import values as module
from stratalog.records.build import Record, build_batch, columns_of
from stratalog.records.kernels.encode import NEEDS_ROOM, VALUE_OVERHEAD, encode_values
from stratalog.records.values import build_values
from tests import naive
from tests.records.strategies import as_naive

INT64_MAX = 2**63 - 1
lists = st.lists(st.binary(max_size=9) | st.binary(min_size=60, max_size=150), min_size=1, max_size=150)


@given(lists, st.integers(0, INT64_MAX))
def test_values_make_the_batch_of_the_same_columns(values: list[bytes], timestamp: int) -> None:
    assert build_values(values, timestamp).tobytes() == build_batch(columns_of(values, None, timestamp))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 1 << 20])
def test_sizes_at_the_edges_of_a_varint(size: int) -> None:
    values = [b"v" * size, b"", b"w" * size]

    assert build_values(values, 5).tobytes() == build_batch(columns_of(values, None, 5))


def test_many_values_have_offsets_of_more_than_one_byte() -> None:
    values = [b"%d" % number for number in range(20_000)]

    assert build_values(values, 5).tobytes() == build_batch(columns_of(values, None, 5))


@given(lists)
def test_the_records_are_the_twins_byte_for_byte(values: list[bytes]) -> None:
    records = [as_naive(Record(offset, 7, None, value)) for offset, value in enumerate(values)]

    section = build_values(values, 7)[61:].tobytes()

    assert section == naive.encode_records(records, base_offset=0, base_timestamp=7)


def test_more_than_a_batch_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INT32_MAX", 1000)

    with pytest.raises(InvalidBatchError, match="too much for one batch"):
        build_values([bytes(1000)], 5)


@pytest.mark.parametrize(
    ("sizes", "values_size", "room"),
    [
        ([2, 2], 3, 100),
        ([-1, 2], 9, 100),
        ([2**62, 2**62, 2**62], 9, 100),
        ([2, 2], 4, 4 + 2 * VALUE_OVERHEAD - 1),
    ],
)
def test_sizes_that_do_not_fit_the_arrays_write_nothing(
    sizes: list[int], values_size: int, room: int
) -> None:
    out = np.zeros(room + 3, np.uint8)

    end = encode_values(np.zeros(values_size, np.uint8), np.array(sizes, np.int64), out, 3)

    assert (end, out.any()) == (NEEDS_ROOM, False)
