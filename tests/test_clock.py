"""The clock of this machine, in Kafka's unit."""

from __future__ import annotations

from datetime import UTC, datetime

from stratalog.clock import system_clock


def test_the_clock_counts_milliseconds_since_1970() -> None:
    before = datetime.now(UTC)
    now = datetime.fromtimestamp(system_clock() / 1000, UTC)
    after = datetime.now(UTC)

    assert before.replace(microsecond=before.microsecond // 1000 * 1000) <= now <= after
