"""The walk over batches, against the slow one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.build import Record, build_batch
from stratalog.records.kernels import walk as kernel
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import WalkStop, new_table
from tests import naive
from tests.records.strategies import Encoded, damaged, logs

ONE_V0 = bytes.fromhex("00000000000000000000001875f0f41d0000000000046b6579310000000676616c756531")
EMPTY_V2 = bytes.fromhex(
    "000000000000000500000031000000030286bdc1fb000000000002ffffffffffffffff00000000000003e8"
    "000000000000000700000000000400000000"
)

UNBOUNDED = 2**62


def walked(data: bytes, *, rows: int = 64, check_crc: bool = True) -> tuple[list[naive.Batch], int, str]:
    """The kernel's answer in the twin's words."""
    table = new_table(rows)
    count, position, stop = kernel.walk(byte_array(data), 0, len(data), table, check_crc, UNBOUNDED)
    found = [naive.Batch._make(table[field][i].item() for field in naive.Batch._fields) for i in range(count)]
    return found, position, WalkStop(stop).name


@given(logs())
def test_every_batch_is_found_as_the_twin_finds_it(log: Encoded) -> None:
    assert walked(log.data) == naive.walk(log.data)


@given(logs(), st.data())
def test_damaged_bytes_are_walked_as_the_twin_walks_them(log: Encoded, draw: st.DataObject) -> None:
    data = draw.draw(damaged(log.data))

    assert walked(data) == naive.walk(data)


@given(logs(), st.data())
def test_without_checksums_damaged_bytes_are_walked_alike_too(log: Encoded, draw: st.DataObject) -> None:
    data = draw.draw(damaged(log.data))

    assert walked(data, check_crc=False) == naive.walk(data, check_crc=False)


@given(st.binary(max_size=100))
def test_bytes_without_sense_are_walked_alike(data: bytes) -> None:
    assert walked(data) == naive.walk(data)


def test_a_cut_anywhere_in_the_last_batch_is_a_torn_tail() -> None:
    whole = ONE_V0 + EMPTY_V2

    for size in range(len(ONE_V0) + 1, len(whole)):
        found, position, stop = walked(whole[:size])
        assert (len(found), position, stop) == (1, len(ONE_V0), "TORN_TAIL"), size


def test_a_table_with_too_few_rows_is_filled_and_the_walk_goes_on_from_there() -> None:
    data, table = byte_array(ONE_V0 * 5), new_table(2)
    positions, start, stop = [], 0, kernel.FULL
    while stop == kernel.FULL:
        count, start, stop = kernel.walk(data, start, len(data), table, True, UNBOUNDED)
        positions += table["position"][:count].tolist()

    assert positions == [len(ONE_V0) * i for i in range(5)]
    assert (start, stop) == (len(data), kernel.END)


def test_a_range_inside_the_buffer_is_walked_and_nothing_around_it() -> None:
    data = byte_array(b"\xff" * 7 + ONE_V0 + b"\xff" * 40)
    table = new_table(4)

    answer = kernel.walk(data, 7, 7 + len(ONE_V0), table, True, UNBOUNDED)

    assert answer == (1, 7 + len(ONE_V0), kernel.END)
    assert table["position"][0] == 7


def test_a_walk_ends_with_the_batch_that_brings_it_to_its_bound() -> None:
    data, table = byte_array(ONE_V0 * 5), new_table(8)

    answer = kernel.walk(data, 0, len(data), table, True, len(ONE_V0) + 1)

    assert answer == (2, 2 * len(ONE_V0), kernel.FULL)


@pytest.mark.parametrize(("magic", "shortest"), [(0, 14), (1, 22), (2, 49)])
def test_the_shortest_length_of_each_magic_is_kept(magic: int, shortest: int) -> None:
    def entry(length: int) -> bytes:
        return bytes(8) + length.to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(60)

    assert walked(entry(shortest - 1), check_crc=False)[2] == "BAD_LENGTH"
    assert len(walked(entry(shortest), check_crc=False)[0]) == 1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_that_no_batch_has_is_bad(length: int) -> None:
    data = bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(100)

    assert walked(data) == ([], 0, "BAD_LENGTH")


@pytest.mark.parametrize("length", [100, 2**31 - 13, 2**31 - 1])
def test_a_length_past_the_end_is_a_torn_tail_however_large(length: int) -> None:
    data = bytes(8) + length.to_bytes(4, "big") + bytes(50)

    assert walked(data) == ([], 0, "TORN_TAIL")


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_bad(magic: int) -> None:
    data = bytes(8) + (60).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(60)

    assert walked(data) == ([], 0, "BAD_MAGIC")


def headers_of(log: Encoded) -> kernel.BatchTable:
    table = new_table(64)
    count, _, _ = kernel.walk(byte_array(log.data), 0, len(log.data), table, True, UNBOUNDED)
    return table[:count]


@given(logs(), st.data(), st.booleans())
def test_batches_are_chosen_as_the_twin_chooses_them(log: Encoded, draw: st.DataObject, drop: bool) -> None:
    batches, _, _ = naive.walk(log.data)
    ends = st.sampled_from([each.base_offset for each in batches] + [each.last_offset for each in batches])
    first, last = sorted([draw.draw(ends), draw.draw(ends)]) if batches else (0, 0)
    keep = np.zeros(len(batches), np.bool_)

    count = kernel.choose(headers_of(log), first, last, drop, keep)

    assert keep.tolist() == [
        each.last_offset >= first
        and (each.magic < 2 or (each.base_offset <= last and not (drop and each.attributes & 0x20)))
        for each in batches
    ]
    assert count == keep.sum()


@given(logs(), st.integers(-2, 3))
def test_batches_ascend_or_they_do_not(log: Encoded, before: int) -> None:
    batches, _, _ = naive.walk(log.data)
    for headers in (headers_of(log), headers_of(log)[::-1].copy()):
        bases, lasts = headers["base_offset"].tolist(), headers["last_offset"].tolist()
        previous = [bases[0] + before, *lasts[:-1]] if batches else []

        is_ascending, seen = kernel.ascend(headers, previous[0] if previous else 7)

        assert is_ascending == all(base > last for base, last in zip(bases, previous, strict=True))
        assert seen == (lasts[-1] if batches else 7)


@given(logs())
def test_the_facts_of_a_run_are_those_of_its_headers(log: Encoded) -> None:
    batches, _, _ = naive.walk(log.data)
    types = {-1 if each.magic == 0 else each.attributes >> 3 & 1 for each in batches}

    assert kernel.run_facts(headers_of(log)) == (
        sum(max(each.records_count, 0) for each in batches),
        types.pop() if len(types) == 1 else kernel.MIXED,
    )


@pytest.mark.parametrize("value_size", [1, 100, 20_000])
def test_the_time_for_plain_python_follows_from_the_number_of_batches(value_size: int) -> None:
    batch = build_batch([Record(0, 1, b"k", bytes(value_size))])
    data = byte_array(batch * 200)

    found = kernel.plain_us(data, 0, data.size)

    assert 200 * 50 < found < 200 * 150
    assert kernel.plain_us(data, len(batch), len(batch)) < 150
    assert kernel.plain_us(byte_array(bytes(1000)), 0, 1000) < 1000 * 50
