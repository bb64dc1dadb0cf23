"""Kafka on what `recover --salvage` has left: gaps, an empty segment, a transaction without its marker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from stratalog.cli.main import run
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, produce, producer
from tests.kafka.conftest import MakeBroker, had
from tests.kafka.jars import KafkaJars
from tests.kafka.java import JavaProgram
from tests.kafka.log_oracle import Json
from tests.log.recovery.test_salvaging import segments
from tests.waiting import PATIENCE_S, until

MARKER = ".kafka_cleanshutdown"


@pytest.mark.parametrize(("words", "end"), [("1 # . | 1 1 | 1c .", 7), (". 1 # | 1 # . | 1a 1 1c", 9)])
def test_kafka_loads_a_salvaged_log_and_would_recover_it_to_the_same(
    kafka_jars: KafkaJars, tmp_path: Path, words: str, end: int
) -> None:
    partition = tmp_path / "data" / "orders-0"
    partition.mkdir(parents=True)
    for base, batches in segments(words).items():
        (partition / f"{base:020d}.log").write_bytes(b"".join(data for _, data in batches))
    assert run(["recover", "--salvage", str(tmp_path / "data")]) == 1
    left = logs(partition)

    with had(lambda: JavaProgram(kafka_jars, "RecoveryOracle")) as kafka:
        clean = load(kafka, tmp_path / "data")
        (tmp_path / "data" / MARKER).unlink()
        (tmp_path / "data" / "recovery-point-offset-checkpoint").unlink()
        unclean = load(kafka, tmp_path / "data")

    for answer in (clean, unclean):
        assert answer.get("offline") == [], answer
        assert (answer["logs"]["orders-0"]["logEnd"], answer["logs"]["orders-0"]["segments"]) == (end, 3)
    assert logs(partition) == left


def test_readers_of_committed_records_wait_at_a_lost_marker_until_the_transaction_is_ended(
    make_broker: MakeBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker = make_broker(work=tmp_path, properties={"log.index.size.max.bytes": "4096"})
    create_topic(broker.bootstrap, "orders", config={"internal.segment.bytes": "4000"})
    transactional = producer(broker.bootstrap, transactional_id="t")
    transactional.init_transactions(PATIENCE_S)
    plain = producer(broker.bootstrap)
    produce(plain, "orders", [{"value": b"before"}])
    transactional.begin_transaction()
    produce(transactional, "orders", [{"value": b"in a transaction"}])
    produce(plain, "orders", [{"value": b"x" * 100}] * 100, batch=5)
    transactional.commit_transaction(PATIENCE_S)
    produce(plain, "orders", [{"value": b"y" * 100}] * 100, batch=5)
    broker.kill()
    lost = damage_the_marker(broker.log_dir / "orders-0")

    assert run(["recover", "--salvage", "--json", str(broker.log_dir)]) == 1
    report = json.loads(capsys.readouterr().out)
    (orders,) = [
        found for found in report["directories"][0]["partitions"] if found["partition"] == "orders-0"
    ]
    (cut,) = orders["cuts"]
    assert (cut["first_offset"], cut["last_offset"]) == (lost, lost)
    (told,) = [finding for finding in orders["findings"] if finding["kind"] == "stuck_readers"]
    assert "The last stable offset stays at 1:" in told["consequence"]

    broker.start()
    assert committed(broker, "orders") == 1
    words = told["consequence"].partition("HOST:PORT ")[2].rstrip("`.").split()
    broker.tool("transactions", *words)
    until(lambda: committed(broker, "orders") > 200, "the records behind the gap")


def damage_the_marker(partition: Path) -> int:
    """Flip a bit of the only control batch, under its checksum; returns its offset."""
    for log in partition.glob("*.log"):
        data, position = bytearray(log.read_bytes()), 0
        while position < len(data):
            if data[position + 22] & 1 << 5:
                data[position + 60] ^= 1
                log.write_bytes(data)
                return int.from_bytes(data[position : position + 8], "big")
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    raise AssertionError("no marker")


def committed(broker: Broker, topic: str) -> int:
    """The last stable offset: where a reader of committed records ends."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})
    asked = admin.list_offsets(
        {TopicPartition(topic, 0): OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED
    )
    return int(asked[TopicPartition(topic, 0)].result(PATIENCE_S).offset)


def load(kafka: JavaProgram, directory: Path) -> Json:
    given = {"dirs": [str(directory)], "broker": {"log.cleaner.enable": "false"}, "topics": {}, "epoch": 1}
    return json.loads(kafka.ask(json.dumps(given)))


def logs(partition: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(partition.glob("*.log"))}
