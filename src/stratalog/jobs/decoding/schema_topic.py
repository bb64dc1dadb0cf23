"""The topic in which Confluent's schema registry keeps its schemas, read as the registry reads it.

    key    {"keytype": "SCHEMA", "subject": "orders-value", "version": 2, "magic": 1}
    value  {"subject": "orders-value", "version": 2, "id": 7, "schema": "{\\"type\\": ...}", "deleted": false}
           and, if they are there, "schemaType" (JSON, PROTOBUF; without it Avro) and
           "references": [{"name": "shop.Address", "subject": "address", "version": 1}]

A record without a value removes its version permanently. A version with "deleted": true is no longer in its
subject, but its id stays known, because values may have been written with it. DELETE_SUBJECT marks all
versions of a subject up to the given one as deleted. CLEAR_SUBJECT removes the deleted versions of a subject.
A record with an id that another schema already has is ignored. Other keys (CONFIG, MODE, NOOP, CONTEXT) are
about the registry itself. Confluent: KafkaStoreMessageHandler, InMemoryCache
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from stratalog.jobs.decoding.store import AVRO, SchemaStore, SchemaVersion, StoredSchema, context_of

SCHEMAS_TOPIC = "_schemas"
Pair = tuple[bytes | None, bytes | None]


def schemas_of_records(records: Iterable[Pair]) -> SchemaStore:
    """The schemas that these records define. Records are given as (key, value), in the order of the topic.

    A record that is not of this form is ignored.
    """
    versions: dict[SchemaVersion, StoredSchema] = {}
    texts: dict[tuple[str, int], str] = {}  # by context and id
    for raw_key, raw_value in records:
        key, value = _object(raw_key), _object(raw_value)
        match key.get("keytype"):
            case "SCHEMA":
                version, schema = _version(key), _schema(value)
                if version is not None and raw_value is None:
                    versions.pop(version, None)
                elif version is not None and schema is not None:
                    known = texts.setdefault((context_of(version.subject), schema.id), schema.text)
                    if known == schema.text:
                        versions[version] = schema
            case "DELETE_SUBJECT" if isinstance(value.get("version"), int):
                for found in _of_subject(versions, key):
                    if found.version <= value["version"]:
                        versions[found] = replace(versions[found], is_deleted=True)
            case "CLEAR_SUBJECT" if raw_value is not None:
                for found in _of_subject(versions, key):
                    if versions[found].is_deleted:
                        del versions[found]
    return SchemaStore(versions)


def _schema(value: dict[str, Any]) -> StoredSchema | None:
    schema_id, text = value.get("id"), value.get("schema")
    if not isinstance(schema_id, int) or not isinstance(text, str):
        return None
    references = [_version(each) for each in value.get("references") or () if isinstance(each, dict)]
    return StoredSchema(
        id=schema_id,
        text=text,
        kind=str(value.get("schemaType") or AVRO),
        references=tuple(each for each in references if each is not None),
        is_deleted=value.get("deleted") is True,
    )


def _version(found: dict[str, Any]) -> SchemaVersion | None:
    subject, version = found.get("subject"), found.get("version")
    if isinstance(subject, str) and isinstance(version, int):
        return SchemaVersion(subject, version)
    return None


def _of_subject(versions: dict[SchemaVersion, StoredSchema], key: dict[str, Any]) -> list[SchemaVersion]:
    return [each for each in versions if each.subject == key.get("subject")]


def _object(raw: bytes | None) -> dict[str, Any]:
    """The object in JSON; empty for anything else."""
    if raw is None:
        return {}
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
