"""Schemas and values of Avro, written by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from stratalog.jobs.exporting.decoding import Decoding, Encoding


def written(schema: Any, value: object) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def avro(schema: Any, encoding: Encoding = Encoding.AVRO) -> Decoding:
    return Decoding(encoding=encoding, schema=json.dumps(schema))
