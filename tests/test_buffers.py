"""Buffers are this process's own."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stratalog.buffers import aligned_buffer, private_memory
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.records.compression import Scratch

MIB = 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4097, 3 * MIB])
def test_a_buffer_has_its_size_is_zero_and_starts_on_a_page(size: int) -> None:
    buffer = aligned_buffer(size)

    assert (len(buffer), buffer.any(), buffer.ctypes.data % 4096) == (size, False, 0)


def test_a_forked_process_does_not_write_into_its_parents_buffers() -> None:
    small, large, scratch = aligned_buffer(100), aligned_buffer(3 * MIB), Scratch()

    child = os.fork()
    if child == 0:
        for array in (small, large, scratch.array):
            array[:] = 1
        os._exit(0)
    os.waitpid(child, 0)

    assert [array.any() for array in (small, large, scratch.array)] == [False] * 3


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux counts memory")
def test_the_system_counts_buffers_and_offset_maps_as_memory_of_the_process() -> None:
    memory = private_memory(64 * MIB)
    memory[::4096] = bytes([1]) * (64 * MIB // 4096)
    offset_map = OffsetMap(24 * 1_000_000)
    offset_map.put_keys([b"%d" % number for number in range(200_000)])

    assert anonymous_size_around(np.frombuffer(memory, np.uint8)) >= 64 * MIB
    # Hashes are all over its 16 million bytes.
    assert anonymous_size_around(offset_map._slots) > 12 * MIB


def anonymous_size_around(array: np.ndarray[Any, Any]) -> int:
    """The anonymous bytes of the mapping that has `array`: other tests change the sum of the process."""
    for mapping in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text())[1:]:
        first, end = (int(address, 16) for address in mapping.split()[0].split("-"))
        if first <= array.ctypes.data < end:
            return int(mapping.split("Anonymous:")[1].split()[0]) << 10
    raise AssertionError("no mapping has the array")


def test_an_aligned_buffer_starts_on_a_page() -> None:
    for size in (0, 1, 4096, 5000):
        buffer = aligned_buffer(size)

        assert buffer.ctypes.data % 4096 == 0
        assert buffer.size == size
        assert buffer.dtype == np.uint8
