"""`offsets` and `groups` on the directory of a running broker, beside what Kafka's own tools say."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from stratalog.cli import main
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, delete_records, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve
from tests.waiting import until

T0 = 1_700_000_000_000
TIMES = ["latest", "earliest", "max-timestamp", str(T0), str(T0 + 50_500), str(T0 + 90_000), str(T0 + 10**9)]
Offsets = dict[tuple[str, int], int]


@dataclass
class Asked:
    """What Kafka's tools said about a broker while it ran, and where its files are."""

    log_dir: Path
    offsets: dict[str, Offsets]
    groups: set[str]
    lags: dict[tuple[str, str, int], tuple[int | None, int, int | None]]
    members: set[tuple[str, str]]


def told_offsets(broker: Broker, time: str) -> Offsets:
    """What kafka-get-offsets prints: topic:partition:offset."""
    lines = broker.tool("get-offsets", "--time", time).stdout.split()
    parts = [line.rsplit(":", 2) for line in lines]
    return {(topic, int(partition)): int(offset) for topic, partition, offset in parts}


def told_lags(broker: Broker) -> dict[tuple[str, str, int], tuple[int | None, int, int | None]]:
    """What kafka-consumer-groups prints: committed offset, end and lag of each partition."""
    found = {}
    text = broker.tool("consumer-groups", "--describe", "--all-groups", "--offsets").stdout
    for line in text.splitlines():
        words = line.split()
        if len(words) < 6 or words[0] == "GROUP":
            continue
        numbers = [None if word == "-" else int(word) for word in words[3:6]]
        assert numbers[1] is not None
        found[words[0], words[1], int(words[2])] = (numbers[0], numbers[1], numbers[2])
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
    with Broker(had(resolve), tmp_path_factory.mktemp("questions")) as broker:
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
        )
        for each in found["commits"]
    }
    # Kafka's tool also lists partitions that a member has without a commit.
    assert commits == {place: told for place, told in asked.lags.items() if told[0] is not None}
    assert {place[0] for place in commits} == {"classic", "modern", "gone", "alone"}


def test_members_are_those_of_kafka_consumer_groups(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "groups", str(asked.log_dir))

    assert {(each["group"], each["member"]) for each in found["members"]} == asked.members
    assert {group for group, _ in asked.members} == {"classic", "modern"}
