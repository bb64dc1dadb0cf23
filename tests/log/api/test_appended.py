"""What `append_arrow` takes from a table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.log.api.appended import appended_columns

NOW = 1_767_225_600_000
EARLIER = 1_700_000_000_000


@pytest.mark.parametrize("name", ["Key", "values", "ts"])
def test_a_column_that_would_be_lost_is_refused(name: str) -> None:
    table = pa.table({"value": [b"a"], name: [b"k"]})

    with pytest.raises(UsageError, match=f"does not know the columns {name}"):
        appended_columns(table, NOW)


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = pa.table([pa.array([b"a"]), pa.array([b"b"])], names=["value", "value"])

    with pytest.raises(UsageError, match="has the column value 2 times"):
        appended_columns(table, NOW)


def test_what_was_read_can_be_appended(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "a-0", create=True) as log:
        log.append(b"value", key=b"key", timestamp=EARLIER)
    read = stratalog.scan(tmp_path, columns=["topic", "offset", "key", "value", "timestamp"]).to_table()

    with stratalog.open_log(tmp_path / "b-0", create=True) as log:
        log.append_arrow(read)
        (found,) = log.records()

    assert (found.key, found.value, found.timestamp) == (b"key", b"value", EARLIER)


def test_rows_without_a_timestamp_have_the_present_time() -> None:
    assert appended_columns(pa.table({"value": [b"a", b"b"]}), NOW)["timestamp"].to_pylist() == [NOW, NOW]


@pytest.mark.parametrize(
    ("times", "filled"),
    [
        (pa.array([EARLIER, None]), [EARLIER, NOW]),
        (pa.array([None, None]), [NOW, NOW]),
        (
            pa.array([datetime(2026, 2, 3, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            [datetime(2026, 2, 3, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
        ),
    ],
)
def test_a_null_is_the_present_time_too(times: pa.Array, filled: list[Any]) -> None:
    table = pa.table({"value": [b"a", b"b"], "timestamp": times})

    assert appended_columns(table, NOW)["timestamp"].to_pylist() == filled
