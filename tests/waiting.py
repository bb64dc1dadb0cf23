"""Waits for an event in a broker, a JVM or another process, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

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
