"""`stratalog explain` beside a running broker: its answer for a segment, and what the broker does."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stratalog.cli.main import run
from tests.kafka.clients import create_topic, producer
from tests.kafka.conftest import MakeBroker
from tests.waiting import PATIENCE_S, until

COUNT = 300
OLD_MS = 3_600_000
# The high watermark is checkpointed every five seconds by default: here not before the test is over.
PROPERTIES = {
    "replica.high.watermark.checkpoint.interval.ms": "600000",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "20000",
}


def test_what_a_running_broker_deletes_next_is_said_to_go_once_it_is_replicated(
    make_broker: MakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES)
    create_topic(broker.bootstrap, "t", config={"retention.ms": "60000", "segment.ms": "1800000"})
    client = producer(broker.bootstrap)
    moment = int(time.time() * 1000) - OLD_MS
    for number in range(COUNT):
        client.produce("t", value=b"%04d" % number, partition=0, timestamp=moment + number)
    assert client.flush(PATIENCE_S) == 0
    log = broker.log_dir / "t-0" / f"{0:020d}.log"

    assert run(["explain", "--config", str(tmp_path / "server.properties"), "--topic", "t", "--json"]) == 0

    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    (segment,) = partition["segments"]
    assert partition["log_end_offset"] == COUNT
    assert not segment["is_file_time"]
    assert segment["largest_timestamp"] == moment + COUNT - 1
    assert (segment["rule"], segment["goes"]) == ("high watermark", False)
    assert segment["if_replicated"]["goes"]
    assert segment["if_replicated"]["rule"] == "retention.ms"
    until(lambda: not log.exists())  # the broker knows that it is replicated
