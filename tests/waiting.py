"""Waits for an event in a broker, a JVM, another process or another thread, never for a fixed time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

# So long that only a hang reaches it, even on a busy machine; shorter than the watchdog's limit.
PATIENCE_S = 500.0


def until(what: Callable[[], object], told: str | Callable[[], str] = "") -> None:
    """Return when `what` is true; if it never is, fail with `told`, which may be a function."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > end:
            words = told() if callable(told) else told
            raise AssertionError(f"it did not come to that within {PATIENCE_S:g} s: {words}")
        time.sleep(0.02)


class AwaitedLock:
    """A reentrant lock which tells that a thread has to wait for it."""

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()
        self.is_awaited = threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.is_awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _is_owned(self) -> bool:
        return bool(self._lock._is_owned())

    def waiter(self, work: Callable[[], object]) -> threading.Thread:
        """A thread for work that is to wait for the lock; if it does not, this counts as waiting too."""

        def run() -> None:
            try:
                work()
            finally:
                self.is_awaited.set()

        return threading.Thread(target=run)
