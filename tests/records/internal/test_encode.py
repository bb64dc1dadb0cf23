from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidRecordError
from stratalog.records.internal.encode import (
    encode_control,
    encode_coordinator,
    encode_message,
    encode_metadata,
)
from stratalog.records.internal.schema import (
    UNKNOWN_TAGS,
    Field,
    all_schemas,
    decode_message,
    find_schema,
    schema_named,
)
from stratalog.records.internal.topics import UNKNOWN, decode_control, decode_internal
from tests.records.internal.vectors import Dumped, dumped, from_a_broker, messages


def test_every_message_is_the_bytes_of_kafkas_classes() -> None:
    for message in messages():
        schema = schema_named(message.schema)
        values, _ = decode_message(schema, message.version, message.raw)

        assert encode_message(schema, message.version, values) == message.raw, message


def encoded(record: Dumped) -> tuple[bytes | None, bytes | None] | None:
    """Key and value, decoded and encoded again; None if a tool of 4.3.1 cannot read them either."""
    try:
        if record.topic == "control":
            found = decode_control(record.key, record.value)
        else:
            found = decode_internal(record.topic, record.key, record.value)
    except InvalidRecordError:
        return None
    if found.kind == UNKNOWN or found.record_type is None:
        return None
    part = find_schema(found.topic, "value", found.record_type)
    assert part is not None
    if record.topic == "control":
        assert found.value is not None
        return encode_control(part.name, found.value, version=found.value_version or 0)
    if record.topic == "__cluster_metadata":
        assert found.value is not None
        return record.key, encode_metadata(part.name, found.value, version=found.value_version or 0)
    key_schema = find_schema(found.topic, "key", found.record_type)
    assert key_schema is not None
    assert found.key is not None
    return encode_coordinator(
        key_schema.name, found.key, part.name, found.value, version=found.value_version or 0
    )


def test_records_of_a_broker_are_encoded_to_the_same_bytes() -> None:
    for record in from_a_broker():
        assert encoded(record) == (record.key, record.value), record.text


def test_records_of_every_topic_are_encoded_to_the_same_bytes() -> None:
    found = [(record, again) for record in dumped() if (again := encoded(record)) is not None]
    # A name that is not UTF-8 is read with a replacement in it.
    found = [(record, again) for record, again in found if "\N{REPLACEMENT CHARACTER}" not in record.text]

    assert {record.topic for record, _ in found} == {record.topic for record in dumped()}
    assert [record.text for record, again in found if again != (record.key, record.value)] == []
    assert len(found) > 100


INTEGERS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def values_of(
    fields: tuple[Field, ...], version: int, *, flexible: bool
) -> st.SearchStrategy[dict[str, Any]]:
    """Any values that these fields can hold."""
    drawn = {field.name: value_of(field, version, flexible) for field in fields if version in field.versions}
    taken = {field.tag for field in fields if version in field.tagged}
    unknown = st.dictionaries(
        st.integers(0, 2**31 - 1).filter(lambda tag: tag not in taken),
        st.binary(max_size=3),
        min_size=1,
        max_size=2,
    )
    whole = st.fixed_dictionaries(drawn)
    return st.fixed_dictionaries(drawn, optional={UNKNOWN_TAGS: unknown}) if flexible else whole


def value_of(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    element = field.kind.removeprefix("[]")
    one: st.SearchStrategy[Any]
    match element:
        case "struct":
            one = values_of(field.fields, version, flexible=flexible)
        case "string":
            one = NAMES
        case "bytes" | "records":
            one = st.binary(max_size=5)
        case "bool":
            one = st.booleans()
        case "float64":
            one = st.floats(allow_nan=False)
        case "uuid":
            one = st.binary(min_size=16, max_size=16).map(
                lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("=")
            )
        case "uint16" | "uint32":
            one = st.integers(0, 2 ** int(element[4:]) - 1)
        case _:
            bits = INTEGERS[element]
            one = st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    drawn = st.lists(one, max_size=2) if element != field.kind else one
    return st.none() | drawn if version in field.nullable else drawn


@given(st.data())
def test_any_message_is_decoded_to_what_was_encoded(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from(all_schemas()))
    version = data.draw(st.integers(schema.versions.first, schema.versions.last))
    values = data.draw(values_of(schema.fields, version, flexible=version in schema.flexible))

    raw = encode_message(schema, version, values)

    assert decode_message(schema, version, raw) == (values, len(raw))


def test_a_field_that_is_left_out_has_its_default() -> None:
    default = next(
        m for m in messages() if (m.schema, m.variant, m.version) == ("PartitionRecord", "default", 2)
    )

    assert encode_message(schema_named("PartitionRecord"), 2, {}) == default.raw


@pytest.mark.parametrize(
    ("name", "version", "values", "words"),
    [
        ("TopicRecord", 1, {}, "TopicRecord has versions 0 to 0, not 1"),
        ("TopicRecord", 0, {"id": 1}, "TopicRecord has no field id in version 0"),
        ("PartitionRecord", 0, {"directories": []}, "PartitionRecord has no field directories in version 0"),
        ("TopicRecord", 0, {"name": None}, "name: null instead of a string"),
        (
            "TopicRecord",
            0,
            {"name": "a" * 32768},
            "name: a string of 32768 bytes, but at most 32767 are allowed",
        ),
        ("TopicRecord", 0, {"topicId": "abc"}, "topicId: 'abc' is not a uuid in base64"),
        ("TopicRecord", 0, {"topicId": "AAAA"}, "topicId: 'AAAA' is not a uuid in base64"),
        ("PartitionRecord", 1, {"replicas": None}, "replicas: null instead of an array"),
        ("PartitionRecord", 1, {"leader": 2**31}, "leader: 2147483648 is not a value of int32"),
        ("PartitionRecord", 1, {"replicas": ["a"]}, "replicas: 'a' is not a value of int32"),
        ("VotersRecord", 0, {"voters": [3]}, "voters: 3 is not a struct of voters"),
        (
            "GroupMetadataValue",
            0,
            {"members": [{"subscription": None}]},
            "members: subscription: null instead of bytes",
        ),
    ],
)
def test_what_a_message_cannot_hold_is_refused(
    name: str, version: int, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidRecordError) as raised:
        encode_message(schema_named(name), version, values)

    assert words in raised.value.reason
