from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidRecordError
from stratalog.records.internal.dump_text import control_contents, record_contents
from stratalog.records.internal_topics import INTERNAL_TOPICS
from tests.records.internal.vectors import Dumped, dumped, from_a_broker


def printed(record: Dumped) -> str | None:
    """The contents as the tool prints them."""
    if record.topic == "control":
        return control_contents(record.key, record.value)
    contents = record_contents(record.topic, record.offset, record.key, record.value)
    labelled = [("key", contents.key), ("payload", contents.payload)]
    return " ".join(f"{label}: {text}" for label, text in labelled if text is not None)


def test_records_of_a_broker_print_as_the_dump_tool_prints_them() -> None:
    for record in from_a_broker():
        assert printed(record) == record.text


def test_records_by_kafkas_classes_print_as_the_dump_tool_prints_them() -> None:
    for record in dumped():
        assert printed(record) == record.text


def test_the_records_cover_every_topic_and_every_sentence_of_the_tool() -> None:
    texts = [record.text for record in dumped()]

    assert {record.topic for record in dumped()} == {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "control",
    }
    for sentence in (
        "payload: <DELETE>",
        "Unknown record type 99 at offset",
        "Could not read version from key's buffer.",
        "Could not read version from value's buffer.",
        "Found an unknown record version 77 for",
        "with frame version 0.",
        "unknown frame version 2(only",
        "Unknown metadata id 99",
        '"subscription":{"topics"',
    ):
        assert any(sentence in text for text in texts), sentence


def test_a_damaged_value_is_told_in_the_place_of_the_key() -> None:
    contents = record_contents("__consumer_offsets", 7, b"\x00\x02\x00\x01g", b"\x00\x03\x00\x09ab")

    assert contents.payload is None
    assert contents.key == (
        "Error at offset 7, skipping. Could not read record with version 3 from value's buffer "
        "due to: 9 bytes are announced, but 2 are left."
    )


def test_a_record_without_a_key_stops_the_tool() -> None:
    with pytest.raises(InvalidRecordError, match="message had a missing key"):
        record_contents("__share_group_state", 0, None, b"\x00\x00")


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
