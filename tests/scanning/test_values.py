"""Arrow values as Python's own, and as JSON."""

from __future__ import annotations

import datetime
import json
import math

import pyarrow as pa

from stratalog.scanning.values import column_values, json_text, plain


def test_a_time_that_python_cannot_hold_becomes_text() -> None:
    times = pa.array([0, 400_000_000_000_000_000, None], pa.timestamp("us", tz="UTC"))

    found = column_values(times)

    assert found[0] == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert found[1].startswith("14645-")
    assert found[2] is None


def test_json_has_no_number_that_is_not_one() -> None:
    assert json.loads(json_text({"a": [math.nan, -math.inf, 1.5]})) == {"a": ["NaN", "-Infinity", 1.5]}


def test_bytes_become_text() -> None:
    assert plain(b"a\xff") == "a\\xff"
    assert json_text({"é": b"1"}, ensure_ascii=False) == '{"é": "1"}'
