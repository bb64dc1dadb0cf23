"""The encoder of Kafka's messages: fields in, bytes out, the same that Kafka's own classes write.

It is the inverse of the decoder (`schema.py`, `topics.py`) and uses the same table: each accepts what the
other returns. A field that is left out has its default. Tagged fields are written in the order of their tags,
and only if they differ from their default. Unknown tagged fields, which the decoder keeps as bytes, are
written back in their places.

Kafka: MessageDataGenerator.java, MetadataRecordSerde, ControlRecordUtils, CoordinatorRecordSerde
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from stratalog.errors import InvalidRecordError
from stratalog.records.control import ControlType, build_control_key
from stratalog.records.internal import wire
from stratalog.records.internal.schema import UNKNOWN_TAGS, Field, Schema, default_of, schema_named
from stratalog.records.internal.topics import METADATA_FRAME_VERSION
from stratalog.records.internal.wire import FieldValue, Writer

Values = Mapping[str, FieldValue]


def encode_message(schema: Schema, version: int, values: Values) -> bytes:
    """The bytes of a message in this version.

    InvalidRecordError for a version that the schema does not have, a field that the version does not have,
    and a value that a field cannot hold.
    """
    if version not in schema.versions:
        raise InvalidRecordError(
            f"{schema.name} has versions {schema.versions.first} to {schema.versions.last}, not {version}"
        )
    out = bytearray()
    _message_writer(schema, version)(out, values)
    return bytes(out)


def encode_metadata(name: str, values: Values, *, version: int = 0) -> bytes:
    """The value of a record of `__cluster_metadata`; `name` is Kafka's, such as TopicRecord."""
    schema = schema_named(name)
    out = bytearray()
    for number in (METADATA_FRAME_VERSION, schema.api_key, version):
        wire.write_unsigned_varint(out, number)
    return bytes(out) + encode_message(schema, version, values)


def encode_control(name: str, values: Values, *, version: int = 0) -> tuple[bytes, bytes]:
    """(key, value) of a control record of KRaft; the value begins with the message's version."""
    schema = schema_named(name)
    return build_control_key(ControlType(schema.api_key)), encode_message(schema, version, values)


def encode_coordinator(
    key_name: str, key: Values, value_name: str, value: Values | None, *, version: int
) -> tuple[bytes, bytes | None]:
    """(key, value) of a record of a coordinator's topic; a tombstone has no value."""
    key_schema = schema_named(key_name)
    out = bytearray()
    wire.write_int16(out, key_schema.api_key)
    encoded_key = bytes(out) + encode_message(key_schema, 0, key)
    if value is None:
        return encoded_key, None
    out = bytearray()
    wire.write_int16(out, version)
    return encoded_key, bytes(out) + encode_message(schema_named(value_name), version, value)


@cache
def _message_writer(schema: Schema, version: int) -> Writer:
    return _struct_writer(schema.name, schema.fields, version, flexible=version in schema.flexible)


def _struct_writer(name: str, fields: Sequence[Field], version: int, *, flexible: bool) -> Writer:
    present = [field for field in fields if version in field.versions]
    plain = [(f, _field_writer(f, version, flexible)) for f in present if version not in f.tagged]
    tagged = [(f, _field_writer(f, version, flexible)) for f in present if version in f.tagged]
    known = {field.name for field in present} | ({UNKNOWN_TAGS} if flexible else set())

    def write(out: bytearray, values: Values) -> None:
        if not isinstance(values, Mapping):
            raise InvalidRecordError(f"{values!r} is not a struct of {name}")
        if foreign := values.keys() - known:
            raise InvalidRecordError(f"{name} has no field {min(foreign)} in version {version}")
        for field, writer in plain:
            _write_field(out, field, writer, _value_of(values, field, version))
        if flexible:
            _write_tagged(out, tagged, values, version)

    return write


def _value_of(values: Values, field: Field, version: int) -> FieldValue:
    return values[field.name] if field.name in values else default_of(field, version)


def _write_field(out: bytearray, field: Field, writer: Writer, value: FieldValue) -> None:
    try:
        writer(out, value)
    except InvalidRecordError as error:
        raise InvalidRecordError(f"{field.name}: {error.reason}") from error


def _write_tagged(
    out: bytearray, tagged: Sequence[tuple[Field, Writer]], values: Values, version: int
) -> None:
    sections: dict[int, bytes] = dict(values.get(UNKNOWN_TAGS, {}))
    for field, writer in tagged:
        value = _value_of(values, field, version)
        if value != default_of(field, version):
            encoded = bytearray()
            _write_field(encoded, field, writer, value)
            sections[field.tag] = bytes(encoded)
    wire.write_unsigned_varint(out, len(sections))
    for tag, section in sorted(sections.items()):
        wire.write_unsigned_varint(out, tag)
        wire.write_unsigned_varint(out, len(section))
        out += section


def _field_writer(field: Field, version: int, flexible: bool) -> Writer:
    nullable = version in field.nullable
    element = field.kind.removeprefix("[]")
    if element != field.kind:
        writer = _type_writer(element, field, version, flexible, nullable=False)
        return wire.array_writer(writer, compact=flexible, nullable=nullable)
    return _type_writer(element, field, version, flexible, nullable=nullable)


def _type_writer(kind: str, field: Field, version: int, flexible: bool, *, nullable: bool) -> Writer:
    if kind == "struct":
        writer = _struct_writer(field.name, field.fields, version, flexible=flexible)
        return _nullable_struct_writer(writer, tagged=version in field.tagged) if nullable else writer
    if kind == "string":
        return wire.string_writer(compact=flexible, nullable=nullable)
    if kind in ("bytes", "records"):
        return wire.bytes_writer(compact=flexible, nullable=nullable)
    return wire.FIXED_WRITERS[kind]


def _nullable_struct_writer(writer: Writer, *, tagged: bool) -> Writer:
    """A struct that may be null has a marker before it.

    The marker is a byte, -1 for null and 1 otherwise; in a tagged field it is a varint, 0 or 1.
    """

    def write(out: bytearray, values: Values | None) -> None:
        if tagged:
            wire.write_unsigned_varint(out, 0 if values is None else 1)
        else:
            wire.write_int8(out, -1 if values is None else 1)
        if values is not None:
            writer(out, values)

    return write
