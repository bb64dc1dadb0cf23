"""Memory between two forbidden pages: a read outside of it kills the process.

NumPy and Numba read a few bytes past an array without anyone noticing. In a GuardedBuffer the byte before the
array, or the byte after it, is on a page without any permission, so such a read is a SIGSEGV.
"""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
from numpy.typing import NDArray

PROT_NONE = 0


class GuardedBuffer:
    """`size` bytes that can directly follow the forbidden page before them, or end at the one after them."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        inner_size = -(-max(size, 1) // page) * page
        memory = np.frombuffer(mmap.mmap(-1, inner_size + 2 * page), dtype=np.uint8)
        _forbid(memory.ctypes.data, page)
        _forbid(memory.ctypes.data + page + inner_size, page)
        inner = memory[page : page + inner_size]
        self.before: NDArray[np.uint8] = inner[:size]
        """The first byte directly follows the forbidden page."""
        self.behind: NDArray[np.uint8] = inner[inner_size - size :]
        """The last byte directly precedes the forbidden page."""

    @classmethod
    def holding(cls, data: bytes | bytearray | memoryview) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The data twice: directly after the forbidden page, and directly before it."""
        first, second = cls(len(data)).before, cls(len(data)).behind
        first[:] = np.frombuffer(data, dtype=np.uint8)
        second[:] = first
        return first, second


def _forbid(address: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    if libc.mprotect(address, size, PROT_NONE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
