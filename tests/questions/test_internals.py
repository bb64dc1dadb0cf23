"""Records of internal topics, against what Kafka's own dump tool printed of the same files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from stratalog.questions.internals import columns_for, with_messages
from tests.jobs.decoded import FIXTURES, dumped_parts, parts

COLUMNS = ("offset", "key", "value", "topic")


def messages(logs: Path, topic: str) -> list[dict[str, object]]:
    found = [
        batch
        for task in plan_read(ReadOptions.parse({"path": str(logs), "subscribe": topic}))
        for batch in with_messages(topic, read_task(task, columns_for(COLUMNS)), COLUMNS)
    ]
    return list(pa.Table.from_batches(found).to_pylist())


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("name", TABLE_TOPICS)
def test_keys_and_values_are_what_kafka_prints(name: str, state: str) -> None:
    dumped = {offset: text for offset, text in dumped_parts(name, state)[0].items() if "payload: " in text}

    rows = messages(FIXTURES / state / "logs", TABLE_TOPICS[name])

    assert {row["offset"] for row in rows} == dumped.keys()
    for row in rows:
        shown = tuple(None if row[part] is None else json.loads(str(row[part])) for part in ("key", "value"))
        assert shown == parts(dumped[int(str(row["offset"]))])


def test_the_state_of_share_groups_is_decoded() -> None:
    text = (FIXTURES / "clean" / "dump" / "__share_group_state-0.decoded.txt").read_text("utf-8")

    rows = messages(FIXTURES / "clean" / "logs", "__share_group_state")

    assert rows
    for row in rows:
        assert json.loads(str(row["key"]))["groupId"] in text


def test_a_record_that_cannot_be_decoded_keeps_its_bytes() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array([5], pa.int64()),
            "key": pa.array([b"\0\x63\xff"], pa.binary()),
            "value": pa.array([b"text"], pa.binary()),
            "topic": pa.array(["__consumer_offsets"]),
            "partition": pa.array([0], pa.int32()),
            "timestamp": pa.array([0], pa.timestamp("us", tz="UTC")),
            "isControl": pa.array([False]),
        }
    )

    (found,) = with_messages("__consumer_offsets", [batch], COLUMNS)

    assert found["key"].to_pylist() == ['"\\u0000c\\\\xff"']
    assert found["value"].to_pylist() == ['"text"']
