"""The clock: milliseconds since 1970, as Kafka's timestamps. Passed in like the disk, so tests can set it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def system_clock() -> int:
    """The time of this machine. Kafka: Time.SYSTEM.milliseconds."""
    return time.time_ns() // 1_000_000
