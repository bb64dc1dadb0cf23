"""A broker with two log directories and topics of several kinds, and what its own tools say about them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, delete_records, produce, producer
from tests.kafka.conftest import MakeBroker

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"internal.segment.bytes": "4000", "index.interval.bytes": "300"}
TOPICS: dict[str, dict[str, str]] = {
    "plain": SMALL,
    "compacted": {**SMALL, "cleanup.policy": "compact"},
    "both": {**SMALL, "cleanup.policy": "compact,delete"},
    "large": {},
    "server-time": {**SMALL, "message.timestamp.type": "LogAppendTime"},
    "preallocated": {"segment.bytes": "1048576", "preallocate": "true"},
    "empty": {},
}
PROPERTIES = {"log.retention.ms": "-1", "log.cleaner.enable": "false", "auto.create.topics.enable": "false"}


def make_listed(make_broker: MakeBroker, work: Path, seed: int) -> Broker:
    """A running broker whose topics have records; the seed decides how many, how large and which codec."""
    random = Random(seed)
    folders = [work / "one", work / "two"]
    broker = make_broker(work=work, log_dirs=folders, properties=PROPERTIES)
    for topic, config in TOPICS.items():
        create_topic(broker.bootstrap, topic, partitions=random.randint(1, 3), config=config)
    for topic in TOPICS:
        if topic == "empty":
            continue
        client = producer(broker.bootstrap, compression_type=random.choice(CODECS))
        count, size = random.randint(20, 120), random.randint(10, 400)
        records = [{"key": b"%d" % (number % 9), "value": random.randbytes(size)} for number in range(count)]
        produce(client, topic, records, batch=random.randint(1, 7))
    delete_records(broker.bootstrap, "plain", 0, 11)
    return broker


def sizes_of(broker: Broker) -> dict[tuple[str, str], int]:
    """The size of each partition, by directory and name, as kafka-log-dirs prints it."""
    line = broker.tool("log-dirs", "--describe").stdout.splitlines()[-1]
    (node,) = json.loads(line)["brokers"]
    return {
        (found["logDir"], partition["partition"]): partition["size"]
        for found in node["logDirs"]
        for partition in found["partitions"]
    }


def topics_of(broker: Broker) -> list[str]:
    """The names that kafka-topics prints."""
    return sorted(broker.tool("topics", "--list").stdout.split())


def offsets_of(broker: Broker, when: str) -> dict[str, int]:
    """The offset of each partition that kafka-get-offsets prints for `earliest` or `latest`."""
    lines = broker.tool("get-offsets", "--time", when, "--exclude-internal-topics").stdout.splitlines()
    found = [line.split(":") for line in lines if line.count(":") == 2]
    return {f"{topic}-{partition}": int(offset) for topic, partition, offset in found}
