"""The rows of an export: their columns, their days, decoded on request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.files.reading import DiskReader
from stratalog.jobs.decoding.asked import Encoding
from stratalog.jobs.decoding.decoding import Decoding
from stratalog.jobs.exporting.rows import NO_DATE, RowSettings, row_settings, with_new_schemas
from stratalog.log.new_records import NewRecord
from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import V1, V2, append
from tests.jobs.exporting.exported import export, exported, fill, options
from tests.records.avro.values import written


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


FRAMED = {"subscribe": "orders", "valueEncoding": "confluent"}


def framed(number: int, schema: Any, value: dict[str, Any]) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + written(schema, value)


def two_schemas(logs: Path, *known: Any) -> list[dict[str, Any]]:
    """1,500 values of one schema and 500 of the next, with these known; returns them as the newer one."""
    old = [{"id": n, "amount": n / 4, "note": f"note {n}", "old": "o"} for n in range(1500)]
    new = [{"id": n, "amount": n / 4, "comment": "c" * (n % 9), "paid": True} for n in range(500)]
    append(logs, "orders", [framed(1, V1, each) for each in old] + [framed(2, V2, each) for each in new])
    registry = Registry()
    for schema in known:
        registry.register("orders-value", {"schema": json.dumps(schema)})
    registry.write_topic(logs)
    as_new = [{"id": n, "amount": n / 4, "comment": f"note {n}", "paid": False} for n in range(1500)]
    return as_new + new


def test_rows_of_a_second_schema_in_a_topic_are_not_exported_wrong(tmp_path: Path) -> None:
    # They were decoded with the one schema that was given, whatever their id said, and "not decoded" was 0.
    expected = two_schemas(tmp_path / "logs", V1, V2)
    rows = row_settings(options(tmp_path / "logs", **FRAMED))

    report = export(tmp_path / "logs", tmp_path / "out", rows, **FRAMED)

    assert (report.rows, report.undecoded) == (2000, 0)
    assert [row["value"] for row in exported(tmp_path / "out")] == expected


def test_rows_of_an_unknown_schema_are_kept_and_counted(tmp_path: Path) -> None:
    expected = two_schemas(tmp_path / "logs", V1)
    rows = row_settings(options(tmp_path / "logs", **FRAMED))

    report = export(tmp_path / "logs", tmp_path / "out", rows, **FRAMED)

    assert (report.rows, report.undecoded) == (2000, 500)
    unknown = exported(tmp_path / "out")[1500:]
    assert {row["value"] for row in unknown} == {None}
    assert {(row["valueSchemaId"], row["undecodedValueReason"]) for row in unknown} == {
        (2, "the schema id 2 is not known")
    }
    assert [row["undecodedValue"] for row in unknown] == [framed(2, V2, each) for each in expected[1500:]]


def test_a_schema_that_was_registered_after_the_settings_were_made_is_known_to_the_tasks(
    tmp_path: Path,
) -> None:
    logs, registry = tmp_path / "logs", Registry()
    registry.register("orders-value", {"schema": json.dumps(V2)})
    registry.write_topic(logs)
    value = {"id": 1, "amount": 1.0, "comment": "c", "paid": True}
    append(logs, "orders", [framed(1, V2, value)])
    rows = row_settings(options(logs, **FRAMED))
    registry.register("orders-value", {"schema": json.dumps({**V2, "doc": "newer"})})
    registry.write_topic(logs)
    append(logs, "orders", [framed(2, V2, value)])

    assert export(logs, tmp_path / "out", rows, **FRAMED).undecoded == 0
    assert [row["value"] for row in exported(tmp_path / "out")] == [value, value]
    renewed = with_new_schemas(rows, options(logs, **FRAMED), DiskReader())
    assert renewed.value.reader_name == "orders-value:1"


def test_a_folder_keeps_its_columns_when_there_is_a_newer_schema(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    two_schemas(logs, V1, V2)
    export(logs, tmp_path / "out", row_settings(options(logs, **FRAMED)), **FRAMED)
    newer = Registry()
    wide = {**V2, "fields": [*V2["fields"], {"name": "more", "type": "int", "default": 0}]}
    newer.add_version({"subject": "orders-value", "version": 3, "id": 3, "schema": json.dumps(wide)})
    append(logs, "_schemas", [newer.records[-1][1]], [newer.records[-1][0]])
    append(logs, "orders", [framed(3, wide, {"id": 1, "amount": 1, "comment": "", "paid": True, "more": 5})])

    with pytest.raises(UsageError, match=r"exported with other settings \(value\).*name the reader schema"):
        export(logs, tmp_path / "out", row_settings(options(logs, **FRAMED)), **FRAMED)

    named = {**FRAMED, "valueReader": "orders-value:2"}
    report = export(logs, tmp_path / "out", row_settings(options(logs, **named)), **named)
    assert (report.rows, report.undecoded) == (1, 0)


def test_a_table_is_not_exported(logs: Path) -> None:
    with pytest.raises(UsageError, match="decode cannot be exported"):
        row_settings(options(logs, decode="consumer_offsets"))


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
