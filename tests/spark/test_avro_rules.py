"""Avro's own Java library, which Spark brings, reads the same values with the same schemas as we do."""

from __future__ import annotations

import base64
import json
import math
import random
import struct
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.profile import examples
from tests.records.avro.values import (
    branch,
    decoded,
    encoded,
    evolved,
    random_schema,
    random_value,
    record,
    written,
)

CASES: list[tuple[Any, Any, Any]] = [
    # writer, reader, value: what fastavro reads in another way, or not at all
    ("string", ["bytes", "string"], "x"),
    ("int", ["double", "long", "int"], 5),
    ("int", ["string", "float"], 2**31 - 1),
    ("long", "float", 2**53 + 1),
    (record(("a", "int")), record({"name": "b", "type": "bytes", "default": "\u00ff\u0000"}), {"a": 1}),
    (
        record(("a", "int")),
        record(
            {
                "name": "r",
                "type": record(("x", "int"), {"name": "y", "type": "string", "default": "own"}, name="I"),
                "default": {"x": 1},
            }
        ),
        {"a": 1},
    ),
    (
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["B", "U"], "default": "U"},
        "A",
    ),
]


class Java:
    """Avro's classes in the JVM of a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._avro = spark._jvm.org.apache.avro  # type: ignore[union-attr]
        self._to_bytes = spark._jvm.java.util.Base64.getDecoder()  # type: ignore[union-attr]

    def read(self, writer: Any, reader: Any, raw: bytes) -> Any:
        """The value as JSON has it; Avro's error if it cannot be read."""
        schemas = [self._avro.Schema.Parser().parse(json.dumps(each)) for each in (writer, reader)]
        # Avro applies the aliases of a reader only to schemas, before it resolves.
        schemas[0] = self._avro.Schema.applyAliases(*schemas)
        decode = self._avro.generic.GenericDatumReader(*schemas)
        data = self._to_bytes.decode(base64.b64encode(raw).decode())
        decoder = self._avro.io.DecoderFactory.get().binaryDecoder(data, None)
        found = decode.read(None, decoder)
        assert decoder.isEnd()
        return json.loads(self._avro.generic.GenericData.get().toString(found), parse_constant=str)


def as_java(schema: Any, value: Any) -> Any:
    """A value in the form of Java's text: bytes are Latin-1, those of a fixed are numbers with a sign."""
    if isinstance(schema, list):
        chosen, value = branch(schema, value)
        return None if value is None else as_java(chosen, value)
    match schema if isinstance(schema, str) else schema["type"]:
        case "array":
            return [as_java(schema["items"], each) for each in value]
        case "map":
            return {key: as_java(schema["values"], each) for key, each in value}
        case "record":
            return {each["name"]: as_java(each["type"], value[each["name"]]) for each in schema["fields"]}
        case "fixed":
            return list(struct.unpack(f"{len(value)}b", value))
        case "bytes":
            return value.decode("latin-1")
    return value


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same; Java writes only the digits that a float has."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(is_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, float) and not isinstance(theirs, list | dict):
        return math.isclose(ours, float(theirs), rel_tol=1e-6)
    return bool(ours == theirs)


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> Java:
    return Java(spark)


@pytest.mark.parametrize(("writer", "reader", "value"), CASES, ids=str)
def test_a_case_is_read_as_java_reads_it(java: Java, writer: Any, reader: Any, value: Any) -> None:
    raw = written(writer, value)

    column, reasons = decoded(writer, reader, [raw])

    assert reasons == [None]
    assert is_same(as_java(reader, column[0].as_py()), java.read(writer, reader, raw))


@pytest.mark.parametrize("seed", range(examples(500, quick=30)))
def test_an_evolved_schema_is_read_as_java_reads_it(java: Java, seed: int) -> None:
    rng = random.Random(10_000 + seed)
    writer = random_schema(rng)
    reader = evolved(rng, writer)
    raw = [encoded(writer, random_value(rng, writer)) for _ in range(3)]

    column, reasons = decoded(writer, reader, raw)

    assert reasons == [None] * 3
    for value, each in zip(column.to_pylist(), raw, strict=True):
        assert is_same(as_java(reader, value), java.read(writer, reader, each))
