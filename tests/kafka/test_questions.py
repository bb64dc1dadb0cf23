"""`offsets`, `groups` and `transactions` beside a running broker, and what Kafka's own tools say of it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import stratalog
from stratalog.cli import main
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, delete_records, produce, producer
from tests.kafka.conftest import MakeBroker, had
from tests.kafka.jars import resolve
from tests.log.model import produced
from tests.waiting import PATIENCE_S, until

T0 = 1_700_000_000_000
TIMES = ["latest", "earliest", "max-timestamp", str(T0), str(T0 + 50_500), str(T0 + 90_000), str(T0 + 10**9)]
# A broker writes the starts of its logs to disk every minute by default, and deletes records as old as these.
PROMPT = {
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.retention.ms": "-1",
}
Offsets = dict[tuple[str, int], int]
Lag = tuple[int | None, int | None, int | None, str | None]  # committed, end, lag, member


@dataclass
class Asked:
    """What Kafka's tools said about a broker while it ran, and where its files are."""

    log_dir: Path
    offsets: dict[str, Offsets]
    groups: set[str]
    lags: dict[tuple[str, str, int], Lag]
    members: set[tuple[str, str]]


def told_offsets(broker: Broker, time: str) -> Offsets:
    """What kafka-get-offsets prints: topic:partition:offset."""
    lines = broker.tool("get-offsets", "--time", time).stdout.split()
    parts = [line.rsplit(":", 2) for line in lines]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in parts}


def told_lags(broker: Broker) -> dict[tuple[str, str, int], Lag]:
    """What kafka-consumer-groups prints: committed offset, end, lag and member of each partition."""
    found: dict[tuple[str, str, int], Lag] = {}
    text = broker.tool("consumer-groups", "--describe", "--all-groups", "--offsets").stdout
    for line in text.splitlines():
        words = [None if word == "-" else word for word in line.split()]
        if len(words) < 7 or words[0] == "GROUP":
            continue
        group, topic, partition, committed, end, lag, member = words[:7]
        assert group
        assert topic
        numbers = [None if each is None else int(each) for each in (committed, end, lag)]
        found[group, topic, int(partition or 0)] = (numbers[0], numbers[1], numbers[2], member)
    return found


def told_members(broker: Broker) -> set[tuple[str, str]]:
    text = broker.tool("consumer-groups", "--describe", "--all-groups", "--members").stdout
    rows = [line.split() for line in text.splitlines() if line and not line.startswith("GROUP")]
    return {(words[0], words[1]) for words in rows if len(words) >= 5}


def consume(bootstrap: str, group: str, topic: str, count: int, **config: Any) -> Consumer:
    """A member that has read and committed `count` records, and stays."""
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": group}
    client = Consumer({"bootstrap.servers": bootstrap, **settings, **QUIET, **config})
    client.subscribe([topic])
    read = 0
    while read < count:
        read += len(client.consume(count - read, timeout=1.0))
    client.commit(asynchronous=False)
    return client


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """A broker with topics, groups of both protocols, and one that committed without being a member."""
    with Broker(had(resolve), tmp_path_factory.mktemp("questions"), properties=PROMPT) as broker:
        topic, trimmed = f"t-{uuid.uuid4().hex}", f"trimmed-{uuid.uuid4().hex}"
        for name in (topic, trimmed):
            create_topic(broker.bootstrap, name, partitions=2)
            for partition in range(2):
                records = [
                    {"value": b"%d" % n, "timestamp": T0 + 1000 * (n if partition else 100 - n)}
                    for n in range(100)
                ]
                produce(producer(broker.bootstrap), name, records, partition=partition, batch=7)
        delete_records(broker.bootstrap, trimmed, 0, 42)
        starts = broker.log_dir / "log-start-offset-checkpoint"
        until(lambda: f"{trimmed} 0 42" in starts.read_text())
        clients = [
            consume(broker.bootstrap, "classic", topic, 60),
            consume(broker.bootstrap, "modern", trimmed, 30, **{"group.protocol": "consumer"}),
        ]
        gone = consume(broker.bootstrap, "gone", topic, 10)
        gone.close()
        alone = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "alone", **QUIET})
        alone.commit(offsets=[TopicPartition(topic, 1, 33)], asynchronous=False)
        alone.close()
        until(lambda: "gone" in broker.tool("consumer-groups", "--list").stdout)
        yield Asked(
            log_dir=broker.log_dir,
            offsets={time: told_offsets(broker, time) for time in TIMES},
            groups=set(broker.tool("consumer-groups", "--list").stdout.split()),
            lags=told_lags(broker),
            members=told_members(broker),
        )
        for client in clients:
            client.close()


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main.run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("time", TIMES)
def test_offsets_are_those_of_kafka_get_offsets(
    asked: Asked, time: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "offsets", str(asked.log_dir), "--time", time)

    ours = {(each["topic"], each["partition"]): each["offset"] for each in found["offsets"]}
    # Kafka's tool leaves out a partition without such a record.
    assert {place: offset for place, offset in ours.items() if offset is not None} == asked.offsets[time]
    assert asked.offsets[time]


def test_groups_and_lag_are_those_of_kafka_consumer_groups(
    asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "groups", str(asked.log_dir))

    assert {each["group"] for each in found["groups"]} == asked.groups
    commits = {
        (each["group"], each["topic"], each["partition"]): (
            each["committed_offset"],
            each["end_offset"],
            each["lag"],
            each["member"],
        )
        for each in found["commits"]
    }
    assert commits == asked.lags
    assert {place[0] for place in commits} == {"classic", "modern", "gone", "alone"}
    assert {each[3] is None for each in commits.values()} == {True, False}


def test_members_are_those_of_kafka_consumer_groups(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "groups", str(asked.log_dir))

    assert {(each["group"], each["member"]) for each in found["members"]} == asked.members
    assert {group for group, _ in asked.members} == {"classic", "modern"}


def told_rows(broker: Broker, *arguments: str) -> list[list[str]]:
    """The table that kafka-transactions prints, without its head."""
    return [line.split() for line in broker.tool("transactions", *arguments).stdout.splitlines()[1:]]


def told_producers(broker: Broker, topic: str) -> set[tuple[int | None, ...]]:
    rows = told_rows(broker, "describe-producers", "--topic", topic, "--partition", "0")
    return {tuple(None if word == "None" else int(word) for word in row) for row in rows}


def our_producers(found: dict[str, Any], topic: str) -> set[tuple[int | None, ...]]:
    names = (
        "producer_id",
        "producer_epoch",
        "coordinator_epoch",
        "last_sequence",
        "last_timestamp",
        "first_offset",
    )
    return {
        tuple(each[name] for name in names)
        for each in found["producers"]
        if each["partition"] == f"{topic}-0"
    }


def test_transactions_are_those_of_kafka_transactions(
    make_broker: MakeBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ended, open, and one whose coordinator knows nothing of it: that batch is written to the file."""
    broker = make_broker(properties=PROMPT)
    topic = "txn"
    create_topic(broker.bootstrap, topic)
    for name, ends in (("committed", "commit_transaction"), ("aborted", "abort_transaction"), ("open", "")):
        client = producer(broker.bootstrap, transactional_id=name, transaction_timeout_ms=600_000)
        client.init_transactions(PATIENCE_S)
        client.begin_transaction()
        produce(client, topic, [{"value": b"%d" % number} for number in range(7)])
        if ends:
            getattr(client, ends)(PATIENCE_S)
    until(lambda: not {"PrepareCommit", "PrepareAbort"} & {row[3] for row in told_rows(broker, "list")})
    listed = {(row[0], int(row[2]), row[3]) for row in told_rows(broker, "list")}
    producers = told_producers(broker, topic)

    found = document(capsys, "transactions", str(broker.log_dir), "--producers")

    ids = found["transactional_ids"]
    assert {(each["transactional_id"], each["producer_id"], each["state"]) for each in ids} == listed
    assert our_producers(found, topic) == producers
    assert [each["transactional_id"] for each in found["open"]] == ["open"]

    broker.stop()
    with stratalog.open_log(broker.log_dir / f"{topic}-0") as log:
        log.append_batch(produced(4711, 0, b"orphan", transactional=True, timestamp=T0))
    broker.start()
    rows = told_rows(broker, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    hanging = {(row[0], int(row[1]), int(row[2]), int(row[5])) for row in rows}

    assert main.run(["transactions", str(broker.log_dir), "--max-timeout", "0", "--json"]) == 1

    found = json.loads(capsys.readouterr().out)
    ours = {
        (topic, 0, each["producer_id"], each["first_offset"]) for each in found["open"] if each["is_hanging"]
    }
    assert ours == hanging
    assert {producer_id for _, _, producer_id, _ in ours} == {4711}
