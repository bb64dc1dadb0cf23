"""Copies of any size, next to forbidden memory."""

from __future__ import annotations

import numpy as np
import pytest

from stratalog.records.kernels.memory import copy_bytes, load_i64

CANARY = 0xA5
SIZES = [*range(0, 70), 127, 128, 129, 1000]


@pytest.mark.parametrize("to", [0, 3])
@pytest.mark.parametrize("start", [0, 5])
def test_a_copy_of_any_size_writes_its_range_and_nothing_else(start: int, to: int) -> None:
    data = np.arange(1100, dtype=np.uint32).astype(np.uint8)

    for size in SIZES:
        out = np.full(size + to + 40, CANARY, np.uint8)
        copy_bytes(out, to, data, start, size)
        expected = bytes([CANARY]) * to + data[start : start + size].tobytes() + bytes([CANARY]) * 40
        assert out.tobytes() == expected, size


def test_numbers_of_64_bits_wrap_where_nothing_is_compiled_too() -> None:
    data = np.frombuffer((2**63 - 1).to_bytes(8, "big"), np.uint8)

    with np.errstate(over="ignore"):
        assert load_i64(data, 0) + 1 == -(2**63)
