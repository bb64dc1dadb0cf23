"""Partitions of a broker that was killed while it wrote: the source of the recovery cases.

One broker writes to a topic of each shape. It is stopped and started again twice, which raises the leader
epoch by two each time, and is killed with SIGKILL at a random moment of its third run, with one transaction
open. Its checkpoints are older than that, so recovery points and log starts are inside the logs. The seed
decides what is sent; how it is split into batches depends on librdkafka and on timing.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Producer

from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, delete_records, produce, producer
from tests.kafka.jars import KafkaJars, locked
from tests.waiting import PATIENCE_S

LIVES = 3
ROUNDS = 110  # of each life; one is a batch or a few of them to one topic
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

SHAPES: dict[str, dict[str, str]] = {
    "plain": {"internal.segment.bytes": "9000", "index.interval.bytes": "300"},
    "every-batch": {"internal.segment.bytes": "5000", "index.interval.bytes": "0"},
    "small-index": {
        "internal.segment.bytes": "20000",
        "index.interval.bytes": "0",
        "segment.index.bytes": "120",
    },
    "sparse": {"internal.segment.bytes": "30000", "index.interval.bytes": "4096"},
    "one-segment": {"index.interval.bytes": "1000"},
    "server-time": {"internal.segment.bytes": "7000", "message.timestamp.type": "LogAppendTime"},
    "preallocated": {"internal.segment.bytes": "12000", "index.interval.bytes": "500", "preallocate": "true"},
    "trimmed": {"internal.segment.bytes": "4000", "index.interval.bytes": "200"},
    "compacted": {
        "internal.segment.bytes": "6000",
        "index.interval.bytes": "300",
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
    },
}
PROPERTIES = {
    "log.index.size.max.bytes": "4096",
    "log.flush.offset.checkpoint.interval.ms": "700",
    "log.flush.start.offset.checkpoint.interval.ms": "700",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.backoff.ms": "300",
    "log.retention.ms": "-1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition of the killed broker, and what its checkpoints say of it."""

    directory: Path
    config: dict[str, str]
    recovery_point: int
    log_start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarry:
    """A copy of the log directory as the kill left it."""

    directory: Path
    partitions: tuple[Partition, ...]


def shared_quarry(jars: KafkaJars, work: Path, seed: int) -> Quarry:
    """The quarry in this folder; the first process that needs it digs it, which takes about 15 s."""
    kept = work / "killed"
    work.mkdir(parents=True, exist_ok=True)
    with locked(work / "lock"):
        if not kept.exists():
            with tempfile.TemporaryDirectory(dir=work) as partial:
                dig(jars, Path(partial), seed).rename(kept)
    return Quarry(directory=kept, partitions=tuple(_partitions(kept)))


def dig(jars: KafkaJars, work: Path, seed: int) -> Path:
    """Let a broker write, and kill it; returns a copy of what it left."""
    random = Random(seed)
    with Broker(jars, work, properties=PROPERTIES) as broker:
        for topic, config in SHAPES.items():
            create_topic(broker.bootstrap, topic, config=config)
        for life in range(LIVES):
            if life:
                broker.restart()
            traffic = Traffic(broker.bootstrap, random, life)
            traffic.run(ROUNDS)
            traffic.end_transactions()
            if life == 1:
                delete_records(broker.bootstrap, "trimmed", 0, random.randrange(20, 60))
        traffic.leave_open()
        _kill_while_writing(broker, traffic, random)
        return shutil.copytree(broker.log_dir, work / "copied")


class Traffic:
    """Clients of every kind that send to random topics."""

    def __init__(self, bootstrap: str, random: Random, life: int) -> None:
        self._random = random
        self._plain = [producer(bootstrap, compression_type=codec, linger_ms=1) for codec in CODECS]
        self._idempotent = [producer(bootstrap, enable_idempotence=True, linger_ms=1) for _ in range(2)]
        self._transactional = [
            producer(bootstrap, transactional_id=f"{number} of life {life}") for number in range(3)
        ]
        for client in self._transactional:
            client.init_transactions(PATIENCE_S)
        self._begun: set[Producer] = set()

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            client = self._random.choice([*self._plain, *self._idempotent, *self._transactional])
            if client in self._transactional:
                self._transact(client)
            else:
                self._send(client)

    def run_until(self, stop: threading.Event) -> None:
        """Send without waiting for answers, because there may be none any more."""
        while not stop.is_set():
            client = self._random.choice([*self._plain, *self._idempotent])
            topic = self._random.choice(list(SHAPES))
            for record in self._records():
                client.produce(topic, partition=0, **record)
            client.flush(0.02)

    def end_transactions(self) -> None:
        for client in list(self._begun):
            self._end(client)

    def leave_open(self) -> None:
        """A transaction over all topics that nobody ends."""
        client = self._transactional[0]
        client.begin_transaction()
        for topic in SHAPES:
            produce(client, topic, self._records())

    def _transact(self, client: Producer) -> None:
        if client not in self._begun:
            client.begin_transaction()
            self._begun.add(client)
        for _ in range(self._random.choice([1, 2, 4])):
            self._send(client)
        if self._random.random() < 0.6:
            self._end(client)

    def _end(self, client: Producer) -> None:
        self._begun.remove(client)
        if self._random.random() < 0.5:
            client.commit_transaction(PATIENCE_S)
        else:
            client.abort_transaction(PATIENCE_S)

    def _send(self, client: Producer) -> None:
        topic = self._random.choice(list(SHAPES))
        produce(client, topic, self._records(), batch=self._random.choice([1, 3, 10]))

    def _records(self) -> list[dict[str, Any]]:
        now_ms = int(time.time() * 1000)
        return [
            {
                "key": b"key %d" % self._random.randrange(30),
                "value": self._random.randbytes(self._random.choice([0, 10, 10, 100, 100, 400])),
                "timestamp": now_ms - self._random.choice([0, 0, 0, 1000, 60_000]),
            }
            for _ in range(self._random.choice([1, 1, 3, 8]))
        ]


def _kill_while_writing(broker: Broker, traffic: Traffic, random: Random) -> None:
    stop = threading.Event()
    writing = threading.Thread(target=traffic.run_until, args=(stop,))
    writing.start()
    try:
        time.sleep(random.uniform(0.1, 1.5))
        broker.kill()
    finally:
        stop.set()
        writing.join()


def _partitions(directory: Path) -> Iterator[Partition]:
    points = checkpoint(directory / "recovery-point-offset-checkpoint")
    starts = checkpoint(directory / "log-start-offset-checkpoint")
    for topic, config in SHAPES.items():
        yield Partition(
            directory=directory / f"{topic}-0",
            config={"segment.index.bytes": PROPERTIES["log.index.size.max.bytes"]} | config,
            recovery_point=points.get(topic, 0),
            log_start_offset=starts.get(topic, 0),
        )


def checkpoint(file: Path) -> dict[str, int]:
    """The offsets in a checkpoint file of topics with one partition each."""
    rows = (line.split() for line in file.read_text().splitlines()[2:])
    return {topic: int(offset) for topic, _, offset in rows}
