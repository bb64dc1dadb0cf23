"""Waiting for what a broker, a JVM or another process does: for the event, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable

# So long that only a hang reaches it, whatever else the machine does; shorter than the watchdog's.
PATIENCE_S = 500.0


def until(what: Callable[[], object], told: str | Callable[[], str] = "") -> None:
    """Return when `what` is true, and fail with `told`, which may be asked for only then, if it never is."""
    end = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > end:
            words = told() if callable(told) else told
            raise AssertionError(f"it did not come to that within {PATIENCE_S:g} s: {words}")
        time.sleep(0.02)
