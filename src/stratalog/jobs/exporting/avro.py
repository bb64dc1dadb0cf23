"""Avro values of one known schema: the schema's Arrow type, and a decoder of single values.

The bytes are read by fastavro. Logical types are left to Arrow, which takes the plain numbers: Python's own
dates end with the year 9999, Avro's do not.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from stratalog.errors import MissingDependencyError, UsageError

AvroSchema = Any  # JSON: a name, a list of branches, or an object
_PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
MAX_DECIMAL_DIGITS = 38  # what Spark's and Arrow's 128 bits hold


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of an Avro schema; UsageError if it is not a schema, or Arrow has no type for it."""
    try:
        schema = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"the Avro schema is not JSON: {error}.") from None
    return _type_of(schema, _Names(), "the schema")


def value_decoder(text: str) -> Callable[[bytes], object]:
    """Returns a function from bytes to a value that `pa.array` accepts.

    It raises ValueError for other bytes.
    """
    try:
        import fastavro
    except ImportError:
        raise MissingDependencyError(
            "decoding Avro needs fastavro, which is not installed: pip install 'stratalog[avro]'"
        ) from None
    arrow_type(text)  # so that a wrong schema gets our own error message
    try:
        schema = fastavro.parse_schema(_without_logical_types(json.loads(text)))
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, KeyError) as error:
        raise UsageError(f"the Avro schema cannot be used: {error}.") from None

    def decode(value: bytes) -> object:
        stream = io.BytesIO(value)
        try:
            decoded = fastavro.schemaless_reader(stream, schema, None)
        # What fastavro raises for bytes that are not such a value: their end, an index, a length, a
        # character.
        except (EOFError, IndexError, KeyError, MemoryError, OverflowError, struct.error, TypeError) as error:
            raise ValueError(f"not a value of this Avro schema: {error}") from error
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes left after the Avro value")
        return decoded

    return decode


class _Names(dict[str, pa.DataType | None]):
    """The named types, None while one is being defined; and the current namespace."""

    namespace = ""


def _type_of(schema: AvroSchema, names: _Names, where: str) -> pa.DataType:
    if isinstance(schema, list):
        return _union_type(schema, names, where)
    if isinstance(schema, str):
        if schema in _PLAIN:
            return _PLAIN[schema]
        if schema not in names:
            raise UsageError(f"{where} names the Avro type {schema!r}, which does not exist.")
        known = names[schema]
        if known is None:
            raise UsageError(f"{where} contains itself ({schema!r}): a recursive type cannot become columns.")
        return known
    if not isinstance(schema, dict) or "type" not in schema:
        raise UsageError(f"{where} is not an Avro type: {json.dumps(schema)[:80]}.")
    return _complex_type(schema, names, where)


def _complex_type(schema: dict[str, AvroSchema], names: _Names, where: str) -> pa.DataType:
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _type_of(kind, names, where)
    if kind in ("record", "error", "enum", "fixed"):
        return _named_type(schema, names)
    if kind == "array":
        return pa.list_(_type_of(schema.get("items"), names, f"an element of {where}"))
    if kind == "map":
        return pa.map_(pa.string(), _type_of(schema.get("values"), names, f"a value of {where}"))
    logical = str(schema.get("logicalType"))
    if logical == "decimal":
        return _decimal(schema, where)
    return _LOGICAL.get((kind, logical)) or _type_of(kind, names, where)


def _named_type(schema: dict[str, AvroSchema], names: _Names) -> pa.DataType:
    name = str(schema.get("name"))
    prefix, _, plain = name.rpartition(".")
    around = names.namespace
    # A type without a namespace inherits that of the type around it.
    names.namespace = prefix or str(schema.get("namespace", around))
    spellings = {name, plain, f"{names.namespace}.{plain}"}
    names.update(dict.fromkeys(spellings))  # named, but not defined yet
    found: pa.DataType
    if schema["type"] == "enum":
        found = pa.string()
    elif schema["type"] == "fixed":
        found = _decimal(schema, name) if schema.get("logicalType") == "decimal" else pa.binary()
    else:
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise UsageError(f"the Avro record {name} has no list of fields.")
        for each in fields:
            if not isinstance(each, dict) or not {"name", "type"} <= each.keys():
                raise UsageError(f"a field of the Avro record {name} has no name or no type.")
        found = pa.struct(
            [(each["name"], _type_of(each["type"], names, f"{name}.{each['name']}")) for each in fields]
        )
    names.update(dict.fromkeys(spellings, found))
    names.namespace = around
    return found


def _union_type(branches: list[AvroSchema], names: _Names, where: str) -> pa.DataType:
    real = [branch for branch in branches if branch != "null"]
    if len(real) != 1:
        raise UsageError(
            f"{where} is a union of {len(real)} types, but a column has one. Export the bytes, and decode "
            "them where they are used."
        )
    return _type_of(real[0], names, where)


def _decimal(schema: dict[str, AvroSchema], where: str) -> pa.DataType:
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not 0 <= scale <= precision <= MAX_DECIMAL_DIGITS or not precision:
        raise UsageError(
            f"{where} is a decimal of {precision} digits: 1 to {MAX_DECIMAL_DIGITS} digits are supported."
        )
    return pa.decimal128(precision, scale)


def _without_logical_types(schema: AvroSchema) -> AvroSchema:
    """The same schema without logical types other than decimal."""
    if isinstance(schema, list):
        return [_without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "logicalType" or value == "decimal"}
    for key in ("type", "items", "values"):
        if key in kept:
            kept[key] = _without_logical_types(kept[key])
    if "fields" in kept:
        kept["fields"] = [{**each, "type": _without_logical_types(each["type"])} for each in kept["fields"]]
    return kept
