"""The guard works: a planted read outside of a guarded buffer is seen to be caught."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guarded import GuardedBuffer

# Each read runs in a child of its own, forked when the kernel has been compiled. -(size + 1) is the byte
# before the array: Numba adds the size once to a negative index.
PLANTED_READS = """
import os
import numba
from tests.guarded import GuardedBuffer


@numba.njit
def read(data, position):
    return data[position]


SIZE = 5000
buffer = GuardedBuffer(SIZE)
read(buffer.before, 0)
for array, position in [
    (buffer.before, 0),
    (buffer.before, SIZE - 1),
    (buffer.before, -(SIZE + 1)),
    (buffer.behind, 0),
    (buffer.behind, SIZE - 1),
    (buffer.behind, SIZE),
]:
    child = os.fork()
    if child == 0:
        read(array, position)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_read_before_or_behind_kills_the_process() -> None:
    run = subprocess.run(
        [sys.executable, "-c", PLANTED_READS],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )

    killed = -signal.SIGSEGV
    assert [int(line) for line in run.stdout.split()] == [0, 0, killed, 0, 0, killed]


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097])
def test_every_size_can_be_written_and_read(size: int) -> None:
    data = bytes(n % 251 for n in range(size))

    for array in GuardedBuffer.holding(data):
        assert array.tobytes() == data
