"""Schemas and values of Avro, written by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from stratalog.jobs.exporting.decoding import Decoding, Encoding

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "double"}}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "made", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "due", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tag", "type": {"type": "fixed", "name": "Tag", "size": 3}},
        {"name": "place", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}


def written(schema: Any, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def avro(schema: Any, encoding: Encoding = Encoding.AVRO) -> Decoding:
    return Decoding(encoding=encoding, schema=json.dumps(schema))
