"""`stratalog retain` and `compact` on a stopped broker's directory, and the broker that starts on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from stratalog.cli.main import run
from stratalog.log.task_folders import FOLDER_PREFIX
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.test_recover import repairs
from tests.waiting import PATIENCE_S

SMALL = {"internal.segment.bytes": "2000", "segment.index.bytes": "4096"}
COUNT, KEYS = 300, 7
PROPERTIES = {"log.retention.ms": "-1", "log.cleaner.enable": "false"}


@pytest.mark.parametrize(
    "engine", [[], pytest.param(["--master", "local[2]"], marks=pytest.mark.deep)], ids=["threads", "spark"]
)
def test_a_broker_starts_on_a_retained_and_compacted_directory_as_after_a_clean_stop(
    make_broker: MakeBroker, tmp_path: Path, engine: list[str]
) -> None:
    broker = make_broker(work=tmp_path, properties=PROPERTIES)
    create_topic(broker.bootstrap, "limited", config={**SMALL, "retention.bytes": "6000"})
    create_topic(broker.bootstrap, "compacted", config={**SMALL, "cleanup.policy": "compact"})
    for topic in ("limited", "compacted"):
        send(broker, topic)
    broker.stop()
    marker = json.loads((broker.log_dir / ".kafka_cleanshutdown").read_text())
    first = min(int(path.stem) for path in (broker.log_dir / "compacted-0").glob("*.log"))
    active = max(int(path.stem) for path in (broker.log_dir / "compacted-0").glob("*.log"))
    config = str(tmp_path / "server.properties")

    assert run(["retain", "--config", config]) == 0
    assert run(["compact", "--config", config, "--topic", "compacted", *engine]) == 0
    # As a compaction on a cluster leaves it if the driver is killed.
    left = broker.log_dir / "compacted-0" / f"{FOLDER_PREFIX}0" / "0-1"
    left.mkdir(parents=True)
    (left / f"{0:020d}.log.cleaned").write_bytes(b"half a batch")

    assert json.loads((broker.log_dir / ".kafka_cleanshutdown").read_text()) == marker
    start = min(int(path.stem) for path in (broker.log_dir / "limited-0").glob("*.log"))
    assert list((broker.log_dir / "limited-0").glob("*.log.deleted"))
    assert start > first == 0
    broker.start()
    assert not repairs(broker)
    assert broker.log_lines(r"Skipping recovery of \d+ logs")
    assert broker.wait_for_line(r"Generated 0 record\(s\)")  # the epoch told the controller of a clean stop
    assert [offset for offset, _ in consumed(broker, "limited", COUNT - start)] == list(range(start, COUNT))
    last = sorted({number % KEYS: number for number in range(active)}.values())
    expected = [*last, *range(active, COUNT)]
    assert consumed(broker, "compacted", len(expected)) == [(number, b"%04d" % number) for number in expected]
    assert not list(broker.log_dir.glob("*-0/*.deleted"))  # its load removes them


def send(broker: Broker, topic: str) -> None:
    """A record to a batch, so that segments are many."""
    with_one = producer(broker.bootstrap, **{"batch.num.messages": 1})
    for number in range(COUNT):
        with_one.produce(topic, key=b"%d" % (number % KEYS), value=b"%04d" % number, partition=0)
    assert with_one.flush(PATIENCE_S) == 0


def consumed(broker: Broker, topic: str, count: int) -> list[tuple[int, bytes]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.auto.commit": False, **QUIET}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[tuple[int, bytes]] = []
        while len(found) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()
