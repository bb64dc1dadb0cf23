"""Checksums by two units of the CPU are those of other code, and of a CPU without the second unit."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import crc32c as other_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels.crc32c import LONG_BLOCK_SIZE, crc32c
from stratalog.records.kernels.fused_crc import is_possible, power_of_x
from stratalog.records.kernels.jit import INTERPRETED, Kernel
from stratalog.records.kernels.memory import Bytes
from tests.guarded import GuardedBuffer

needs_compiler = pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")


def compiled_crc32c(data: Bytes) -> int:
    # A kernel that has been used is replaced by its machine code, wherever it was imported.
    code = crc32c.machine_code() if isinstance(crc32c, Kernel) else crc32c
    return int(code(data, 0, len(data)))


@needs_compiler
@given(st.integers(0, 4), st.integers(-70, 70), st.integers(0, 2**32))
def test_blocks_and_what_is_left_have_the_checksum_of_other_peoples_code(
    blocks: int, more: int, seed: int
) -> None:
    data = random.Random(seed).randbytes(max(blocks * LONG_BLOCK_SIZE + more, 0))

    # On pages between two forbidden ones, so that a read outside the data ends the test.
    for guarded in GuardedBuffer.holding(data):
        assert compiled_crc32c(guarded) == other_crc32c.crc32c(data)


@needs_compiler
def test_each_bit_of_a_block_counts() -> None:
    data = np.zeros(LONG_BLOCK_SIZE, np.uint8)
    sums = {compiled_crc32c(data)}

    for position in range(LONG_BLOCK_SIZE):
        data[position] = 1 << position % 8
        sums.add(compiled_crc32c(data))
        assert compiled_crc32c(data) == other_crc32c.crc32c(data.tobytes())
        data[position] = 0

    assert len(sums) == LONG_BLOCK_SIZE + 1


def test_a_power_of_x_is_the_checksum_of_a_one_and_zeros() -> None:
    """A checksum that starts at zero multiplies by x^32: a single one, followed by n zero bits."""

    def raw(data: bytes) -> int:
        # Of messages of one size, the checksums differ by what their difference gives without a start value.
        return int(other_crc32c.crc32c(data) ^ other_crc32c.crc32c(bytes(len(data))))

    assert power_of_x(0) == 1 << 31
    for size in (1, 16, 1000):
        # The first bit of a byte is its lowest.
        assert power_of_x(8 * size + 31) == raw(b"\x01" + bytes(size - 1))


WITHOUT = """
import random
import crc32c as other_crc32c
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.fused_crc import long_block
from stratalog.records.kernels.intrinsics import CRC_INSTRUCTION
from stratalog.records.kernels.jit import compile_always
compile_always()
from stratalog.records.kernels.memory import byte_array
print(CRC_INSTRUCTION, long_block)
for size in (0, 3071, 3072, 3073, 10_000):
    data = random.Random(size).randbytes(size)
    assert crc32c(byte_array(data), 0, size) == other_crc32c.crc32c(data), size
"""


@needs_compiler
@pytest.mark.skipif(not is_possible(), reason="this CPU has no second unit for checksums")
def test_without_the_second_unit_streams_give_the_same(tmp_path: os.PathLike[str]) -> None:
    environment = os.environ | {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "+crc32",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "llvm.x86.sse42.crc32.64.64 None\n", "")
