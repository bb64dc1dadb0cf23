"""Values as confluent-kafka's own serializers write them, and as its deserializers read them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import stratalog
from stratalog.log.new_records import NewRecord
from tests.jobs.decoding.registry import Registry
from tests.records.avro.values import record

# The same topic over the years. Each reads what all before it wrote.
ADDRESS = record(("street", "string"), ("city", "string"), name="Address", namespace="shop")
V1 = record(("id", "int"), ("amount", "float"), ("note", "string"), ("old", "string"), name="shop.Order")
V2 = record(  # a field with a default, one renamed, one gone, numbers wider
    ("id", "long"),
    ("amount", "double"),
    {"name": "comment", "aliases": ["note"], "type": "string"},
    {"name": "paid", "type": "boolean", "default": False},
    name="shop.Order",
)
V3 = record(  # unions wider, a reference, logical types
    ("id", "long"),
    ("amount", ["null", "double"]),
    {"name": "comment", "aliases": ["note"], "type": ["null", "string"]},
    {"name": "paid", "type": ["boolean", "string"], "default": False},
    {"name": "to", "type": ["null", "shop.Address"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
    name="shop.Order",
)
REFERENCES = [SchemaReference(name="shop.Address", subject="address", version=1)]


def client(registry: Registry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def schema(definition: Any, *references: SchemaReference, kind: str = "AVRO") -> Schema:
    return Schema(json.dumps(definition), kind, list(references))


def avro_bytes(
    registry: Registry,
    topic: str,
    definition: Any,
    values: Iterable[Any],
    *references: SchemaReference,
    field: MessageField = MessageField.VALUE,
) -> list[bytes]:
    """Values as the Avro serializer writes them, with the schema registered under the topic's subject."""
    serialize = AvroSerializer(client(registry), schema(definition, *references))
    return [serialize(value, SerializationContext(topic, field)) for value in values]


def json_bytes(registry: Registry, topic: str, definition: Any, values: Iterable[Any]) -> list[bytes]:
    """The same of the JSON serializer."""
    serialize = JSONSerializer(json.dumps(definition), client(registry))
    return [serialize(value, SerializationContext(topic, MessageField.VALUE)) for value in values]


def deserialized(
    registry: Registry, topic: str, definition: Any, raw: Iterable[bytes], *references: SchemaReference
) -> list[Any]:
    """Values as the Avro deserializer reads them with this reader schema."""
    deserialize = AvroDeserializer(client(registry), schema(definition, *references))
    return [deserialize(each, SerializationContext(topic, MessageField.VALUE)) for each in raw]


def append(
    logs: Path, topic: str, values: Iterable[bytes | None], keys: Iterable[bytes] | None = None
) -> None:
    """Append records to partition 0 of a topic."""
    directory = logs / f"{topic}-0"
    found = list(values)
    key_list: list[bytes | None] = list(keys) if keys is not None else [None] * len(found)
    with stratalog.open_log(directory, create=not directory.exists()) as log:
        log.append_many([NewRecord(value, key) for value, key in zip(found, key_list, strict=True)])
