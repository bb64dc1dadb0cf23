"""Values with the id of their schema before them: in DataFrames, queries, exports and streams."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from stratalog.cli import main
from stratalog.errors import UsageError
from stratalog.spark import read
from stratalog.spark.export import export
from tests.jobs.decoding.registry import Registry
from tests.jobs.decoding.serializing import append
from tests.records.avro.values import record, written
from tests.spark.streaming import ended

AT = 1_700_000_000_123
TIME = {"type": "long", "logicalType": "timestamp-millis"}
LINES = {
    "type": "array",
    "items": record(("name", "string"), ("tags", {"type": "map", "values": "int"}), name="L"),
}
OLD = record(("id", "int"), ("note", "string"), name="Order")
NEW = record(
    ("id", "long"),
    {"name": "comment", "aliases": ["note"], "type": ["null", "string"]},
    {"name": "at", "type": ["null", TIME], "default": None},
    {"name": "lines", "type": LINES, "default": []},
    {"name": "paid", "type": ["null", "boolean", "double"], "default": None},
    name="Order",
)
FRAMED = {"valueEncoding": "confluent"}


def framed(number: int, schema: Any, value: Any) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + written(schema, value)


FULL = {
    "id": 2**40,
    "comment": "grün",
    "at": datetime.fromtimestamp(AT / 1000, UTC),
    "lines": [{"name": "x", "tags": {"a": 1}}, {"name": "y", "tags": {}}],
    "paid": 0.5,
}
VALUES = [
    framed(7, OLD, {"id": 1, "note": "first"}),
    framed(8, NEW, FULL),
    framed(9, OLD, {"id": 3, "note": "of another registry"}),
    None,
    b"plain",
]


@pytest.fixture
def registry() -> Registry:
    made = Registry(first_id=7)
    for schema in (OLD, NEW):
        made.register("orders-value", {"schema": json.dumps(schema)})
    return made


@pytest.fixture
def logs(registry: Registry, tmp_path: Path) -> Path:
    """Values of two schemas, of one that is not known, and others; beside them the registry's topic."""
    append(tmp_path / "logs", "orders", VALUES, [b"k%d" % n for n in range(5)])
    append(tmp_path / "logs", "users", [b"plain"])
    registry.write_topic(tmp_path / "logs")
    return tmp_path / "logs"


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("offset").collect()]


def check(found: list[dict[str, Any]]) -> None:
    plain = {"id": 1, "comment": "first", "at": None, "lines": [], "paid": None}
    full = {**FULL, "paid": {"member0": None, "member1": 0.5}, "at": found[1]["value"]["at"]}
    assert [row["value"] for row in found] == [plain, full, None, None, None]
    assert [row["valueSchemaId"] for row in found] == [7, 8, 9, None, None]
    assert [row["undecodedValue"] for row in found] == [None, None, VALUES[2], None, b"plain"]
    assert [row["undecodedValueReason"] for row in found] == [
        None,
        None,
        "the schema id 9 is not known",
        None,
        "it does not begin with a zero byte and the id of a schema",
    ]


def test_the_source_decodes_values_and_knows_their_type_beforehand(spark: SparkSession, logs: Path) -> None:
    frame = spark.read.format("stratalog").option("subscribe", "orders").options(**FRAMED).load(str(logs))

    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,comment:string,at:timestamp,lines:array<struct<name:string,tags:map<string,int>>>,"
        "paid:struct<member0:boolean,member1:double>>"
    )
    check(rows(frame))
    moments = frame.selectExpr("unix_millis(value.at) AS at").where("at IS NOT NULL").collect()
    assert [row.at for row in moments] == [AT]


def test_a_frame_keeps_its_type_when_a_newer_schema_comes(
    spark: SparkSession, logs: Path, registry: Registry
) -> None:
    frame = spark.read.format("stratalog").option("subscribe", "orders").options(**FRAMED).load(str(logs))
    function = read(spark, logs, topics="orders", **FRAMED)
    wide = {**NEW, "fields": [*NEW["fields"], {"name": "more", "type": "int", "default": 0}]}
    registry.register("orders-value", {"schema": json.dumps(wide)})
    registry.write_topic(logs)
    append(logs, "orders", [framed(9, wide, {**FULL, "more": 5})])

    for known in (frame, function):
        found = rows(known)
        # Planned at the first action: the new record is there, and its schema is known by then.
        assert [row["value"] is None for row in found] == [False, False, True, True, True, False]
        assert "more" not in found[-1]["value"]
        assert found[2]["undecodedValueReason"].startswith("schema 9: ")
    assert "more" in read(spark, logs, topics="orders", **FRAMED).schema["value"].dataType.fieldNames()


def test_read_takes_only_the_columns_asked_for(spark: SparkSession, logs: Path) -> None:
    frame = read(
        spark,
        logs,
        topics="orders",
        columns=["offset", "undecodedValue", "key"],
        **FRAMED,
        keyEncoding="utf8",
    )

    assert frame.columns == ["offset", "undecodedValue", "key"]
    assert [row.key for row in frame.orderBy("offset").collect()] == [f"k{n}" for n in range(5)]
    assert frame.where("undecodedValue IS NOT NULL").count() == 2
    assert read(spark, logs, topics="orders", columns=[], **FRAMED).count() == 5


def test_a_schema_of_other_types_is_refused(spark: SparkSession, logs: Path) -> None:
    reader = spark.read.format("stratalog").options(subscribe="orders", **FRAMED)

    with pytest.raises(Exception, match=r"the column value is struct<id:bigint.*, not string"):
        reader.schema("value string").load(str(logs)).count()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({**FRAMED}, "the topic _schemas has no subject _schemas-value"),
        ({**FRAMED, "topics": "users"}, "the topic users has no subject users-value in _schemas"),
        ({**FRAMED, "topics": "orders", "valueReader": "99"}, "the reader schema 99 is not known"),
        ({"topics": "orders", "valueEncoding": "protobuf"}, "protobuf is not an encoding"),
        ({"decode": "consumer_offsets", **FRAMED}, "leave keyEncoding and valueEncoding out"),
    ],
)
def test_what_cannot_be_decoded_is_told_when_it_is_asked_for(
    spark: SparkSession, logs: Path, options: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        read(spark, logs, **options)  # type: ignore[arg-type]


def test_an_export_counts_what_is_not_decoded(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    report = export(spark, logs, tmp_path / "parquet", topics="orders", value="confluent")

    assert (report.rows, report.undecoded) == (5, 2)
    check(rows(spark.read.parquet(str(tmp_path / "parquet"))))

    report = export(spark, logs, tmp_path / "json", topics="orders", value="confluent", format="json")
    assert (report.rows, report.undecoded) == (5, 2)
    found = (
        spark.read.json(str(tmp_path / "json")).orderBy("offset").selectExpr("value.comment", "valueSchemaId")
    )
    assert [tuple(row) for row in found.collect()] == [
        ("first", 7),
        ("grün", 8),
        (None, 9),
        (None, None),
        (None, None),
    ]


@pytest.mark.usefixtures("spark")
def test_the_command_exports_by_the_ids_and_says_that_not_all_was_decoded(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", str(logs), "--topic", "orders", "--value", "confluent-avro", "--json"]
    for number, schema in ((7, OLD), (8, NEW)):
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    given = ["--value-schema", f"7={tmp_path}/7.avsc,8={tmp_path}/8.avsc"]

    for number, more in enumerate(([], given, ["--value-schema", str(tmp_path), "--value-reader", "8"])):
        target = tmp_path / f"out{number}"
        assert main.run([*arguments, "--to", str(target), *more]) == 1
        report = json.loads(capsys.readouterr().out)
        assert (report["rows"], report["undecoded"]) == (5, 2)
        files = pa.concat_tables([pa.parquet.read_table(file) for file in target.rglob("*.parquet")])
        assert files.sort_by("offset")["valueSchemaId"].to_pylist() == [7, 8, 9, None, None]


@pytest.mark.usefixtures("spark")
def test_a_query_sees_the_fields_of_values(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT value.comment, valueSchemaId AS id FROM orders WHERE value.id > 0 ORDER BY offset"

    main.run(["sql", str(logs), query, "--value", "confluent", "--format", "json"])

    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"comment": "first", "id": 7},
        {"comment": "grün", "id": 8},
    ]


def test_a_stream_knows_schemas_that_come_while_it_runs(
    spark: SparkSession, logs: Path, registry: Registry, tmp_path: Path
) -> None:
    def copy() -> None:
        source = spark.readStream.format("stratalog").options(
            subscribe="orders", startingOffsets="earliest", valueReader="orders-value:2", **FRAMED
        )
        frame = source.load(str(logs)).select("offset", "value.id", "valueSchemaId")
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "copy"))
        ended(
            lambda: (
                writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
        )

    copy()
    registry.register("orders-value", {"schema": json.dumps({**NEW, "doc": "newer"})})
    registry.write_topic(logs)
    append(logs, "orders", [framed(9, NEW, {**FULL, "id": 77})])
    copy()

    found = spark.read.parquet(str(tmp_path / "copy")).orderBy("offset").collect()
    assert [(row.id, row.valueSchemaId) for row in found] == [
        (1, 7),
        (2**40, 8),
        (None, 9),
        (None, None),
        (None, None),
        (77, 9),
    ]
