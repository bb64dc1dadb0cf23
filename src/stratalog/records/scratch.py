"""Reused memory that batches are decompressed into."""

from __future__ import annotations

import mmap

import numpy as np
import zstandard
from numpy.typing import NDArray

from stratalog.buffers import private_memory

_GROWTH_CAP = 16 << 20


class Scratch:
    """Reused memory for decompressed bytes; it belongs to one thread.

    `array[:used]` belongs to the caller: decompressing writes after it, and the caller moves `used`. `array`
    is replaced when it grows, so read the attribute again after each call. The memory is an anonymous map: it
    starts on a page boundary, costs nothing until it is touched, and is kept. A new `np.empty` of this size
    would go back to the system after each use, with new page faults every time.
    """

    __slots__ = ("array", "used", "view", "zstd")

    def __init__(self, capacity: int = 1 << 20) -> None:
        self.used = 0
        # Making a zstd context takes longer than decoding a batch; like this object it belongs to one thread.
        self.zstd = zstandard.ZstdDecompressor()
        self._replace(capacity)

    def reserve(self, size: int, *, written: int = 0) -> None:
        """Make room for `size` bytes after `used`, of which the first `written` are already there."""
        needed = self.used + size
        if needed > self.array.size:
            previous, kept = self.view, self.used + written
            # Doubling makes copies rare; a large scratch gets at most 16 MiB more than it needs now, so that
            # it does not waste memory.
            self._replace(max(needed, min(2 * self.array.size, needed + _GROWTH_CAP)))
            self.view[:kept] = previous[:kept]

    def _replace(self, capacity: int) -> None:
        whole_pages = -(-max(capacity, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = private_memory(whole_pages)
        self.array: NDArray[np.uint8] = np.frombuffer(memory, dtype=np.uint8)
        self.view = memoryview(memory)
