"""Internal records as the text that Kafka 4.3.1's dump tool prints for them.

`record_contents` is what follows ` key: ` and ` payload: ` on a record's line under the decoder option of its
topic: --offsets-decoder, --transaction-log-decoder, --share-group-state-decoder, --cluster-metadata-decoder.
`control_contents` is what the tool adds to the line of a KRaft control record, whatever the options.

A record that cannot be decoded gets a sentence instead of its key (instead of its payload in the metadata
topic), and the tool continues. The sentences are the tool's, except that our own words replace Java's
description of the bytes.

Kafka: DumpLogSegments.java, its parsers and printControlRecord
"""

from __future__ import annotations

from typing import NamedTuple

from stratalog.buffers import Buffer
from stratalog.errors import InvalidRecordError
from stratalog.records.internal import wire
from stratalog.records.internal.json_text import RawJson, json_string, to_json
from stratalog.records.internal.schema import Schema, decode_message, find_schema, schema_named
from stratalog.records.internal.topics import (
    UNKNOWN,
    InternalRecord,
    decode_control,
    decode_internal,
)
from stratalog.records.internal.wire import FieldValue
from stratalog.records.internal_topics import CLUSTER_METADATA

TOMBSTONE = "<DELETE>"
# The text before the JSON of a control record; only the first has a colon.
_CONTROL_LABELS = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


class Contents(NamedTuple):
    """The two texts of a record; None if there is no text."""

    key: str | None
    payload: str | None


def record_contents(topic: str, offset: int, key: Buffer | None, value: Buffer | None) -> Contents:
    """The texts of a data record.

    Raises InvalidRecordError only for a record without a key, which stops the tool in all topics except the
    metadata topic.
    """
    if topic == CLUSTER_METADATA:
        return Contents(None, _metadata_text(offset, key, value))
    if key is None:
        raise InvalidRecordError(
            f"Failed to decode message at offset {offset} using the specified decoder "
            "(message had a missing key)"
        )
    return _coordinator_text(topic, offset, key, value)


def control_contents(key: Buffer | None, value: Buffer | None) -> str | None:
    """What the tool adds for a KRaft control record, such as `SnapshotFooter {"version":0}`.

    None for transaction markers, which hold no such message, and for types and versions that are unknown.
    """
    record = decode_control(key, value)
    if record.kind == UNKNOWN:
        return None
    return f"{_CONTROL_LABELS[record.kind]} {value_json(record)}"


def _coordinator_text(topic: str, offset: int, key: Buffer, value: Buffer | None) -> Contents:
    error = f"Error at offset {offset}, skipping. "
    if len(key) < 2:
        return Contents(f"{error}Could not read version from key's buffer.", None)
    record_type, _ = wire.read_int16(key, 0)
    if find_schema(topic, "key", record_type) is None:
        return Contents(f"Unknown record type {record_type} at offset {offset}, skipping.", None)
    # The tool reads the key first, so it reports a fault in the key.
    try:
        record = decode_internal(topic, key, None)
    except InvalidRecordError as fault:
        return Contents(f"{error}{_unreadable(record_type, 'key', fault)}", None)
    if value is not None:
        if len(value) < 2:
            return Contents(f"{error}Could not read version from value's buffer.", None)
        version, _ = wire.read_int16(value, 0)
        try:
            record = decode_internal(topic, key, value)
        except InvalidRecordError as fault:
            return Contents(f"{error}{_unreadable(version, 'value', fault)}", None)
        if record.kind == UNKNOWN:
            return Contents(f"{error}Found an unknown record version {version} for {record_type} type", None)
    key_text, payload = message_texts(record)
    return Contents(key_text, TOMBSTONE if payload is None else payload)


def _unreadable(version: int, part: str, fault: InvalidRecordError) -> str:
    return f"Could not read record with version {version} from {part}'s buffer due to: {fault.reason}."


def _metadata_text(offset: int, key: Buffer | None, value: Buffer | None) -> str:
    try:
        record = decode_internal(CLUSTER_METADATA, key, value)
    except InvalidRecordError as fault:
        return f"Error at {offset}, skipping. {fault.reason}"
    if record.kind == UNKNOWN:
        return f"Error at {offset}, skipping. {_unknown_metadata(record)}"
    payload = message_texts(record).payload
    assert payload is not None
    return payload


def _unknown_metadata(record: InternalRecord) -> str:
    if record.record_type is None:
        frame_version, _ = wire.read_unsigned_varint(record.raw_value or b"", 0)
        if frame_version == 0:
            return (
                "Could not deserialize metadata record with frame version 0. Note that upgrades from the "
                "preview release of KRaft in 2.8 to newer versions are not supported."
            )
        return (
            f"Could not deserialize metadata record due to unknown frame version {frame_version}"
            "(only frame version 1 is supported)"
        )
    if find_schema(CLUSTER_METADATA, "value", record.record_type) is None:
        return (
            "org.apache.kafka.common.errors.UnsupportedVersionException: "
            f"Unknown metadata id {record.record_type}"
        )
    # The tool would read it as the newest version that it knows, and print the wrong result.
    return f"Unknown version {record.value_version} of record type {record.record_type}"


def message_texts(record: InternalRecord) -> Contents:
    """The messages of a data record whose kind is known, with their types and versions, as the tool prints
    them; None for a part without a message."""
    if record.topic == CLUSTER_METADATA:
        kind = json_string(record.kind)
        text = f'{{"type":{kind},"version":{record.value_version},"data":{value_json(record)}}}'
        return Contents(None, text)
    key_text = f'{{"type":"{record.record_type}","data":{key_json(record)}}}'
    if record.is_tombstone:
        return Contents(key_text, None)
    return Contents(key_text, f'{{"version":"{record.value_version}","data":{value_json(record)}}}')


def key_json(record: InternalRecord) -> str:
    """The message in the key, as the tool prints it."""
    schema = find_schema(record.topic, "key", _known(record.record_type))
    assert schema is not None
    assert record.key is not None
    return to_json(schema, _known(record.key_version), record.key)


def value_json(record: InternalRecord) -> str:
    """The message in the value of a record whose kind is known, as the tool prints it."""
    schema = find_schema(record.topic, "value", _known(record.record_type))
    assert schema is not None
    assert record.value is not None
    values = record.value
    if schema.name == "GroupMetadataValue" and values["protocolType"] == "consumer":
        values = {**values, "members": [_consumer_member(member) for member in values["members"]]}
    return to_json(schema, _known(record.value_version), values)


def _consumer_member(member: dict[str, FieldValue]) -> dict[str, FieldValue]:
    """A member of a classic consumer group, with the client's own bytes decoded."""
    return {
        **member,
        "subscription": _embedded(schema_named("ConsumerProtocolSubscription"), member["subscription"]),
        "assignment": _embedded(schema_named("ConsumerProtocolAssignment"), member["assignment"]),
    }


def _embedded(schema: Schema, raw: bytes) -> FieldValue:
    """The message that begins with its version, as JSON; the bytes themselves if they are not such a message.

    Clients write these messages and brokers do not read them. The tool prints the bytes if it cannot read
    one.
    """
    try:
        version, position = wire.read_int16(raw, 0)
        values, _ = decode_message(schema, version, raw, position)
    except InvalidRecordError:
        return raw
    return RawJson(to_json(schema, version, values))


def _known(number: int | None) -> int:
    assert number is not None
    return number
