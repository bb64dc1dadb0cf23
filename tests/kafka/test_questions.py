"""`offsets`, `groups` and `transactions` on a running and a stopped broker, against Kafka's own tools.

Each seed makes a broker of its own; what is in it depends on the seed.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
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
from tests.profile import examples
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
    """What Kafka's tools said about a broker while it ran, and what we said then and after its stop."""

    offsets: dict[str, Offsets]
    groups: set[str]
    lags: dict[tuple[str, str, int], Lag]
    members: set[tuple[str, str]]
    ours: dict[str, Answers]


@dataclass
class Answers:
    """The documents that our commands print; those of `offsets` by time."""

    groups: dict[str, Any]
    offsets: dict[str, dict[str, Any]]

    @classmethod
    def on(cls, log_dir: Path) -> Answers:
        offsets = {time: document("offsets", str(log_dir), "--time", time) for time in TIMES}
        return cls(document("groups", str(log_dir)), offsets)


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


def fill(bootstrap: str, topic: str, partitions: int, random: Random) -> None:
    """Records with times that rise in one partition and fall in the next."""
    create_topic(bootstrap, topic, partitions=partitions)
    client = producer(bootstrap, compression_type=random.choice(["none", "gzip", "lz4", "zstd"]))
    for partition in range(partitions):
        records = [
            {"value": b"%d" % n, "timestamp": T0 + 1000 * (n if partition % 2 else 100 - n)}
            for n in range(100 + random.randrange(30))
        ]
        produce(client, topic, records, partition=partition, batch=random.randint(2, 20))


@pytest.fixture(scope="module", params=range(examples(10, quick=1, ci=1)))
def asked(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Asked:
    """A broker with topics, groups of both protocols, and one that committed without being a member."""
    random = Random(request.param)
    partitions = random.randint(2, 4)
    with Broker(had(resolve), tmp_path_factory.mktemp("questions"), properties=PROMPT) as broker:
        fill(broker.bootstrap, "whole", partitions, random)
        fill(broker.bootstrap, "trimmed", partitions, random)
        start = random.randint(1, 90)
        delete_records(broker.bootstrap, "trimmed", 0, start)
        starts = broker.log_dir / "log-start-offset-checkpoint"
        until(lambda: f"trimmed 0 {start}" in starts.read_text())
        clients = [
            consume(broker.bootstrap, "classic", "whole", random.randint(20, 90)),
            consume(broker.bootstrap, "modern", "trimmed", 30, **{"group.protocol": "consumer"}),
        ]
        gone = consume(broker.bootstrap, "gone", "whole", 10)
        gone.close()
        alone = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "alone", **QUIET})
        alone.commit(offsets=[TopicPartition("whole", 1, random.randint(0, 99))], asynchronous=False)
        alone.close()
        until(lambda: "gone" in broker.tool("consumer-groups", "--list").stdout)
        answers = Asked(
            offsets={time: told_offsets(broker, time) for time in TIMES},
            groups=set(broker.tool("consumer-groups", "--list").stdout.split()),
            lags=told_lags(broker),
            members=told_members(broker),
            ours={"live": Answers.on(broker.log_dir)},
        )
        broker.stop()
        answers.ours["stopped"] = Answers.on(broker.log_dir)
        for client in clients:
            client.close()
    return answers


def document(*arguments: str, status: int = 0) -> dict[str, Any]:
    """What a command prints as JSON."""
    with redirect_stdout(io.StringIO()) as printed:
        assert main.run([*arguments, "--json"]) == status
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


@pytest.mark.parametrize("when", ["live", "stopped"])
def test_offsets_are_those_of_kafka_get_offsets(asked: Asked, when: str) -> None:
    for time, found in asked.ours[when].offsets.items():
        ours = {(each["topic"], each["partition"]): each["offset"] for each in found["offsets"]}
        # Kafka's tool leaves out a partition without such a record.
        known = {place: offset for place, offset in ours.items() if offset is not None}
        assert known == asked.offsets[time], time
    assert asked.offsets["latest"]


@pytest.mark.parametrize("when", ["live", "stopped"])
def test_groups_and_lag_are_those_of_kafka_consumer_groups(asked: Asked, when: str) -> None:
    found = asked.ours[when].groups

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


@pytest.mark.parametrize("when", ["live", "stopped"])
def test_members_are_those_of_kafka_consumer_groups(asked: Asked, when: str) -> None:
    found = asked.ours[when].groups

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


def transact(bootstrap: str, topic: str, random: Random) -> list[str]:
    """Transactions that were committed, aborted and left open, some by producers that began again.

    The ids of those that are open.
    """
    ends = ["commit_transaction", "abort_transaction", ""]
    ends += random.choices(ends, k=random.randrange(4))
    for number, end in enumerate(ends):
        for _ in range(random.randint(1, 3)):  # each raises the epoch
            client = producer(bootstrap, transactional_id=f"id-{number}", transaction_timeout_ms=600_000)
            client.init_transactions(PATIENCE_S)
        client.begin_transaction()
        produce(client, topic, [{"value": b"%d" % n} for n in range(random.randint(1, 9))], batch=3)
        if end:
            getattr(client, end)(PATIENCE_S)
    produce(producer(bootstrap, enable_idempotence=True), topic, [{"value": b"plain"}] * 3)
    return [f"id-{number}" for number, end in enumerate(ends) if not end]


def named(found: dict[str, Any], key: str, names: Sequence[str]) -> set[tuple[Any, ...]]:
    return {tuple(each[name] for name in names) for each in found[key]}


@pytest.mark.parametrize("seed", range(examples(10, quick=1, ci=1)))
def test_transactions_are_those_of_kafka_transactions(make_broker: MakeBroker, seed: int) -> None:
    """Ended, open, and one whose coordinator knows nothing of it: that batch is written to the file."""
    broker = make_broker(properties=PROMPT)
    topic = "txn"
    create_topic(broker.bootstrap, topic)
    still_open = transact(broker.bootstrap, topic, Random(seed))
    until(lambda: not {"PrepareCommit", "PrepareAbort"} & {row[3] for row in told_rows(broker, "list")})
    listed = {(row[0], int(row[2]), row[3]) for row in told_rows(broker, "list")}
    producers = told_producers(broker, topic)

    live = document("transactions", str(broker.log_dir), "--producers")
    broker.stop()
    stopped = document("transactions", str(broker.log_dir), "--producers")

    for found in (live, stopped):
        ids = named(found, "transactional_ids", ("transactional_id", "producer_id", "state"))
        assert ids == listed
        assert our_producers(found, topic) == producers
        assert sorted(each["transactional_id"] for each in found["open"]) == still_open

    with stratalog.open_log(broker.log_dir / f"{topic}-0") as log:
        log.append_batch(produced(4711, 0, b"orphan", transactional=True, timestamp=T0))
    broker.start()
    rows = told_rows(broker, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    hanging = {(row[0], int(row[1]), int(row[2]), int(row[5])) for row in rows}

    found = document("transactions", str(broker.log_dir), "--max-timeout", "0", status=1)

    ours = {
        (topic, 0, each["producer_id"], each["first_offset"]) for each in found["open"] if each["is_hanging"]
    }
    assert ours == hanging
    assert {producer_id for _, _, producer_id, _ in ours} == {4711}
