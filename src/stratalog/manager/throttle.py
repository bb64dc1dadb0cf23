"""Limits all readers and writers together to a number of bytes a second. Kafka: Throttler"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

CHECK_INTERVAL_S = 0.3


class Throttle:
    """Counts bytes in windows of at least 300 ms, and sleeps at the end of a window that had too many."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._began = clock()
        self._size = 0

    def __call__(self, size: int) -> None:
        # A thread sleeps while it holds the lock, so all other threads wait too: they share the limit.
        with self._lock:
            self._size += size
            elapsed = self._clock() - self._began
            if elapsed <= CHECK_INTERVAL_S or not self._size:
                return
            if self._size > self._rate * elapsed:
                self._sleep(self._size / self._rate - elapsed)
            self._began, self._size = self._clock(), 0
