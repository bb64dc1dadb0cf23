"""Records of internal topics, against what Kafka's own dump tool printed of the same files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from stratalog.questions.internals import columns_for, with_messages
from tests.jobs.decoded import FIXTURES, RECORD

COLUMNS = ("offset", "key", "value", "topic")


def messages(logs: Path, topic: str) -> list[dict[str, object]]:
    found = [
        batch
        for task in plan_read(ReadOptions.parse({"path": str(logs), "subscribe": topic}))
        for batch in with_messages(topic, read_task(task, columns_for(COLUMNS)), COLUMNS)
    ]
    return list(pa.Table.from_batches(found).to_pylist())


TOPICS = [*TABLE_TOPICS.values(), "__share_group_state"]


def printed_by_kafka(topic: str, state: str) -> dict[int, str]:
    """The key and the payload of each record of the log, as the tool has printed them."""
    text = (FIXTURES / state / "dump" / f"{topic}-0.decoded.txt").read_text("utf-8")
    log = text.split(".checkpoint\n")[0]
    return {int(match[1]): match[3] for match in RECORD.finditer(log) if "payload: " in match[3]}


@pytest.mark.parametrize("state", ["clean", "killed"])
@pytest.mark.parametrize("topic", TOPICS)
def test_type_and_version_are_printed_as_kafka_prints_them(topic: str, state: str) -> None:
    rows = messages(FIXTURES / state / "logs", topic)

    def line(row: dict[str, object]) -> str:
        payload = "<DELETE>" if row["value"] is None else row["value"]
        return f"payload: {payload}" if row["key"] is None else f"key: {row['key']} payload: {payload}"

    assert {row["offset"]: line(row) for row in rows} == printed_by_kafka(topic, state)
    assert rows


def test_a_record_that_cannot_be_decoded_keeps_its_bytes() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "offset": pa.array([5], pa.int64()),
            "key": pa.array([b"\0\x63\xff"], pa.binary()),
            "value": pa.array([b"text"], pa.binary()),
            "topic": pa.array(["__consumer_offsets"]),
        }
    )

    (found,) = with_messages("__consumer_offsets", [batch], COLUMNS)

    assert found["key"].to_pylist() == ['"\\u0000c\\\\xff"']
    assert found["value"].to_pylist() == ['"text"']
