"""The one reader of Kafka's message schemas: a table of fields in, a reader for each version out.

A message has a version, and a schema says for each field in which versions it exists, may be null, or is
tagged. In its flexible versions a message uses the compact forms of `wire`, and each struct, the message
itself included, ends with tagged fields:

    unsigned varint     how many follow
    unsigned varint     tag     | once for each
    unsigned varint     size    |
    size bytes          value   |

A missing tagged field has its default. An unknown tag was written by a newer Kafka: its value is kept as
bytes under UNKNOWN_TAGS.

A schema is compiled once for each version, into readers that call each other; readers nest only as deep as
the schema, so no bytes can make them recurse.

`tools/read_kafka_schemas.py` makes the table. Kafka: MessageDataGenerator.java
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from stratalog.buffers import Buffer
from stratalog.errors import InvalidRecordError
from stratalog.records.internal import wire
from stratalog.records.internal.wire import FieldValue, Reader

TABLE = "kafka_4_3_1.json"
# Where a decoded struct keeps the tagged fields that its schema does not name: {tag: bytes}.
UNKNOWN_TAGS = "_unknownTaggedFields"
_NULL_UUID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """A closed range of versions; empty if `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Kafka's notation: `none`, `3`, `1-4` or `2+`."""
        if text == "none":
            return cls(first=0, last=-1)
        if text.endswith("+"):
            return cls(first=int(text[:-1]), last=wire.STRING_MAX)
        first, _, last = text.partition("-")
        return cls(first=int(first), last=int(last or first))

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a message or of a struct in it."""

    name: str
    kind: str  # a type of `wire`, "struct", or one of these after "[]"
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    fields: tuple[Field, ...]  # of the struct, or of the array's structs
    default: FieldValue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """One kind of message, in all its versions.

    `topic` is the internal topic whose records it describes, "control" for KRaft's control records,
    "embedded" for messages in fields of others. `api_key` is Kafka's number of the record type, `kind` its
    name.
    """

    name: str
    topic: str
    part: str  # "key" or "value"; "" if embedded
    api_key: int
    kind: str
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


def decode_message(
    schema: Schema, version: int, buffer: Buffer, position: int = 0
) -> tuple[dict[str, FieldValue], int]:
    """The fields that this version of the message has, in the schema's order, and the position after it.

    Numbers are int or float, a uuid is Kafka's base64 text, structs are dicts. Raises InvalidRecordError for
    bytes that are not such a message, and for a version that the schema does not have.
    """
    if version not in schema.versions:
        raise InvalidRecordError(
            f"{schema.name} has versions {schema.versions.first} to {schema.versions.last}, not {version}",
            position=position,
        )
    return _message_reader(schema, version)(buffer, position)


def all_schemas() -> tuple[Schema, ...]:
    """Every schema of the checked-in table."""
    return tuple(map(schema_named, _lines()))


@cache
def schema_named(name: str) -> Schema:
    """The schema with Kafka's name for it, such as `OffsetCommitValue`; KeyError if there is none."""
    return _schema(_lines()[name])


@cache
def find_schema(topic: str, part: str, api_key: int) -> Schema | None:
    """The schema of the records with this type number; None if Kafka 4.3.1 does not know the type."""
    for name, line in _lines().items():
        if (line["topic"], line.get("part", ""), line.get("api_key", -1)) == (topic, part, api_key):
            return schema_named(name)
    return None


def default_of(field: Field, version: int) -> FieldValue:
    """The value of a field that is missing."""
    if isinstance(field.default, dict):
        return {inner.name: default_of(inner, version) for inner in field.fields if version in inner.versions}
    # A fresh list each time: the decoded message belongs to the caller, who may change it.
    return [] if field.default == [] else field.default


# The table is JSON: its lines are dicts of anything until they are fields. Most programs need few of them.
@cache
def _lines() -> dict[str, Mapping[str, Any]]:
    # `importlib.resources` would import zipfile, tempfile and shutil.
    text = pkgutil.get_data(str(__package__), TABLE)
    assert text is not None, "a loader of this package cannot read its files"
    return {line["name"]: line for line in json.loads(text)["schemas"]}


def _schema(line: Mapping[str, Any]) -> Schema:
    return Schema(
        name=line["name"],
        topic=line["topic"],
        part=line.get("part", ""),
        api_key=line.get("api_key", -1),
        kind=line.get("kind", ""),
        versions=Versions.parse(line["versions"]),
        flexible=Versions.parse(line["flexible"]),
        fields=tuple(_field(inner) for inner in line["fields"]),
    )


def _field(line: Mapping[str, Any]) -> Field:
    return Field(
        name=line["name"],
        kind=line["type"],
        versions=Versions.parse(line.get("versions", "0+")),
        nullable=Versions.parse(line.get("nullable", "none")),
        tagged=Versions.parse(line.get("tagged", "none")),
        tag=line.get("tag", -1),
        fields=tuple(_field(inner) for inner in line.get("fields", ())),
        default=line.get("default", _zero(line["type"])),
    )


def _zero(kind: str) -> FieldValue:
    if kind.startswith("[]"):
        return []
    zeros = {
        "bool": False,
        "float64": 0.0,
        "string": "",
        "bytes": b"",
        "records": None,
        "uuid": _NULL_UUID,
        "struct": {},
    }
    return zeros.get(kind, 0)


@cache
def _message_reader(schema: Schema, version: int) -> Reader:
    return _struct_reader(schema.fields, version, flexible=version in schema.flexible)


def _struct_reader(fields: tuple[Field, ...], version: int, *, flexible: bool) -> Reader:
    present = [field for field in fields if version in field.versions]
    names = [field.name for field in present]
    plain = [(f.name, _field_reader(f, version, flexible)) for f in present if version not in f.tagged]
    tagged = {f.tag: (f.name, _field_reader(f, version, flexible)) for f in present if version in f.tagged}
    defaults = [field for field in present if version in field.tagged]

    def read(buffer: Buffer, position: int) -> tuple[dict[str, FieldValue], int]:
        # All names are set first, so that tagged fields are in the schema's order and not at the end.
        values: dict[str, FieldValue] = dict.fromkeys(names)
        for name, reader in plain:
            values[name], position = reader(buffer, position)
        for field in defaults:
            values[field.name] = default_of(field, version)
        if flexible:
            position = _read_tagged(buffer, position, tagged, values)
        return values, position

    return read


def _read_tagged(
    buffer: Buffer, position: int, tagged: Mapping[int, tuple[str, Reader]], values: dict[str, FieldValue]
) -> int:
    count, position = wire.read_unsigned_varint(buffer, position)
    for _ in range(count):
        tag, position = wire.read_unsigned_varint(buffer, position)
        size, start = wire.read_unsigned_varint(buffer, position)
        if tag in tagged:
            name, reader = tagged[tag]
            values[name], end = reader(buffer, start)
            if end - start != size:
                raise InvalidRecordError(
                    f"tagged field {name} has {end - start} bytes, but {size} were announced",
                    position=position,
                )
        else:
            raw, end = wire.read_slice(buffer, start, size)
            values.setdefault(UNKNOWN_TAGS, {})[tag] = raw
        position = end
    return position


def _field_reader(field: Field, version: int, flexible: bool) -> Reader:
    nullable = version in field.nullable
    element = field.kind.removeprefix("[]")
    if element != field.kind:
        # The elements of an array are never null; only the array may be.
        reader = _type_reader(element, field, version, flexible, nullable=False)
        return wire.array_reader(reader, compact=flexible, nullable=nullable)
    return _type_reader(element, field, version, flexible, nullable=nullable)


def _type_reader(kind: str, field: Field, version: int, flexible: bool, *, nullable: bool) -> Reader:
    if kind == "struct":
        reader = _struct_reader(field.fields, version, flexible=flexible)
        return _nullable_struct_reader(reader, tagged=version in field.tagged) if nullable else reader
    if kind == "string":
        return wire.string_reader(compact=flexible, nullable=nullable)
    if kind in ("bytes", "records"):
        return wire.bytes_reader(compact=flexible, nullable=nullable)
    return wire.FIXED_READERS[kind]


def _nullable_struct_reader(reader: Reader, *, tagged: bool) -> Reader:
    """A struct that may be null has a marker before it.

    The marker is a byte, negative for null; in a tagged field it is a varint, 0 for null.
    """
    read_marker = wire.read_compact_length if tagged else wire.read_int8

    def read(buffer: Buffer, position: int) -> tuple[dict[str, FieldValue] | None, int]:
        marker, position = read_marker(buffer, position)
        if marker < 0:
            return None, position
        return reader(buffer, position)

    return read
