"""What confluent-kafka's own serializers write is decoded to the same objects that its deserializers read."""

from __future__ import annotations

import decimal
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.serialization import MessageField
from fastavro.read import SchemaResolutionError

from stratalog.jobs.decoding.columns import DecodedColumns
from stratalog.jobs.decoding.finding import find_decodings
from stratalog.jobs.reading.options import ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from tests.jobs.decoding.registry import Registry, serving
from tests.jobs.decoding.serializing import (
    ADDRESS,
    REFERENCES,
    V1,
    V2,
    V3,
    append,
    avro_bytes,
    client,
    deserialized,
    json_bytes,
    schema,
)
from tests.records.avro.values import ORDER, as_datum, record


@pytest.fixture
def registry() -> Iterator[Registry]:
    with serving(Registry(first_id=1001)) as made:
        yield made


def rows(logs: Path, **options: str) -> list[dict[str, Any]]:
    asked = ReadOptions.parse({"path": str(logs), **options})
    columns = DecodedColumns(names=asked.columns, decodings=find_decodings(asked))
    found = []
    for task in plan_read(asked):
        for batch in columns.batches(read_task(task, columns.to_read)):
            found += batch.to_pylist()
    return found


FIRST = [{"id": n, "amount": n / 2, "note": f"n{n}", "old": "x" * n} for n in range(20)]
SECOND = [{"id": 2**40 + n, "amount": n / 3, "comment": "grün", "paid": n % 2 == 0} for n in range(20)]
HOME = {"street": "Main", "city": "Oslo"}
AT = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
SPARSE = {"id": 7, "amount": None, "comment": None, "paid": "half", "to": HOME, "at": AT}
FULL = {"id": 8, "amount": 1.5, "comment": "c", "paid": True, "to": None, "at": AT}


@pytest.fixture
def orders(registry: Registry, tmp_path: Path) -> list[bytes]:
    """Values of three schemas in turn, in a log beside the registry's topic."""
    client(registry).register_schema("address", schema(ADDRESS))
    parts = (
        avro_bytes(registry, "orders", V1, FIRST),
        avro_bytes(registry, "orders", V2, SECOND),
        avro_bytes(registry, "orders", V3, [SPARSE, FULL] * 10, *REFERENCES),
    )
    raw = [each for row in zip(*parts, strict=True) for each in row]
    append(tmp_path, "orders", raw)
    registry.write_topic(tmp_path)
    return raw


def same(value: dict[str, Any]) -> dict[str, Any]:
    """fastavro leaves a default of a time as it is in the schema."""
    return {**value, "at": datetime.fromtimestamp(0, UTC)} if value.get("at") == 0 else value


def test_a_topic_whose_schema_has_changed_is_read_as_the_newest(
    registry: Registry, orders: list[bytes], tmp_path: Path
) -> None:
    found = rows(tmp_path, subscribe="orders", valueEncoding="confluent")

    expected = [same(each) for each in deserialized(registry, "orders", V3, orders, *REFERENCES)]
    assert [as_datum(V3, row["value"]) for row in found] == expected
    assert [row["valueSchemaId"] for row in found] == [1002, 1003, 1004] * 20
    assert (
        {row["undecodedValue"] for row in found} == {row["undecodedValueReason"] for row in found} == {None}
    )


def test_it_is_read_as_an_older_schema_where_avro_allows_that(
    registry: Registry, orders: list[bytes], tmp_path: Path
) -> None:
    found = rows(tmp_path, subscribe="orders", valueEncoding="confluent", valueReader="orders-value:2")

    for row, raw in zip(found, orders, strict=True):
        try:
            expected = deserialized(registry, "orders", V2, [raw])[0]
        except SchemaResolutionError:
            assert row["value"] is None
            assert row["undecodedValue"] == raw
            assert row["undecodedValueReason"].startswith("schema 1004: Order.amount is null")
        else:
            assert row["value"] == expected
    assert sum(row["value"] is None for row in found) == 10


def test_keys_have_schemas_of_their_own(registry: Registry, tmp_path: Path) -> None:
    key = record(("shop", "string"), ("number", "int"), name="OrderKey")
    made = [{"shop": "Oslo", "number": n} for n in range(5)]
    keys = avro_bytes(registry, "orders", key, made, field=MessageField.KEY)
    values = avro_bytes(registry, "orders", {"type": "long"}, range(5))
    append(tmp_path, "orders", values, keys)
    registry.write_topic(tmp_path)

    found = rows(tmp_path, subscribe="orders", keyEncoding="confluent", valueEncoding="confluent")

    assert [row["key"] for row in found] == made
    assert [row["value"] for row in found] == list(range(5))
    assert {(row["keySchemaId"], row["valueSchemaId"]) for row in found} == {(1001, 1002)}


def test_every_kind_of_type_is_what_was_serialized(registry: Registry, tmp_path: Path) -> None:
    value = {
        "id": 7,
        "note": "grün",
        "state": "PAID",
        "before": None,
        "lines": [{"a": 1.5}, {}],
        "price": decimal.Decimal("-12.50"),
        "made": AT,
        "due": date(2023, 11, 14),
        "tag": b"abc",
        "place": uuid.UUID("b5d1a8a1-6f0e-4e0e-9a1c-0a3f6d1c2b3a"),
    }
    append(tmp_path, "orders", avro_bytes(registry, "orders", ORDER, [value]))
    registry.write_topic(tmp_path)

    found = rows(tmp_path, subscribe="orders", valueEncoding="confluent")[0]["value"]

    assert found == {**value, "lines": [[("a", 1.5)], []], "place": str(value["place"])}


def test_json_values_are_json(registry: Registry, tmp_path: Path) -> None:
    old = {"title": "Order", "type": "object", "properties": {"id": {"type": "integer"}}}
    new = {**old, "properties": {**old["properties"], "note": {"type": "string"}}}
    values = [{"id": n} for n in range(3)], [{"id": n, "note": "grün"} for n in range(3)]
    append(tmp_path, "orders", json_bytes(registry, "orders", old, values[0]))
    append(tmp_path, "orders", json_bytes(registry, "orders", new, values[1]))
    registry.write_topic(tmp_path)

    found = rows(tmp_path, subscribe="orders", valueEncoding="confluent")

    assert [json.loads(row["value"]) for row in found] == [*values[0], *values[1]]
    assert [row["valueSchemaId"] for row in found] == [1001] * 3 + [1002] * 3


def test_an_id_of_another_registry_is_not_decoded(registry: Registry, tmp_path: Path) -> None:
    known = avro_bytes(registry, "orders", {"type": "string"}, ["ours"])
    with serving(Registry(first_id=5)) as other:
        theirs = avro_bytes(other, "orders", {"type": "string"}, ["theirs"])
    append(tmp_path, "orders", [*known, *theirs, None])
    registry.write_topic(tmp_path)

    found = rows(tmp_path, subscribe="orders", valueEncoding="confluent")

    names = ("value", "valueSchemaId", "undecodedValue", "undecodedValueReason")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("ours", 1001, None, None),
        (None, 5, theirs[0], "the schema id 5 is not known"),
        (None, None, None, None),
    ]
