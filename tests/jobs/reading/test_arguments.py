"""Paths, topics and times as options of the source."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from stratalog.errors import UsageError
from stratalog.jobs.reading.arguments import Time, option_texts


def test_topics_are_one_name_or_several(tmp_path: Path) -> None:
    assert option_texts(tmp_path, topics="orders")["subscribe"] == "orders"
    assert option_texts(tmp_path, topics=["orders", "bills"])["subscribe"] == "orders,bills"
    assert "subscribe" not in option_texts(tmp_path)


def test_paths_are_one_or_several(tmp_path: Path) -> None:
    assert option_texts(tmp_path)["paths"] == f'["{tmp_path}"]'
    assert option_texts(["/a", "file:///b"])["paths"] == '["/a", "/b"]'


@pytest.mark.parametrize(
    ("time", "milliseconds"),
    [
        (1_700_000_000_000, 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20.0019+01:00", 1_700_000_000_001),
        (datetime(2023, 11, 14, 22, 13, 20), 1_700_000_000_000),
        (datetime(2023, 11, 15, 0, 13, 20, tzinfo=timezone(timedelta(hours=2))), 1_700_000_000_000),
        (datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=UTC), 1_700_000_000_000),
    ],
)
def test_a_time_has_several_forms(tmp_path: Path, time: Time, milliseconds: int) -> None:
    given = option_texts(tmp_path, since=time, until=time)

    assert given["startingTimestamp"] == given["endingTimestamp"] == str(milliseconds)
    assert given["startingOffsetsByTimestampStrategy"] == "latest"


@pytest.mark.parametrize("time", [True, "noon", 1_700_000_000.5, date(2026, 11, 15)])
def test_what_is_not_a_time_is_refused(tmp_path: Path, time: Time) -> None:
    with pytest.raises(UsageError, match="since is"):
        option_texts(tmp_path, since=time)


def test_flags_are_in_lower_case(tmp_path: Path) -> None:
    assert option_texts(tmp_path, includeHeaders=True)["includeHeaders"] == "true"
