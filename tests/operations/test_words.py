"""Numbers as people read them."""

from __future__ import annotations

import pytest

from stratalog.operations.words import first_names, size_text, span_text, time_text


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


@pytest.mark.parametrize(
    ("span_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (68_999, "1 min 8 s"),
        (3_600_000, "1 h"),
        (3_608_000, "1 h"),
        (90_000_000, "1 day 1 h"),
        (604_800_000, "7 days"),
        (2**63 - 1, "106751991167 days 7 h"),
    ],
)
def test_spans_are_written_in_their_largest_units(span_ms: int, text: str) -> None:
    assert span_text(span_ms) == text


def test_times_are_written_in_utc() -> None:
    assert time_text(0) == "1970-01-01 00:00:00"
    assert time_text(1_767_225_600_005) == "2026-01-01 00:00:00"
    assert time_text(-1) == "-"


def test_of_many_names_the_first_few_are_written() -> None:
    names = [f"t-{number}" for number in range(12)]

    assert first_names(names[:1]) == "t-0"
    assert first_names(names[:3]) == "t-0, t-1, t-2 (3 logs)"
    assert first_names(names) == "t-0, t-1, t-2 and 9 more (12 logs)"
