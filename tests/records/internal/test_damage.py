"""Whatever the bytes are: values, or our own error."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidRecordError
from stratalog.records.internal.dump_text import control_contents, record_contents
from stratalog.records.internal.json_text import to_json
from stratalog.records.internal.schema import Schema, all_schemas, decode_message, schema_named
from stratalog.records.internal.topics import decode_control, decode_internal
from stratalog.records.internal_topics import INTERNAL_TOPICS
from tests.records.internal.vectors import Dumped, Message, dumped, messages

FULL = [message for message in messages() if message.variant == "full"]


def decode_or_refuse(schema: Schema, version: int, raw: bytes) -> None:
    with suppress(InvalidRecordError):
        values, end = decode_message(schema, version, raw)
        assert 0 <= end <= len(raw)
        json.loads(to_json(schema, version, values))


def mutate(raw: bytes, data: st.DataObject) -> bytes:
    """The same bytes with a few changed, cut out or put in."""
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(changed)))
        length = data.draw(st.integers(0, 4))
        changed[start : start + length] = data.draw(
            st.binary(max_size=8)
            | st.sampled_from([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"])
        )
    return bytes(changed)


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


@given(st.sampled_from(dumped()), st.data())
def test_mutated_records_are_decoded_or_refused(record: Dumped, data: st.DataObject) -> None:
    key = None if record.key is None else mutate(record.key, data)
    value = None if record.value is None else mutate(record.value, data)

    with suppress(InvalidRecordError):
        if record.topic == "control":
            decode_control(key, value)
            control_contents(key, value)
        else:
            decode_internal(record.topic, key, value)


@given(
    st.sampled_from(sorted(INTERNAL_TOPICS)),
    st.binary(max_size=40),
    st.none() | st.binary(max_size=60),
    st.data(),
)
def test_the_dump_text_of_a_record_with_a_key_is_always_there(
    topic: str, key: bytes, value: bytes | None, data: st.DataObject
) -> None:
    # Half of the keys start with a type that exists, or nothing but the unknown would be seen.
    if data.draw(st.booleans()):
        key = data.draw(st.integers(0, 25)).to_bytes(2, "big") + key

    contents = record_contents(topic, 5, key, value)

    assert contents.key is not None or contents.payload is not None


def test_lengths_at_the_edge_of_int32_do_not_allocate() -> None:
    for lie in (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"):
        for schema in all_schemas():
            for version in range(schema.versions.first, schema.versions.last + 1):
                decode_or_refuse(schema, version, lie * 20)
