"""What the functions of `memory` do as machine instructions is what they do as plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.records.kernels.crc32c import _crc_word
from stratalog.records.kernels.jit import INTERPRETED, Kernel, kernel
from stratalog.records.kernels.memory import (
    Bytes,
    bare,
    byte_array,
    copy_bytes,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    load_u64_le,
    prefetch,
    wrapped_difference,
    wrapped_sum,
)

pytestmark = pytest.mark.skipif(INTERPRETED, reason="NUMBA_DISABLE_JIT: nothing is compiled")


@kernel
def _load_all(data: Bytes, position: int) -> tuple[Any, ...]:
    prefetch(data, position + 4096)
    return (
        load_u8(data, position),
        load_i16(data, position),
        load_i32(data, position),
        load_u32(data, position),
        load_i64(data, position),
        load_u64_le(data, position),
        _crc_word(np.uint32(load_u32(data, position)), load_u64_le(data, position)),
    )


@kernel
def _load_bare(data: Bytes, position: int) -> tuple[Any, ...]:
    return load_i64(bare(data), position), load_u8(bare(data), position)


@kernel
def _wrap(left: int, right: int) -> tuple[Any, ...]:
    """With comparisons that LLVM would get wrong if the sums were plain ones."""
    total, difference = wrapped_sum(left, right), wrapped_difference(left, right)
    return total, difference, total >= left, difference <= left, difference >= 0


@kernel
def _copy(to: Bytes, to_position: int, data: Bytes, position: int, size: int) -> None:
    copy_bytes(to, to_position, data, position, size)


def both(function: Any) -> tuple[Any, Any]:
    """(plain, compiled)"""
    assert isinstance(function, Kernel)
    return function.run_plain, function.machine_code()


@pytest.mark.parametrize("load", [_load_all, _load_bare], ids=["array", "bare pointer"])
@given(st.binary(min_size=8, max_size=24))
def test_loads(load: Any, data: bytes) -> None:
    plain, compiled = both(load)
    array = byte_array(data)

    for position in range(len(data) - 7):
        assert plain(array, position) == compiled(array, position)


@pytest.mark.parametrize("left", [2**63 - 1, 2**63 - 2, 5, 0, -1, -(2**63) + 1, -(2**63)])
@pytest.mark.parametrize("right", [2**63 - 1, 3, 2, 1, 0, -1, -3, -(2**63)])
def test_sums_wrap(left: int, right: int) -> None:
    plain, compiled = both(_wrap)
    total, difference = ((number + 2**63) % 2**64 - 2**63 for number in (left + right, left - right))

    expected = total, difference, total >= left, difference <= left, difference >= 0
    assert compiled(left, right) == expected
    assert plain(left, right) == expected


@pytest.mark.parametrize("size", [*range(70), 127, 128, 129, 500])
def test_copies(size: int) -> None:
    plain, compiled = both(_copy)
    data = np.arange(600, dtype=np.uint64).astype(np.uint8)
    first, second = np.full(600, 255, np.uint8), np.full(600, 255, np.uint8)

    plain(first, 5, data, 3, size)
    compiled(second, 5, data, 3, size)

    assert first.tobytes() == second.tobytes()
    assert first[5 : 5 + size].tobytes() == data[3 : 3 + size].tobytes()
