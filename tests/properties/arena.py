"""Guarded memory for all cases, allocated once: forbidding a page is a system call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tests.guarded import GuardedBuffer

Bytes = NDArray[np.uint8]
LARGEST = 512 << 10


class Arena:
    """Reused arrays next to forbidden pages; `front`: the page is before them."""

    def __init__(self) -> None:
        self._buffers: list[GuardedBuffer] = []
        self._used = 0
        self.front = False

    def reset(self, *, front: bool) -> None:
        self._used, self.front = 0, front

    def empty(self, size: int) -> Bytes:
        if self._used == len(self._buffers):
            self._buffers.append(GuardedBuffer(LARGEST))
        buffer = self._buffers[self._used]
        self._used += 1
        return buffer.before[:size] if self.front else buffer.behind[LARGEST - size :]

    def holding(self, data: bytes | Bytes) -> Bytes:
        array = self.empty(len(data))
        array[:] = np.frombuffer(data, np.uint8)
        return array
