"""The rows of an export: their columns, their days, decoded on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.jobs.exporting.decoding import Decoding, Encoding
from stratalog.jobs.exporting.rows import NO_DATE, RowSettings
from stratalog.log.new_records import NewRecord
from tests.jobs.exporting.exported import export, exported, fill


def test_a_record_without_a_timestamp_has_no_day(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "logs" / "old-0", create=True) as log:
        log.append_many([NewRecord(b"x", None, (), -1)])

    export(tmp_path / "logs", tmp_path / "out")

    (row,) = exported(tmp_path / "out")
    assert row["date"] is None
    assert [path.name for path in (tmp_path / "out" / "topic=old").iterdir()] == [f"date={NO_DATE}"]


def test_rows_that_look_different_are_refused(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out")

    with pytest.raises(UsageError, match=r"exported with other settings \(columns\)"):
        export(logs, tmp_path / "out", RowSettings(columns=("offset",)))


def test_text_and_json_are_decoded_and_what_is_neither_is_kept(tmp_path: Path) -> None:
    fill(tmp_path / "logs", "orders", [b'{"a": 1}', "größer".encode(), b"\xff\xfe", b"[" * 100_000])
    text = RowSettings(value=Decoding(encoding=Encoding.UTF8))
    documents = RowSettings(value=Decoding(encoding=Encoding.JSON))

    assert export(tmp_path / "logs", tmp_path / "text", text).undecoded == 1
    assert export(tmp_path / "logs", tmp_path / "json", documents).undecoded == 3

    texts, jsons = exported(tmp_path / "text"), exported(tmp_path / "json")
    assert [row["value"] for row in texts[:3]] == ['{"a": 1}', "größer", None]
    assert [row["undecodedValue"] for row in texts] == [None, None, b"\xff\xfe", None]
    assert [row["value"] for row in jsons] == ['{"a": 1}', None, None, None]
    assert [row["undecodedValue"] for row in jsons[:3]] == [None, "größer".encode(), b"\xff\xfe"]


def test_keys_can_be_decoded_too(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out", RowSettings(key=Decoding(encoding=Encoding.UTF8)))

    assert [row["key"] for row in exported(tmp_path / "out")] == [f"key {number}" for number in range(30)]


def test_columns_are_those_that_are_asked_for(logs: Path, tmp_path: Path) -> None:
    export(logs, tmp_path / "out", RowSettings(columns=("offset", "partition", "codec")))

    file = next((tmp_path / "out").rglob("*.parquet"))
    assert pq.read_schema(file).names == ["offset", "partition", "codec"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": ("offset", "topic")},
        {"columns": ("offse",)},
        {"columns": ()},
        {"columns": ("offset",), "value": Decoding(encoding=Encoding.UTF8)},
    ],
)
def test_wrong_columns_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        RowSettings(**wrong)
