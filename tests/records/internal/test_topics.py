from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import InvalidRecordError
from stratalog.records.internal.dump_text import control_contents
from stratalog.records.internal.topics import UNKNOWN, decode_control, decode_internal
from tests.records.internal.damage import mutate
from tests.records.internal.vectors import Dumped, dumped, from_a_broker, messages

# Records that a broker wrote; what they say is in vectors.jsonl, by the dump tool.
TOPIC = next(record for record in from_a_broker() if '"TOPIC_RECORD"' in record.text)
LEADER_CHANGE = next(record for record in from_a_broker() if record.text.startswith("LeaderChange"))
COMMIT = next(
    record for record in from_a_broker() if '"group":"group-a","topic":"codecs","partition":0' in record.text
)


def test_an_offset_commit_is_decoded() -> None:
    record = decode_internal("__consumer_offsets", COMMIT.key, COMMIT.value)

    assert record.kind == "OFFSET_COMMIT"
    assert record.record_type == 1
    assert record.key == {"group": "group-a", "topic": "codecs", "partition": 0}
    assert record.value_version == 4
    assert record.value is not None
    assert record.value["offset"] == 44
    assert record.value["topicId"] == "gtnTocUMT0qGKh9F65yLOw"
    assert (record.raw_key, record.raw_value) == (COMMIT.key, COMMIT.value)


def test_a_metadata_record_has_no_key() -> None:
    record = decode_internal("__cluster_metadata", TOPIC.key, TOPIC.value)

    assert record.kind == "TOPIC_RECORD"
    assert record.key is None
    assert record.value is not None
    assert set(record.value) == {"name", "topicId"}


def test_a_control_record_is_decoded() -> None:
    record = decode_control(LEADER_CHANGE.key, LEADER_CHANGE.value)

    assert record.kind == "LEADER_CHANGE"
    assert record.value is not None
    assert record.value["leaderId"] == 1


def test_a_leader_change_of_version_1_is_read_as_what_it_says_it_is() -> None:
    message = next(m for m in messages() if (m.schema, m.version) == ("LeaderChangeMessage", 1))

    record = decode_control(b"\x00\x00\x00\x02", message.raw)

    assert record.value_version == 1
    assert record.value is not None
    assert len(record.value["voters"]) == 2
    assert all(len(voter["voterDirectoryId"]) == 22 for voter in record.value["voters"])


def test_a_null_value_is_a_tombstone() -> None:
    record = decode_internal("__consumer_offsets", COMMIT.key, None)

    assert record.kind == "OFFSET_COMMIT"
    assert record.is_tombstone
    assert record.value is None


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("__consumer_offsets", b"\x00\x63abc", b"\x00\x00abc"),
        ("__consumer_offsets", b"\xff\xff", None),
        ("__consumer_offsets", b"\x00\x02\x00\x01g", b"\x00\x63abc"),
        ("__cluster_metadata", None, b"\x01\x63\x00abc"),
        ("__cluster_metadata", None, b"\x01\x02\x63abc"),
        ("__cluster_metadata", None, b"\x02abc"),
    ],
    ids=["type", "negative type", "value version", "metadata type", "metadata version", "metadata frame"],
)
def test_what_kafka_does_not_know_is_shown_raw(topic: str, key: bytes | None, value: bytes | None) -> None:
    record = decode_internal(topic, key, value)

    assert record.kind == UNKNOWN
    assert record.value is None
    assert (record.raw_key, record.raw_value) == (key, value)


def test_a_transaction_marker_is_none_of_krafts_messages() -> None:
    assert decode_control(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00").kind == UNKNOWN


def test_bytes_behind_a_metadata_record_are_refused() -> None:
    assert TOPIC.value is not None
    with pytest.raises(InvalidRecordError, match="1 bytes after TOPIC_RECORD"):
        decode_internal("__cluster_metadata", None, TOPIC.value + b"\x00")


def test_bytes_behind_a_coordinators_message_are_ignored() -> None:
    assert COMMIT.key is not None
    assert COMMIT.value is not None

    longer = decode_internal("__consumer_offsets", COMMIT.key + b"\x00", COMMIT.value + b"\x00")

    assert longer.value == decode_internal("__consumer_offsets", COMMIT.key, COMMIT.value).value


def test_a_coordinators_record_needs_a_key() -> None:
    with pytest.raises(InvalidRecordError, match="without a key"):
        decode_internal("__transaction_state", None, b"\x00\x00")


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
