"""Our cleaner beside a broker's on the same topics; and a broker that starts on ours and cleans on.

Five topics are written by clients, one with each codec, and up to five are histories of
`test_cleaning.py`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer

from stratalog.clock import system_clock
from stratalog.log.cleaning import CleanResult
from stratalog.records.batch import BatchHeader
from stratalog.records.reader import read_batches
from tests import profile
from tests.kafka.broker import Broker
from tests.kafka.cleaning import DirtyHistory, OurCleaner
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import KafkaJars
from tests.waiting import PATIENCE_S, until

CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "internal.segment.bytes": "6000",
    "file.delete.delay.ms": "100",
}
CODECS = {"plain": "none", "gzipped": "gzip", "snappy": "snappy", "lz": "lz4", "zstandard": "zstd"}
# Those with the largest segments, as clients write to them too; without old formats, whose tombstones go by
# the times of files.
SEEDS = (5, 10, 13, 21, 22)[: profile.examples(5, quick=1, ci=2)]
HISTORIES = {f"history-{seed}": seed for seed in SEEDS}
TOPICS = [*CODECS, *HISTORIES]
CLEANING = {"log.cleaner.backoff.ms": "100"}
NOT_CLEANING = {"log.cleaner.enable": "false"}


def test_a_broker_cleans_to_the_same_batches_and_goes_on_with_ours(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    with had(lambda: Broker(kafka_jars, theirs, properties=NOT_CLEANING)) as broker:
        for seed, (topic, codec) in enumerate(CODECS.items()):
            create_topic(broker.bootstrap, topic, config=CONFIG)
            write(broker, topic, codec, Random(seed))
        for topic in HISTORIES:
            create_topic(broker.bootstrap, topic, config=config_of(topic))
        broker.stop()
    for topic in HISTORIES:
        write_history(theirs / "logs" / f"{topic}-0", topic)
    shutil.copytree(theirs, ours)

    for topic in TOPICS:
        side = OurCleaner(ours / "logs" / f"{topic}-0", config_of(topic), system_clock())
        result = side.clean(0, 1 << 20)
        side.log.close()
        assert isinstance(result, CleanResult)
        assert 0 < result.stats.records_written < result.stats.records_read
    with Broker(kafka_jars, theirs, properties=CLEANING) as broker:
        until_cleaned(broker)
        broker.stop()

    for topic in TOPICS:
        assert batches_of(ours / "logs" / f"{topic}-0") == batches_of(theirs / "logs" / f"{topic}-0"), topic
    with Broker(kafka_jars, ours, properties=CLEANING) as broker:
        assert not broker.log_lines(rf"\b(WARN|ERROR)\b.*({'|'.join(TOPICS)})-0")
        for seed, topic in enumerate(TOPICS, start=10):
            write(broker, topic, CODECS.get(topic, "none"), Random(seed))
        until_cleaned(broker)
        # On a busy machine the broker has errors of its own requests too.
        assert not broker.log_lines(rf"uncleanable|\bERROR\b.*([Cc]leaner|log dir|{'|'.join(TOPICS)})")
        broker.stop()


def config_of(topic: str) -> dict[str, str]:
    if topic in CODECS:
        return CONFIG
    return {**DirtyHistory(HISTORIES[topic]).config, "min.cleanable.dirty.ratio": "0.01"}


def write_history(directory: Path, topic: str) -> None:
    """In the place of a log that its broker has made and stopped with."""
    history, now_ms = DirtyHistory(HISTORIES[topic], leader_epoch=0), system_clock()
    side = OurCleaner(directory, history.config, now_ms)
    history.write(side.log, now_ms, 150)
    history.end_transactions(side.log, now_ms)
    side.log.close()


def write(broker: Broker, topic: str, codec: str, random: Random) -> None:
    """Keys over and over, tombstones among them; then a few transactions, some aborted."""
    client = producer(broker.bootstrap, compression_type=codec, linger_ms=50)
    produce(client, topic, [record(random) for _ in range(300)], batch=10)
    client = producer(broker.bootstrap, compression_type=codec, transactional_id=f"{topic} {random.random()}")
    client.init_transactions(PATIENCE_S)
    for _ in range(8):
        transact(client, topic, random)
    produce(producer(broker.bootstrap, linger_ms=50), topic, [record(random) for _ in range(100)], batch=10)


def transact(client: Producer, topic: str, random: Random) -> None:
    client.begin_transaction()
    for _ in range(random.choice([1, 5, 20])):
        client.produce(topic, partition=0, **record(random))
    client.flush(PATIENCE_S)
    if random.random() < 0.5:
        client.abort_transaction(PATIENCE_S)
    else:
        client.commit_transaction(PATIENCE_S)


def record(random: Random) -> dict[str, Any]:
    value = None if random.random() < 0.15 else random.randbytes(random.choice([5, 50, 300]))
    return {"key": b"k%d" % random.randrange(40), "value": value}


def until_cleaned(broker: Broker) -> None:
    """Wait until the broker has cleaned all topics up to their active segments."""
    until(lambda: all(is_cleaned(broker, topic) for topic in TOPICS), "all topics are cleaned")


def is_cleaned(broker: Broker, topic: str) -> bool:
    checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return False
    offsets = [
        int(line.split()[2]) for line in checkpoint.read_text().splitlines() if line.startswith(f"{topic} ")
    ]
    active = max(int(file.stem) for file in (broker.log_dir / f"{topic}-0").glob("*.log"))
    return offsets == [active]


def batches_of(directory: Path) -> list[tuple[Any, ...]]:
    """What every batch is, its delete horizon and the places in the file aside."""
    found: list[tuple[Any, ...]] = []
    for log in sorted(directory.glob("*.log")):
        data, position = log.read_bytes(), 0
        for batch in read_batches(data):
            header = BatchHeader.unpack(data, position)
            position += header.size
            kept = header._replace(batch_length=0, crc=0, base_timestamp=0)
            found.append((log.name, kept, list(batch)))
    return found
