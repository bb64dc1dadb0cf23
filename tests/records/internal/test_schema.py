from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidRecordError
from stratalog.records.internal.json_text import to_json
from stratalog.records.internal.schema import (
    UNKNOWN_TAGS,
    Schema,
    Versions,
    all_schemas,
    decode_message,
    find_schema,
    schema_named,
)
from tests.records.internal.damage import mutate
from tests.records.internal.vectors import Message, messages


def named(schema: str, variant: str, version: int = 0) -> Message:
    return next(m for m in messages() if (m.schema, m.variant, m.version) == (schema, variant, version))


def test_the_vectors_have_every_version_of_every_schema() -> None:
    in_table = {
        (schema.name, version)
        for schema in all_schemas()
        for version in range(schema.versions.first, schema.versions.last + 1)
    }

    assert {(message.schema, message.version) for message in messages()} == in_table


def test_every_message_of_kafka_is_read_to_its_last_byte() -> None:
    for message in messages():
        _, end = decode_message(schema_named(message.schema), message.version, message.raw)

        assert end == len(message.raw), message


def test_a_message_is_read_from_where_it_starts() -> None:
    message = named("OffsetCommitValue", "full", version=4)
    schema = schema_named(message.schema)

    alone, _ = decode_message(schema, 4, message.raw)
    inside, end = decode_message(schema, 4, memoryview(b"abc" + message.raw + b"def"), 3)

    assert inside == alone
    assert end == 3 + len(message.raw)


def test_record_types_have_kafkas_names() -> None:
    for message in messages():
        assert schema_named(message.schema).kind == message.kind


def test_tags_that_no_schema_has_are_kept_as_bytes() -> None:
    message = named("ShareSnapshotValue", "odd")

    values, _ = decode_message(schema_named(message.schema), 0, message.raw)

    assert values[UNKNOWN_TAGS] == {1000: b"\x01\x02\x03", 70000: b""}


def test_a_tagged_field_that_is_not_there_has_its_default() -> None:
    message = named("ShareSnapshotValue", "default")

    values, _ = decode_message(schema_named(message.schema), 0, message.raw)

    assert values["deliveryCompleteCount"] == -1


def test_a_tagged_struct_with_an_unquoted_null_default_is_empty_and_not_null() -> None:
    absent = named("ConsumerGroupMemberMetadataValue", "default")
    null = named("ConsumerGroupMemberMetadataValue", "nulls")
    schema = schema_named("ConsumerGroupMemberMetadataValue")

    assert decode_message(schema, 0, absent.raw)[0]["classicMemberMetadata"] == {
        "sessionTimeoutMs": 0,
        "supportedProtocols": [],
    }
    assert decode_message(schema, 0, null.raw)[0]["classicMemberMetadata"] is None


def test_defaults_are_not_shared_between_messages() -> None:
    message = named("ConsumerGroupMemberMetadataValue", "default")
    schema = schema_named(message.schema)

    first, _ = decode_message(schema, 0, message.raw)
    first["classicMemberMetadata"]["supportedProtocols"].append("changed")

    assert decode_message(schema, 0, message.raw)[0]["classicMemberMetadata"]["supportedProtocols"] == []


def test_fields_of_other_versions_are_not_there() -> None:
    old = named("OffsetCommitValue", "full", version=1)
    schema = schema_named("OffsetCommitValue")

    values, _ = decode_message(schema, 1, old.raw)

    assert list(values) == ["offset", "metadata", "commitTimestamp", "expireTimestamp"]


def test_a_version_outside_the_schema_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="OffsetCommitValue has versions 0 to 4, not 5"):
        decode_message(schema_named("OffsetCommitValue"), 5, bytes(100))


def test_a_tagged_field_of_another_size_than_announced_is_refused() -> None:
    # epoch 0, one tagged field: tag 0 (int64), announced as 7 bytes
    with pytest.raises(InvalidRecordError, match="metadataHash has 8 bytes, but 7 were announced"):
        decode_message(
            schema_named("ConsumerGroupMetadataValue"), 0, bytes.fromhex("00000000 01 00 07") + bytes(8)
        )


def test_null_is_refused_where_the_schema_has_none() -> None:
    with pytest.raises(InvalidRecordError, match="null instead of a string"):
        decode_message(schema_named("GroupMetadataKey"), 0, b"\xff\xff")


def test_a_record_type_that_kafka_does_not_know_has_no_schema() -> None:
    assert find_schema("__consumer_offsets", "key", 9) is None
    assert find_schema("__cluster_metadata", "value", 99) is None


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("none", [], [0]), ("3", [3], [2, 4]), ("1-2", [1, 2], [0, 3]), ("2+", [2, 9], [1])],
)
def test_kafkas_notation_of_versions(text: str, inside: list[int], outside: list[int]) -> None:
    versions = Versions.parse(text)

    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


FULL = [message for message in messages() if message.variant == "full"]


def decode_or_refuse(schema: Schema, version: int, raw: bytes) -> None:
    with suppress(InvalidRecordError):
        values, end = decode_message(schema, version, raw)
        assert 0 <= end <= len(raw)
        json.loads(to_json(schema, version, values))


@given(st.sampled_from(all_schemas()), st.data())
def test_random_bytes_are_decoded_or_refused(schema: Schema, data: st.DataObject) -> None:
    version = data.draw(st.integers(schema.versions.first, schema.versions.last))

    decode_or_refuse(schema, version, data.draw(st.binary(max_size=200)))


@given(st.sampled_from(messages()), st.data())
def test_mutated_messages_are_decoded_or_refused(message: Message, data: st.DataObject) -> None:
    decode_or_refuse(schema_named(message.schema), message.version, mutate(message.raw, data))


@given(st.sampled_from([message for message in FULL if message.raw]), st.data())
def test_a_message_cut_short_is_refused(message: Message, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(message.raw) - 1))

    with pytest.raises(InvalidRecordError):
        decode_message(schema_named(message.schema), message.version, message.raw[:cut])


def test_lengths_at_the_edge_of_int32_do_not_allocate() -> None:
    for lie in (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"):
        for schema in all_schemas():
            for version in range(schema.versions.first, schema.versions.last + 1):
                decode_or_refuse(schema, version, lie * 20)
