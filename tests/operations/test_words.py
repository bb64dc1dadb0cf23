"""Numbers as people read them."""

from __future__ import annotations

import pytest

from stratalog.operations.words import size_text, time_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_234_567, "1.2 MB"),
        (402_900_000, "402.9 MB"),
        (2_700_000_000, "2.7 GB"),
        (5 * 10**12, "5.0 TB"),
    ],
)
def test_sizes_are_written_in_powers_of_ten(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_are_written_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(1_767_225_600_005) == "2026-01-01 00:00:00"
    assert time_text(-1) == "-"
