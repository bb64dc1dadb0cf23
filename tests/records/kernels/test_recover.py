"""One pass over a piece of a segment: checksums of several batches side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.kernels import recover as kernel
from stratalog.segment.scan import ScanStop, SegmentScan
from tests.segment.making import records
from tests.segment.scanning import scan_of


@pytest.mark.parametrize("damaged", range(9))
def test_a_flipped_bit_is_found_among_batches_summed_side_by_side(tmp_path: Path, damaged: int) -> None:
    """Behind what fills the kernel's table: small batches in threes, and large ones between them."""
    lead = [records(offset, "hello") for offset in range(kernel.ROWS)]
    words = (1, 2, 3, 600, 3, 1, 700, 4, 5)
    batches = [records(len(lead) + number, "hello" * count) for number, count in enumerate(words)]
    before = sum(map(len, [*lead, *batches[:damaged]]))
    bad = bytearray(batches[damaged])
    bad[-1] ^= 4
    batches[damaged] = bytes(bad)

    found = scan_of(tmp_path, *lead, *batches)

    end = len(lead) + damaged
    assert (found.stop, found.valid_size, found.next_offset) == (ScanStop.WRONG_CRC, before, end)
    assert found.batches_count == end


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("offset", [9, 10 + 2**31, 2**63 - 1, -(2**63), -1])
def test_an_offset_out_of_reach_is_found_among_three_batches(
    tmp_path: Path, number: int, offset: int
) -> None:
    """No entry is due, so the batches are taken three at once; one of them is below the base or far above."""
    batches = [records(10 + 2 * place, "hello") for place in range(6)]
    batches[number] = offset.to_bytes(8, "big", signed=True) + batches[number][8:]

    found = scan_of(tmp_path, *batches, base_offset=10, interval=10**6)

    assert (found.stop, found.batches_count) == (ScanStop.OFFSET_OVERFLOW, number)
    assert found.valid_size == sum(map(len, batches[:number]))
    assert found.next_offset == (10 + 2 * number - 1 if number else 10)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("offset", [10, 10 + 2**31 - 1])
def test_the_least_and_the_largest_offset_are_in_reach(tmp_path: Path, number: int, offset: int) -> None:
    batches = [records(20, "hello") for _ in range(3)]
    batches[number] = offset.to_bytes(8, "big") + batches[number][8:]

    found = scan_of(tmp_path, *batches, base_offset=10, interval=10**6)

    assert (found.stop, found.batches_count) == (ScanStop.END, 3)


_STEPS = st.tuples(
    st.integers(-1, 3),  # offsets may also repeat and go back
    st.integers(-5, 5),  # timestamps
    st.sampled_from([0, 1, 7, 8, 100, 300, kernel.SMALL, 4000]),  # bytes of the value
)


@given(st.lists(_STEPS, min_size=1, max_size=25), st.sampled_from([0, 70, 500, 2000, 10**6]))
def test_plain_batches_are_indexed_as_those_of_a_producer_are(
    steps: list[tuple[int, int, int]], interval: int
) -> None:
    """Batches with a producer are never taken three at once."""
    plain, produced = [], []
    offset, timestamp = 10, 1000
    for offset_step, timestamp_step, size in steps:
        offset, timestamp = max(0, offset + offset_step), timestamp + timestamp_step
        record = Record(offset, timestamp, None, b"v" * size)
        plain.append(build_batch([record], BatchOptions()))
        by_producer = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=0)
        produced.append(build_batch([record], by_producer))

    with TemporaryDirectory() as folder:
        found = scan_of(Path(folder), *plain, interval=interval)
        expected = scan_of(Path(folder), *produced, interval=interval)

    assert found == _without_producers(expected)


def _without_producers(scan: SegmentScan) -> SegmentScan:
    return replace(scan, producers=(), transactions=())
