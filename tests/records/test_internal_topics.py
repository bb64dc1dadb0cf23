"""Which topics are Kafka's own."""

from __future__ import annotations

import pytest

from stratalog.records.internal.topics import decode_internal
from stratalog.records.internal_topics import is_internal
from tests.records.internal.vectors import dumped, from_a_broker

# Records that a broker wrote; what they say is in vectors.jsonl, by the dump tool.
TOPIC = next(record for record in from_a_broker() if '"TOPIC_RECORD"' in record.text)
LEADER_CHANGE = next(record for record in from_a_broker() if record.text.startswith("LeaderChange"))
COMMIT = next(
    record for record in from_a_broker() if '"group":"group-a","topic":"codecs","partition":0' in record.text
)


def test_only_topics_with_schemas_are_internal() -> None:
    assert all(is_internal(record.topic) for record in dumped() if record.topic != "control")
    assert not is_internal("__remote_log_metadata")
    with pytest.raises(KeyError):
        decode_internal("orders", b"", b"")
