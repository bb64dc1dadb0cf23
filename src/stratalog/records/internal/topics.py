"""Records of Kafka's internal topics: finds which messages a key and a value hold, and decodes them.

topic                   key                              value
__consumer_offsets      int16 record type, message       int16 version, message
__transaction_state     the same                         the same
__share_group_state     the same                         the same
__cluster_metadata      none                             unsigned varints 1 (frame version), record type and
                                                         version, message
KRaft control records   int16 version, int16 type        message, which begins with its version as int16

A null value in one of the first three is a tombstone: it deletes what the key names.

Kafka: CoordinatorRecordSerde.java, AbstractApiMessageSerde.java, ControlRecordUtils.java
"""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.buffers import Buffer
from stratalog.errors import InvalidRecordError
from stratalog.records.internal import wire
from stratalog.records.internal.schema import Schema, decode_message, find_schema
from stratalog.records.internal.wire import FieldValue
from stratalog.records.internal_topics import CLUSTER_METADATA, COORDINATOR_TOPICS

UNKNOWN = "unknown"
_CONTROL = "control"
_KEY_VERSION = 0  # a key begins with its type instead of a version, so messages in keys have only one version
METADATA_FRAME_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalRecord:
    """A record of an internal topic.

    `kind` is Kafka's name of the record type (OFFSET_COMMIT, TOPIC_RECORD, LEADER_CHANGE), or "unknown" for a
    type or version that Kafka 4.3.1 does not know: then `key` or `value` is None. `record_type` and
    `value_version` are the numbers as found, None if there are none.
    """

    topic: str
    kind: str
    record_type: int | None
    key_version: int | None
    key: dict[str, FieldValue] | None
    value_version: int | None
    value: dict[str, FieldValue] | None
    raw_key: bytes | None
    raw_value: bytes | None

    @property
    def is_tombstone(self) -> bool:
        """Whether this deletes what its key names; control and metadata records cannot."""
        return self.raw_value is None and self.topic in COORDINATOR_TOPICS


def decode_internal(topic: str, key: Buffer | None, value: Buffer | None) -> InternalRecord:
    """The message in a data record of an internal topic.

    Raises InvalidRecordError if the bytes do not match a known type and version; positions are relative to
    the key or value. Raises KeyError for a topic that `is_internal` does not know.
    """
    if topic in COORDINATOR_TOPICS:
        return _decode_coordinator(topic, key, value)
    if topic == CLUSTER_METADATA:
        return _decode_metadata(key, value)
    raise KeyError(topic)


def decode_control(key: Buffer | None, value: Buffer | None) -> InternalRecord:
    """The message in a control record of KRaft; kind "unknown" for a transaction marker or a newer type."""
    if key is None:
        raise InvalidRecordError("control record without a key")
    key_version, position = wire.read_int16(key, 0)
    record_type, _ = wire.read_int16(key, position)
    schema = find_schema(_CONTROL, "value", record_type)
    version = decoded = None
    if schema is not None:
        if value is None:
            raise InvalidRecordError(f"{schema.kind} without a value")
        # Kafka always reads version 0, and 4.3.1 writes no other. That would misread a message of version 1,
        # so here the version in the message is used.
        version, _ = wire.read_int16(value, 0)
        decoded = _decode_known(schema, version, value, 0)
    return InternalRecord(
        topic=_CONTROL,
        kind=UNKNOWN if schema is None or decoded is None else schema.kind,
        record_type=record_type,
        key_version=key_version,
        key=None,
        value_version=version,
        value=decoded,
        raw_key=bytes(key),
        raw_value=None if value is None else bytes(value),
    )


def _decode_coordinator(topic: str, key: Buffer | None, value: Buffer | None) -> InternalRecord:
    if key is None:
        raise InvalidRecordError(f"record of {topic} without a key")
    record_type, position = wire.read_int16(key, 0)
    key_schema = find_schema(topic, "key", record_type)
    value_schema = find_schema(topic, "value", record_type)
    kind = UNKNOWN
    version = decoded_key = decoded = None
    if key_schema is not None and value_schema is not None:
        # Bytes after the message are ignored, as in Kafka: older releases must be able to read newer
        # messages.
        decoded_key, _ = decode_message(key_schema, _KEY_VERSION, key, position)
        kind = key_schema.kind
        if value is not None:
            version, position = wire.read_int16(value, 0)
            decoded = _decode_known(value_schema, version, value, position)
            kind = UNKNOWN if decoded is None else kind
    return InternalRecord(
        topic=topic,
        kind=kind,
        record_type=record_type,
        key_version=None if decoded_key is None else _KEY_VERSION,
        key=decoded_key,
        value_version=version,
        value=decoded,
        raw_key=bytes(key),
        raw_value=None if value is None else bytes(value),
    )


def _decode_metadata(key: Buffer | None, value: Buffer | None) -> InternalRecord:
    if value is None:
        raise InvalidRecordError(f"record of {CLUSTER_METADATA} without a value")
    frame_version, position = wire.read_unsigned_varint(value, 0)
    kind = UNKNOWN
    record_type = version = decoded = None
    if frame_version == METADATA_FRAME_VERSION:
        record_type, position = wire.read_unsigned_varint(value, position)
        version, position = wire.read_unsigned_varint(value, position)
        schema = find_schema(CLUSTER_METADATA, "value", record_type)
        if schema is not None and version in schema.versions:
            kind = schema.kind
            decoded, end = decode_message(schema, version, value, position)
            if end != len(value):
                raise InvalidRecordError(f"{len(value) - end} bytes after {kind}", position=end)
    return InternalRecord(
        topic=CLUSTER_METADATA,
        kind=kind,
        record_type=record_type,
        key_version=None,
        key=None,
        value_version=version,
        value=decoded,
        raw_key=None if key is None else bytes(key),
        raw_value=bytes(value),
    )


def _decode_known(schema: Schema, version: int, value: Buffer, position: int) -> dict[str, FieldValue] | None:
    """The message, or None if the table does not have its version."""
    if version not in schema.versions:
        return None
    decoded, _ = decode_message(schema, version, value, position)
    return decoded
