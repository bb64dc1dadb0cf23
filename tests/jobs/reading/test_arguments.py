"""Paths, topics and times as options of the source."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from stratalog.errors import UsageError, WrongTypeError
from stratalog.jobs.reading.arguments import Time, option_texts, whole_number


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
        (np.int64(1_700_000_000_000), 1_700_000_000_000),
        (np.datetime64("2023-11-14T22:13:20"), 1_700_000_000_000),
        (np.datetime64("2023-11-14T22:13:20.001999"), 1_700_000_000_001),
    ],
)
def test_a_time_has_several_forms(tmp_path: Path, time: Time, milliseconds: int) -> None:
    given = option_texts(tmp_path, since=time, until=time)

    assert given["startingTimestamp"] == given["endingTimestamp"] == str(milliseconds)
    assert given["startingOffsetsByTimestampStrategy"] == "latest"


@pytest.mark.parametrize(
    "time",
    [
        True,
        "noon",
        b"noon",
        1_700_000_000.5,
        date(2026, 11, 15),
        np.datetime64("NaT"),
        np.timedelta64(5, "s"),
        np.bool_(1),
        pd.NaT,
    ],
)
def test_what_is_not_a_time_is_refused(tmp_path: Path, time: Time) -> None:
    with pytest.raises(UsageError, match="since is"):
        option_texts(tmp_path, since=time)


def test_flags_are_in_lower_case(tmp_path: Path) -> None:
    assert option_texts(tmp_path, includeHeaders=True)["includeHeaders"] == "true"


@pytest.mark.parametrize("topics", [5, b"orders", ["orders", None], [b"orders"]])
def test_topics_of_a_wrong_type_are_refused_in_words(topics: Any) -> None:
    with pytest.raises(WrongTypeError, match=r"topics is .*: it must be a name, or a list of names"):
        option_texts("/a", topics=topics)


@pytest.mark.parametrize("path", [None, 5, True, ["/a", None], [5]])
def test_paths_of_a_wrong_type_are_refused_in_words(path: Any) -> None:
    with pytest.raises(WrongTypeError, match="is not a path, but of type"):
        option_texts(path)


def test_a_path_with_a_null_character_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="null character"):
        option_texts("/a\0b")


def test_a_path_may_be_bytes() -> None:
    given: Any = b"/a"
    assert option_texts(given)["paths"] == '["/a"]'


@pytest.mark.parametrize("given", [1.5, "2", None, True, np.bool_(1), np.timedelta64(5, "s")])
def test_what_is_not_a_whole_number_is_refused(given: object) -> None:
    with pytest.raises(WrongTypeError, match=r"threads is .*: it must be a whole number"):
        whole_number("threads", given)


def test_a_whole_number_may_be_of_numpy() -> None:
    assert type(whole_number("threads", np.int64(3))) is int
    with pytest.raises(UsageError, match="threads is 0: it must be a number from 1 on"):
        whole_number("threads", np.int64(0), least=1)
