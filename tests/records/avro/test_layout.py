"""The Arrow types of Avro schemas."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from stratalog.errors import SchemaError
from stratalog.records.avro.layout import AvroLayout
from stratalog.records.avro.schema import parse_schema
from tests.records.avro.values import ORDER, record


def type_of(schema: Any) -> pa.DataType:
    return AvroLayout.of(parse_schema(json.dumps(schema))).root.type


def test_a_record_becomes_a_struct() -> None:
    assert type_of(ORDER) == pa.struct(
        [
            ("id", pa.int64()),
            ("note", pa.string()),
            ("state", pa.string()),
            ("before", pa.string()),
            ("lines", pa.list_(pa.map_(pa.string(), pa.float64()))),
            ("price", pa.decimal128(9, 2)),
            ("made", pa.timestamp("us", tz="UTC")),
            ("due", pa.date32()),
            ("tag", pa.binary()),
            ("place", pa.string()),
        ]
    )


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("null", pa.null()),
        ({"type": "string"}, pa.string()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", tz="UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.int64()),
        ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
        ({"type": "long", "logicalType": "date"}, pa.int64()),  # not a type that a date can have
        ({"type": "int", "logicalType": "no such"}, pa.int32()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "bytes", "logicalType": "decimal"}, pa.binary()),
        (
            {"type": "fixed", "name": "F", "size": 9, "logicalType": "decimal", "precision": 20},
            pa.decimal128(20),
        ),
        (["null", "int"], pa.int32()),
        (["int", "null", "long"], pa.int64()),
        (["double", "float"], pa.float64()),
        (["null", "int", "string"], pa.struct([("member0", pa.int32()), ("member1", pa.string())])),
        (["int", "double"], pa.struct([("member0", pa.int32()), ("member1", pa.float64())])),
    ],
    ids=str,
)
def test_the_type_of_a_column(schema: Any, kind: pa.DataType) -> None:
    assert type_of(schema) == kind


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, "a decimal of 50 digits"),
        (record(("next", ["null", "R"])), r"R.next contains itself \('R'\)"),
        (record(("all", {"type": "array", "items": "R"})), "an item of R.all contains itself"),
    ],
    ids=str,
)
def test_a_schema_that_no_column_can_have_is_refused(schema: Any, says: str) -> None:
    with pytest.raises(SchemaError, match=says):
        type_of(schema)
