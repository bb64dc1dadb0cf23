"""Defaults of fields as the bytes of values; fastavro writes the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stratalog.errors import SchemaError
from stratalog.records.avro.defaults import encode_default, encode_long
from stratalog.records.avro.schema import parse_schema
from tests.records.avro.values import record, written


@pytest.mark.parametrize("number", [0, -1, 1, 63, 64, -64, -65, 2**31, 2**63 - 1, -(2**63)])
def test_a_number_is_written_as_fastavro_writes_it(number: int) -> None:
    assert encode_long(number) == written("long", number)


@pytest.mark.parametrize(
    ("schema", "default", "value"),
    [
        ("null", None, None),
        ("boolean", True, True),
        ("int", -(2**31), -(2**31)),
        ("float", 1.5, 1.5),
        ("double", 7, 7.0),
        ("string", "grün", "grün"),
        ("bytes", "\u00ff", b"\xff"),
        ({"type": "array", "items": "string"}, ["a", "b"], ["a", "b"]),
        ({"type": "map", "values": "int"}, {"k": 1}, {"k": 1}),
        (["null", "string"], "x", "x"),
        (record(("a", "int"), ("b", "boolean")), {"b": True, "a": 1}, {"a": 1, "b": True}),
    ],
    ids=str,
)
def test_a_default_is_the_bytes_of_a_value(schema: Any, default: Any, value: Any) -> None:
    assert encode_default(parse_schema(json.dumps(schema)), default) == written(schema, value)


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ("null", 0),
        ("boolean", 1),
        ("int", 2**31),
        ("int", 1.5),
        ("int", True),
        ("long", 2**63),
        ("float", "1"),
        ("float", 1e300),
        ("string", 5),
        ("string", "\ud800"),
        ("bytes", "\u0100"),
        ("bytes", None),
        ({"type": "fixed", "name": "F", "size": 2}, "a"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"]),
        ({"type": "array", "items": "int"}, {}),
        ({"type": "map", "values": "int"}, []),
        (record(("a", "int")), {}),
        (record(("a", "int")), None),
        (["null", "int"], "x"),
    ],
    ids=str,
)
def test_what_is_not_a_value_of_the_type_is_refused(schema: Any, default: Any) -> None:
    with pytest.raises(SchemaError, match="default"):
        encode_default(parse_schema(json.dumps(schema)), default)
