"""The checksums, against catalogued check values, a twin that goes bit by bit, and other people's code."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import zlib

import crc32c as other_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels import crc32c as kernels
from stratalog.records.kernels.crc32c import crc32_zlib, crc32c, crc32c_of_three
from stratalog.records.kernels.memory import byte_array
from tests import naive_sums

CHECK = b"123456789"


def test_the_check_value_of_crc32c_comes_out() -> None:
    assert crc32c(byte_array(CHECK), 0, len(CHECK)) == 0xE3069283


def test_the_check_value_of_crc32_comes_out() -> None:
    assert crc32_zlib(byte_array(CHECK), 0, len(CHECK)) == 0xCBF43926


@given(st.binary(max_size=80), st.data())
def test_crc32c_of_any_range_is_the_twins(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))

    assert crc32c(byte_array(data), start, end) == naive_sums.crc32c(data[start:end])


@given(st.binary(max_size=80), st.data())
def test_crc32_of_any_range_is_the_twins(data: bytes, draw: st.DataObject) -> None:
    start = draw.draw(st.integers(0, len(data)))
    end = draw.draw(st.integers(start, len(data)))

    assert crc32_zlib(byte_array(data), start, end) == naive_sums.crc32(data[start:end])


@given(st.lists(st.binary(min_size=8, max_size=80), min_size=3, max_size=3), st.integers(0, 9))
def test_three_ranges_side_by_side_have_the_checksums_of_each(ranges: list[bytes], gap: int) -> None:
    data = byte_array(bytes(gap).join(ranges))
    starts = [sum(map(len, ranges[:number])) + number * gap for number in range(3)]
    ends = [start + len(part) for start, part in zip(starts, ranges, strict=True)]

    sums = crc32c_of_three(data, tuple(starts), tuple(ends))

    assert list(sums) == [naive_sums.crc32c(part) for part in ranges]


# Where one stream becomes three, short streams long ones, and one round of each two.
SHORT, LONG = 3 * kernels.SHORT_STREAM_SIZE, 3 * kernels.LONG_STREAM_SIZE


@pytest.mark.parametrize("size", [SHORT, 2 * SHORT, LONG, LONG + SHORT, 2 * LONG, 3 * LONG])
@pytest.mark.parametrize("more", [-9, -1, 0, 1, 8])
def test_checksums_hold_where_the_number_of_streams_changes(size: int, more: int) -> None:
    data = random.Random(size).randbytes(size + more + 3)

    assert crc32c(byte_array(data), 3, len(data)) == other_crc32c.crc32c(data[3:])
    assert crc32_zlib(byte_array(data), 3, len(data)) == zlib.crc32(data[3:])


@given(
    st.integers(0, 2 * kernels.FOLDED_SIZE) | st.integers(6000, 16_000) | st.just(1 << 20), st.integers(0, 9)
)
def test_folding_keeps_the_checksum(size: int, start: int) -> None:
    data = random.Random(size).randbytes(start + size + 3)

    found = kernels._crc32c_twin(byte_array(data), start, start + size)

    assert found == other_crc32c.crc32c(data[start : start + size])


@pytest.mark.parametrize(("degree", "powers"), kernels.MULTIPLES)
def test_multiples_of_the_polynomial_leave_no_remainder(degree: int, powers: tuple[int, ...]) -> None:
    remainder = 0
    for power in range(degree, -1, -1):
        remainder = remainder << 1 | (power == degree or power in powers)
        if remainder >> 32:
            remainder ^= 0x1_1EDC_6F41

    assert remainder == 0


def test_the_twins_agree_with_other_peoples_code() -> None:
    data = random.Random(1).randbytes(3000)

    assert naive_sums.crc32c(data) == other_crc32c.crc32c(data)
    assert naive_sums.crc32(data) == zlib.crc32(data)


FALLBACK = """
import random
import crc32c as other_crc32c
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.intrinsics import CRC_INSTRUCTION
from stratalog.records.kernels.jit import compile_always
compile_always()
from stratalog.records.kernels.memory import byte_array
print(CRC_INSTRUCTION)
for size in (0, 1, 7, 8, 9, 191, 192, 1535, 1536, 5000):
    data = random.Random(size).randbytes(size)
    assert crc32c(byte_array(data), 0, size) == other_crc32c.crc32c(data), size
"""


def test_where_the_cpu_has_no_instruction_tables_give_the_same(tmp_path: os.PathLike[str]) -> None:
    environment = os.environ | {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "-c", FALLBACK], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")
